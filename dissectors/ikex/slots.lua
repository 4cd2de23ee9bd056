--[[ Slots: the places of messages in the exchanges of an IKE SA, the requests and the responses of its pairs.

A transmission is one datagram, or the datagrams of all fragments. A message that was sent three times has three
transmissions. Messages of one slot with different contents have different bodies, numbered from 1. ]]
local Datagram = require("ikex.datagram")
local message_table = require("ikex.message_table")
local retransmission = require("ikex.retransmission")

local slots = {}

local TIME, BYTES, FRAGMENT, TOTAL, DIGEST = Datagram.TIME, Datagram.BYTES, Datagram.FRAGMENT, Datagram.TOTAL,
    Datagram.DIGEST
local SLOT, TRANSMISSION = Datagram.SLOT, Datagram.TRANSMISSION

local NONE = {}
-- A slot with more datagrams than this is grouped again only when it has grown by an eighth.
local LARGE = 256

--- Stands for the only transmission of a slot without `several`, which has not been built.
slots.FIRST = { number = 1 }

--- The slot of the first datagram of a message of `sender` (true: the initiator): the list of its datagrams, in order
-- of time (see `sort`), with these fields: `response`, `from_initiator`, `on_4500` (a datagram used UDP port 4500) and
-- `fragmented` (a datagram is a fragment of RFC 7383): true, or else nil, because a table of four fields takes half as
-- much memory; `several`: nil while all datagrams are one transmission, which has not been built, and `fragments` are
-- its datagrams by fragment number, nil while these are in order from 1 on; `transmissions`, built from the first
-- `grouped` datagrams; `several_bodies`: these have different bodies; `stale`: they must all be built again.
function slots.new(pair, response, sender, datagram)
    local slot = { datagram, pair = pair, response = response or nil }
    if sender then
        slot.from_initiator = true
    end
    pair[response and "response" or "request"] = slot
    local fragment = datagram[FRAGMENT]
    if fragment > 0 then
        slot.fragmented = true
        if datagram.incomplete then
            slot.several = true
        elseif fragment > 1 then
            slot.fragments = { [fragment] = datagram }
        end
    end
    return slot
end

-- The body of a slot with this content, for a slot that has a transmission already: most have only one.
local function get_body(slot, digest)
    if not slot.bodies then
        local first = slot.transmissions[1]
        slot.bodies = {}
        message_table.set(slot.bodies, first.datagrams[1][DIGEST], { number = 1, transmissions = 1, first = first })
        slot.count = 1
    end
    local body = message_table.get(slot.bodies, digest)
    if not body then
        slot.count = slot.count + 1
        body = { number = slot.count, transmissions = 0 }
        slot.several_bodies = true
        message_table.set(slot.bodies, digest, body)
    end
    return body
end

-- Add the transmission of an unfragmented message: the content identifies the body.
local function add_unfragmented(slot, datagram)
    local body
    if #slot.transmissions > 0 then
        body = get_body(slot, datagram[DIGEST])
        body.transmissions = body.transmissions + 1
    end
    local transmission = {
        slot = slot, body = body and body.number or 1, number = body and body.transmissions or 1,
        time = datagram[TIME], last_time = datagram.last_time, bytes = datagram[BYTES], frames = datagram.frames,
        datagrams = { datagram }, first = nil, exchange = nil,
    }
    if body then
        body.first = body.first or transmission
    end
    transmission.first = body and body.first or transmission
    slot.transmissions[#slot.transmissions + 1] = transmission
    datagram[TRANSMISSION] = transmission
end

local function new_fragmented(slot, body, number, time)
    return {
        slot = slot, body = body, number = number, time = time, last_time = 0, bytes = 0, frames = 0, datagrams = {},
        total = 0, fragments = {}, fragment_count = 0, first = nil, exchange = nil,
    }
end

-- Add a datagram to a transmission.
local function add_fragment(transmission, datagram)
    local fragment = datagram[FRAGMENT]
    transmission.datagrams[#transmission.datagrams + 1] = datagram
    transmission.bytes = transmission.bytes + datagram[BYTES]
    transmission.frames = transmission.frames + datagram.frames
    transmission.last_time = math.max(transmission.last_time, datagram.last_time)
    transmission.total = math.max(transmission.total, datagram[TOTAL])
    local lost = datagram.incomplete and transmission.slot.pair.sa.version ~= 1
    if fragment > 0 and not lost and not transmission.fragments[fragment] then
        transmission.fragments[fragment] = datagram
        transmission.fragment_count = transmission.fragment_count + 1
    end
    datagram[TRANSMISSION] = transmission
end

-- Group all datagrams of a slot with fragments into transmissions.
local function group_fragments(slot)
    local transmissions, firsts = {}, {}
    if not slot.several then -- there is nothing to classify
        local transmission = new_fragmented(slot, 1, 1, slot[1][TIME])
        for _, datagram in ipairs(slot) do
            add_fragment(transmission, datagram)
        end
        transmission.first = transmission
        transmissions[1] = transmission
    else
        for position, own in ipairs(retransmission.classify_fragments(slot, slot.pair.sa.version == 1)) do
            local transmission = new_fragmented(slot, own.body, own.number, own.datagrams[1][TIME])
            for _, datagram in ipairs(own.datagrams) do
                add_fragment(transmission, datagram)
            end
            firsts[own.body] = firsts[own.body] or transmission
            transmission.first = firsts[own.body]
            slot.several_bodies = slot.several_bodies or own.body > 1
            transmissions[position] = transmission
        end
    end
    slot.transmissions = transmissions
    slot.pair.sa.exchanges = nil
end

-- Add the latest datagram of a slot to its only transmission, if that lacks this fragment: the usual case, in which the
-- slot need not be grouped again.
local function add_next_fragment(slot, datagram)
    local transmission = slot.transmissions[1]
    local fragment, total = datagram[FRAGMENT], datagram[TOTAL]
    if
        #slot.transmissions ~= 1 or slot.grouped ~= #slot - 1
        or fragment == 0 or total == 0 or total ~= transmission.total or transmission.fragments[fragment]
    then
        slot.stale = true
        return
    end
    add_fragment(transmission, datagram)
    slot.grouped = #slot
end

-- Put the datagrams of a slot into order of time; those of one time remain in order of the capture.
local function sort(slot)
    local positions = {}
    for position, datagram in ipairs(slot) do
        positions[datagram] = position
    end
    table.sort(slot, function(a, b)
        if a[TIME] ~= b[TIME] then
            return a[TIME] < b[TIME]
        end
        return positions[a] < positions[b]
    end)
    slot.unsorted, slot.start = nil, nil
end

-- Build the transmissions of all datagrams of a slot.
local function group(slot)
    if slot.unsorted then
        sort(slot)
    end
    slot.several_bodies = false
    if slot.fragmented then
        group_fragments(slot)
    else
        slot.transmissions, slot.bodies, slot.count = {}, nil, nil
        for _, datagram in ipairs(slot) do
            add_unfragmented(slot, datagram)
        end
    end
    slot.several, slot.fragments, slot.stale = true, nil, nil
    slot.grouped = #slot
    if slot.pair.exchanges then
        slot.pair.changed = true
    end
end

--- The transmissions of a slot, in order of time; `exactly`: group the latest datagrams of a large slot too.
function slots.transmissions(slot, exactly)
    local count, grouped = #slot, slot.grouped or 0
    if grouped == count then
        return slot.transmissions
    elseif grouped > 0 and not slot.stale then -- without fragments
        for index = grouped + 1, count do
            add_unfragmented(slot, slot[index])
        end
        slot.grouped = count
    elseif exactly or count <= LARGE or (count - grouped) * 8 >= count then
        group(slot)
    end
    return slot.transmissions
end

--- For each body of some transmissions of one slot, the datagrams that one transmission of it needs: see
-- `retransmission.find_needed`. The bodies are in order of time.
function slots.find_needed(transmissions)
    local firsts, of_body = {}, {}
    for _, transmission in ipairs(transmissions) do
        local first = transmission.first
        if not of_body[first] then
            of_body[first], firsts[#firsts + 1] = {}, first
        end
    end
    local slot = transmissions[1] and transmissions[1].slot
    for _, datagram in ipairs(slot and slot.fragmented and slot or NONE) do
        local transmission = datagram[TRANSMISSION]
        local datagrams = transmission and of_body[transmission.first]
        if datagrams then
            datagrams[#datagrams + 1] = datagram
        end
    end
    local result = {}
    for index, first in ipairs(firsts) do
        result[index] = slot.fragmented and retransmission.find_needed(of_body[first], slot.pair.sa.version == 1)
            or { first.datagrams[1], total = 0, lost = NONE }
    end
    return result
end

--- The time of the first datagram of a slot.
function slots.start(slot)
    return slot.start or slot[1][TIME]
end

--- Whether all datagrams of a slot have the same body: they are one message. `exactly`: as in `transmissions`.
function slots.has_one_body(slot, exactly)
    if not slot.several then
        return true
    end
    slots.transmissions(slot, exactly)
    return not slot.several_bodies
end

--- Whether the message of a slot without `several` lacks fragments, and the time of its last datagram.
function slots.lacks_fragments(slot)
    if slot[1][TOTAL] <= #slot then
        return false
    end
    return true, slot[#slot].last_time
end

--- The transmission that a datagram belongs to; nil if its slot has not been grouped yet. `exactly`: as in
-- `transmissions`.
function slots.transmission_of(datagram, exactly)
    slots.transmissions(datagram[SLOT], exactly)
    return datagram[TRANSMISSION] or nil
end

--- The digest of a datagram of the slot that may have the same content as an incomplete datagram; nil if there is none.
function slots.find_same_content(slot, datagram, parsed)
    if slot.unsorted then
        sort(slot)
    end
    for _, other in ipairs(slot) do
        if other.size == datagram.size and other.fragment == datagram.fragment and other.total == datagram.total then
            local size = math.min(#other.digest, #parsed.digest)
            if not parsed.clear or other.digest:sub(1, size) == parsed.digest:sub(1, size) then
                return other.digest
            end
        end
    end
    return nil
end

-- Note the fragment number of the latest datagram of a slot without `several`. Returns whether it is another fragment
-- of the same transmission. `count`: of the datagrams before it.
local function note_fragment(slot, datagram, count)
    local fragment, total, fragments = datagram[FRAGMENT], datagram[TOTAL], slot.fragments
    if not slot.fragmented or fragment == 0 or total == 0 or total ~= slot[1][TOTAL] then
        return false
    elseif not fragments then -- those before have the numbers up to `count`
        if fragment > count + 1 then
            slot.fragments = {}
            for _, each in ipairs(slot) do
                slot.fragments[each[FRAGMENT]] = each
            end
        end
        return fragment > count
    elseif fragments[fragment] then
        return false
    end
    fragments[fragment] = datagram
    return true
end

--- Build the transmissions of a slot again: one of its datagrams has changed.
function slots.regroup(slot)
    slot.grouped, slot.stale = nil, true
    if slot.pair.exchanges then
        slot.pair.changed = true
    end
end

--- Append a datagram to its slot, which has others.
function slots.append(slot, datagram)
    local count, fragment = #slot, datagram[FRAGMENT]
    slot[count + 1] = datagram
    if datagram[TIME] < slot[count][TIME] or slot.unsorted then
        slot.start = math.min(slots.start(slot), datagram[TIME])
        slot.several, slot.stale, slot.unsorted = true, true, true
        slot.fragmented = slot.fragmented or fragment > 0
    elseif not slot.several then
        if datagram.incomplete or not note_fragment(slot, datagram, count) then
            slot.several, slot.fragments = true, nil
            slot.fragmented = slot.fragmented or fragment > 0
        end
    elseif fragment > 0 and not slot.fragmented then
        slot.fragmented, slot.stale = true, true
    elseif slot.fragmented and slot.transmissions then
        add_next_fragment(slot, datagram)
    end
end

return slots
