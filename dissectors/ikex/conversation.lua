--[[ IKE SAs and what is said in them: exchanges of messages, each sent once or more often.

    IKE SA ─ pair (side, exchange type, message ID) ─ slot (its request or its response) ─ messages ─ units

A unit is one datagram; a message is a unit, or the units of its fragments; each transmission is a message of its own. ]]
local retransmission = require("ikex.retransmission")

local Conversation = {}
Conversation.__index = Conversation

local INFORMATIONAL_V1 = 5
-- A slot with more fragments than this is looked at again only when it has grown by an eighth.
local LARGE = 256

function Conversation.new()
    return setmetatable({ sas = {} }, Conversation)
end

--- A new IKE SA, whose first message is `view`.
function Conversation:new_sa(view)
    local head = view.head
    local initiators = view.head.major == 1 or head.from_initiator
    local here, there = initiators and "source" or "destination", initiators and "destination" or "source"
    local sa = {
        number = #self.sas + 1,
        version = head.major,
        spi_i = head.spi_i,
        spi_r = head.spi_r,
        initiator = view[here],
        initiator_port = view[here .. "_port"],
        responder = view[there],
        responder_port = view[there .. "_port"],
        start = view.time,
        begun_init = head.spi_r == ("\0"):rep(8),
        pairs = {}, -- by a number made of message ID, exchange type and whose exchange it is
        list = {}, -- pairs in order of their first units
        asked = { [true] = {}, [false] = {} }, -- of them, those with a request, by whether the initiator asked
        bytes = { [true] = 0, [false] = 0 }, -- so far, by whether the initiator sent them
        news = {}, -- messages whose contents nobody has looked at yet
    }
    self.sas[sa.number] = sa
    return sa
end

-- Who sent it, whose exchange it is, and whether it is the response in it. IKEv1 has no flags for that: who sent the first
-- message is the initiator, who speaks first in an exchange asks, and informational messages are never answered.
local function roles(sa, view)
    local head = view.head
    if head.major == 2 then
        return head.from_initiator, head.from_initiator ~= head.response, head.response
    end
    local sender
    if sa.initiator == sa.responder then
        sender = view.source_port == sa.initiator_port
    else
        sender = view.source == sa.initiator
    end
    if head.exchange == INFORMATIONAL_V1 then
        return sender, sender, false
    end
    sa.first_speakers = sa.first_speakers or {}
    local key = head.exchange * 4294967296 + head.message_id
    if sa.first_speakers[key] == nil then
        sa.first_speakers[key] = sender
    end
    local asked = sa.first_speakers[key]
    return sender, asked, asked ~= sender
end

local function pair_of(sa, head, asked)
    local key = (head.message_id * 256 + head.exchange) * 2 + (asked and 0 or 1)
    local pair = sa.pairs[key]
    if not pair then
        pair = {
            sa = sa,
            exchange = head.exchange,
            message_id = head.message_id,
            asked_by_initiator = asked,
            number = #sa.list + 1,
        }
        sa.pairs[key] = pair
        sa.list[pair.number] = pair
    end
    return pair
end

local function slot_of(pair, response)
    local name = response and "response" or "request"
    local slot = pair[name]
    if not slot then
        slot = { pair = pair, response = response, units = {}, messages = {}, settled = 0 }
        pair[name] = slot
        if not response then
            local asked = pair.sa.asked[pair.asked_by_initiator]
            asked[#asked + 1] = pair
            pair.place = #asked
        end
    end
    return slot
end

-- The message of a whole unit: its body is known by its content alone.
local function enter_whole(slot, unit)
    slot.bodies = slot.bodies or {}
    local body = slot.bodies[unit.digest]
    if not body then
        slot.count = (slot.count or 0) + 1
        body = { number = slot.count, sent = 0 }
        slot.bodies[unit.digest] = body
    end
    body.sent = body.sent + 1
    local sent = {
        slot = slot, body = body.number, transmission = body.sent,
        time = unit.time, last_time = unit.last_time, bytes = unit.bytes, frames = unit.frames, units = { unit },
    }
    body.first = body.first or sent
    sent.first = body.first
    slot.messages[#slot.messages + 1] = sent
    unit.message = sent
end

-- The messages of a slot with fragments, all anew.
local function settle_fragments(slot)
    local units = slot.units
    local turns = retransmission.fragmented(units, slot.pair.sa.version == 1)
    local messages, firsts = {}, {}
    for _, turn in ipairs(turns) do
        local sent = {
            slot = slot, body = turn.body, transmission = turn.transmission,
            time = units[turn.first].time, last_time = 0, bytes = 0, frames = 0, units = {},
            total = 0, seen = {}, have = 0,
        }
        for index = turn.first, turn.last do
            local unit = units[index]
            sent.units[#sent.units + 1] = unit
            sent.bytes, sent.frames = sent.bytes + unit.bytes, sent.frames + unit.frames
            sent.last_time = math.max(sent.last_time, unit.last_time)
            sent.total = math.max(sent.total, unit.total)
            if unit.fragment > 0 and not sent.seen[unit.fragment] then
                sent.seen[unit.fragment] = unit
                sent.have = sent.have + 1
            end
            unit.message = sent
        end
        firsts[turn.body] = firsts[turn.body] or sent
        sent.first = firsts[turn.body]
        messages[#messages + 1] = sent
    end
    slot.messages = messages
    slot.settled = #units
end

--- The messages of a slot, in order of time; `exactly`: whatever that takes.
function Conversation.messages(slot, exactly)
    if slot.fragmented and slot.settled < #slot.units then
        local grown = #slot.units - slot.settled
        if exactly or #slot.units <= LARGE or grown * 8 >= #slot.units then
            settle_fragments(slot)
        end
    end
    return slot.messages
end

--- The message that a unit belongs to; nil if that is not settled yet.
function Conversation.message_of(unit)
    Conversation.messages(unit.slot)
    return unit.message
end

local function in_order(units, unit)
    local at = #units + 1
    while at > 1 and units[at - 1].time > unit.time do
        at = at - 1
    end
    table.insert(units, at, unit)
    return at == #units
end

--- The content of a unit of the slot that one of which the capture lacks bytes must be a transmission of; nil if there is none.
function Conversation.content_like(slot, unit, view)
    for _, other in ipairs(slot.units) do
        if other.size == unit.size and other.fragment == unit.fragment and other.total == unit.total then
            local size = math.min(#other.digest, #view.digest)
            if not view.clear or other.digest:sub(1, size) == view.digest:sub(1, size) then
                return other.digest
            end
        end
    end
    return nil
end

--- Enter a unit: `view` has its header and ends, `sa` is its IKE SA.
function Conversation:enter(sa, unit, view)
    local head = view.head
    local sender, asked, response = roles(sa, view)
    local pair = pair_of(sa, head, asked)
    local slot = slot_of(pair, response)
    unit.slot = slot
    slot.from_initiator = sender
    pair.changed = true
    sa.changed = true
    sa.last_time = math.max(sa.last_time or 0, unit.last_time)
    if view.init then
        if head.major == 2 and not response then
            -- the last request counts: a REDIRECT may have led to another gateway, and another SPI
            sa.spi_i, sa.responder, sa.responder_port = head.spi_i, view.destination, view.destination_port
        end
        if head.spi_r ~= ("\0"):rep(8) and not sa.protected then
            sa.spi_r = head.spi_r
        end
    elseif head.spi_r ~= ("\0"):rep(8) then
        sa.spi_r, sa.protected = head.spi_r, true
    end
    sa.bytes[sender] = sa.bytes[sender] + unit.bytes
    unit.sent_by_initiator, unit.sent_by_responder = sa.bytes[true], sa.bytes[false]
    local last = in_order(slot.units, unit)
    if unit.fragment > 0 and not slot.fragmented then
        slot.fragmented = true
        slot.settled = 0
    end
    if not slot.fragmented then
        if last then
            enter_whole(slot, unit)
        else
            slot.messages, slot.bodies, slot.count = {}, nil, nil
            for _, one in ipairs(slot.units) do
                enter_whole(slot, one)
            end
        end
    elseif not last then
        slot.settled = 0
    end
end

--- Count the bytes so far of an IKE SA again, after a unit was entered that is not the latest.
function Conversation.recount(sa)
    local units = {}
    for _, pair in ipairs(sa.list) do
        for _, slot in pairs({ request = pair.request, response = pair.response }) do
            for _, unit in ipairs(slot.units) do
                units[#units + 1] = unit
            end
        end
    end
    table.sort(units, function(one, other)
        if one.time ~= other.time then
            return one.time < other.time
        end
        return one.number < other.number
    end)
    local sums = { [true] = 0, [false] = 0 }
    for _, unit in ipairs(units) do
        local side = unit.slot.from_initiator
        sums[side] = sums[side] + unit.bytes
        unit.sent_by_initiator, unit.sent_by_responder = sums[true], sums[false]
    end
    sa.bytes = sums
end

return Conversation
