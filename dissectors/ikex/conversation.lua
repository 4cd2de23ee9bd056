--[[ IKE SAs, and the transmissions of their messages.

    IKE SA ─ pair (side, exchange type, message ID) ─ slot (its request or its response) ─ transmissions ─ datagrams

A transmission is one datagram, or the datagrams of all fragments. A message that was sent three times has three
transmissions. Messages of one slot with different contents have different bodies, numbered from 1. ]]
local Datagram = require("ikex.datagram")
local message_table = require("ikex.message_table")
local retransmission = require("ikex.retransmission")

local Conversation = {}
Conversation.__index = Conversation

local TIME, BYTES, TTL, FRAGMENT, TOTAL = Datagram.TIME, Datagram.BYTES, Datagram.TTL, Datagram.FRAGMENT, Datagram.TOTAL
local DIGEST, SLOT, TRANSMISSION = Datagram.DIGEST, Datagram.SLOT, Datagram.TRANSMISSION
local SENT_BY_INITIATOR, SENT_BY_RESPONDER = Datagram.SENT_BY_INITIATOR, Datagram.SENT_BY_RESPONDER
local INFORMATIONAL_V1 = 5
local NO_SPI = ("\0"):rep(8)
-- The times to live with which systems send packets (RFC 1700; RFC 8200, 3).
local IS_INITIAL = { [64] = true, [128] = true, [255] = true }
-- A slot with more datagrams than this is grouped again only when it has grown by an eighth.
local LARGE = 256

--- Stands for the only transmission of a slot with `single`, which has not been built.
Conversation.FIRST = { number = 1 }

function Conversation.new()
    return setmetatable({ sas = {}, by_hosts = {}, paths = {}, added = 0 }, Conversation)
end

--- A new IKE SA, whose first message is `parsed`.
function Conversation:new_sa(parsed)
    local head = parsed.head
    local from_initiator = parsed.head.major == 1 or head.from_initiator
    local initiator, responder = "source", "destination"
    if not from_initiator then
        initiator, responder = responder, initiator
    end
    local sa = {
        number = #self.sas + 1,
        version = head.major,
        spi_i = head.spi_i,
        spi_r = head.spi_r,
        initiator = parsed[initiator],
        initiator_port = parsed[initiator .. "_port"],
        responder = parsed[responder],
        responder_port = parsed[responder .. "_port"],
        start = parsed.time,
        begun_init = head.spi_r == NO_SPI,
        pairs = {}, -- by a number that combines message ID, exchange type and requester
        list = {}, -- pairs in order of their first datagrams
        bytes_initiator = 0, -- that the initiator sent so far
        bytes_responder = 0,
        undecoded = {}, -- datagrams whose contents have not been decoded yet
    }
    self.sas[sa.number] = sa
    self:add_to_path(sa)
    local list = self:of_hosts(sa)
    list[#list + 1] = sa
    return sa
end

-- Put an IKE SA into its path: the IKE SAs with the same initiator and responder. `added`: their datagrams so far;
-- `repeated`: a message may have been sent more than once; `settled`: `added` when the module `paths` decided.
function Conversation:add_to_path(sa)
    local key = sa.initiator .. " " .. sa.responder
    local path = self.paths[key]
    if not path then
        path = { sas = {}, added = 0, repeated = false, settled = 0 }
        self.paths[key] = path
    end
    path.sas[#path.sas + 1] = sa
    sa.path = path
end

--- The IKE SAs of the hosts of an IKE SA, in order; with those whose responder was one of these hosts at first.
function Conversation:of_hosts(sa)
    local hosts = sa.initiator < sa.responder and sa.initiator .. sa.responder or sa.responder .. sa.initiator
    local list = self.by_hosts[hosts]
    if not list then
        list = {}
        self.by_hosts[hosts] = list
    end
    return list
end

-- Whether the initiator sent the message, whether the initiator sent the request of its exchange, and whether it is the
-- response. IKEv1 has no flags for these: the sender of the first message is the initiator, the sender of the first
-- message of an exchange is the requester, and informational messages have no responses.
local function find_roles(sa, parsed)
    local head = parsed.head
    if head.major == 2 then
        return head.from_initiator, head.from_initiator ~= head.response, head.response
    end
    local sender
    if sa.initiator == sa.responder then
        sender = parsed.source_port == sa.initiator_port
    else
        sender = parsed.source == sa.initiator
    end
    if head.exchange == INFORMATIONAL_V1 then
        return sender, sender, false
    end
    sa.requesters = sa.requesters or {}
    local key = head.exchange * 4294967296 + head.message_id
    if sa.requesters[key] == nil then
        sa.requesters[key] = sender
    end
    local requester = sa.requesters[key]
    return sender, requester, requester ~= sender
end

--- The pairs with a request that are requested by the same side as `pair`, in order of their first requests.
function Conversation.requested_pairs(pair)
    local sa = pair.sa
    if pair.requested_by_initiator then
        return sa.requests_initiator
    end
    return sa.requests_responder
end

local function get_pair(sa, head, requester)
    local key = (head.message_id * 256 + head.exchange) * 2 + (requester and 0 or 1)
    local pair = sa.pairs[key]
    if not pair then
        pair = {
            sa = sa,
            exchange = head.exchange,
            message_id = head.message_id,
            requested_by_initiator = requester,
            number = #sa.list + 1,
        }
        sa.pairs[key] = pair
        sa.list[pair.number] = pair
    end
    return pair
end

-- Note the request of a pair.
local function add_request(pair)
    local requested = Conversation.requested_pairs(pair)
    if not requested then
        requested = {}
        pair.sa[pair.requested_by_initiator and "requests_initiator" or "requests_responder"] = requested
    end
    requested[#requested + 1] = pair
    pair.request_index = #requested
end

-- The slot of the first datagram of a message of `sender` (true: the initiator): the list of its datagrams, in order of
-- time (see `sort`), with these fields: `response` and `from_initiator`: true, or else nil, because a table of four
-- fields takes half as much memory; `fragmented`: a datagram is a fragment of RFC 7383; `single`: all datagrams are one
-- transmission, which has not been built, and `fragments` are its datagrams by fragment number, nil while these are in
-- order from 1 on; `transmissions`, built from the first `grouped` datagrams; `stale`: these must all be built again.
local function new_slot(pair, response, sender, datagram)
    local slot
    if response then
        slot = { datagram, pair = pair, single = true, response = true }
        pair.response = slot
    else
        slot = { datagram, pair = pair, single = true, from_initiator = sender or nil }
        pair.request = slot
        add_request(pair)
    end
    if response and sender then
        slot.from_initiator = true
    end
    local fragment = datagram[FRAGMENT]
    if fragment > 0 then
        slot.fragmented = true
        if fragment > 1 then
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
    if fragment > 0 and not transmission.fragments[fragment] then
        transmission.fragments[fragment] = datagram
        transmission.fragment_count = transmission.fragment_count + 1
    end
    datagram[TRANSMISSION] = transmission
end

-- Group all datagrams of a slot with fragments into transmissions.
local function group_fragments(slot)
    local transmissions, firsts = {}, {}
    if slot.single then -- there is nothing to classify
        local transmission = new_fragmented(slot, 1, 1, slot[1][TIME])
        for _, datagram in ipairs(slot) do
            add_fragment(transmission, datagram)
        end
        transmission.first = transmission
        transmissions[1] = transmission
    else
        for position, range in ipairs(retransmission.classify_fragments(slot, slot.pair.sa.version == 1)) do
            local transmission = new_fragmented(slot, range.body, range.number, slot[range.first][TIME])
            for index = range.first, range.last do
                add_fragment(transmission, slot[index])
            end
            firsts[range.body] = firsts[range.body] or transmission
            transmission.first = firsts[range.body]
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
    if slot.fragmented then
        group_fragments(slot)
    else
        slot.transmissions, slot.bodies, slot.count = {}, nil, nil
        for _, datagram in ipairs(slot) do
            add_unfragmented(slot, datagram)
        end
    end
    slot.single, slot.fragments, slot.stale = false, nil, nil
    slot.grouped = #slot
    if slot.pair.exchanges then
        slot.pair.changed = true
    end
end

--- The transmissions of a slot, in order of time; `exactly`: group the latest datagrams of a large slot too.
function Conversation.transmissions(slot, exactly)
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

--- The time of the first datagram of a slot.
function Conversation.start(slot)
    return slot.start or slot[1][TIME]
end

--- Whether all datagrams of a slot have the same body: they are one message. `exactly`: as in `transmissions`.
function Conversation.has_one_body(slot, exactly)
    if slot.single then
        return true
    end
    local transmissions = Conversation.transmissions(slot, exactly)
    return transmissions[#transmissions].body == 1
end

--- Whether the message of a slot with `single` lacks fragments, and the time of its last datagram.
function Conversation.lacks_fragments(slot)
    if slot[1][TOTAL] <= #slot then
        return false
    end
    return true, slot[#slot].last_time
end

--- Group all fragments of an IKE SA into transmissions.
function Conversation.group_exactly(sa)
    for _, pair in ipairs(sa.list) do
        for _, slot in pairs({ request = pair.request, response = pair.response }) do
            Conversation.transmissions(slot, true)
        end
    end
end

--- The transmission that a datagram belongs to; nil if its slot has not been grouped yet. `exactly`: as in
-- `transmissions`.
function Conversation.transmission_of(datagram, exactly)
    Conversation.transmissions(datagram[SLOT], exactly)
    return datagram[TRANSMISSION] or nil
end

--- The digest of a datagram of the slot that may have the same content as an incomplete datagram; nil if there is none.
function Conversation.find_same_content(slot, datagram, parsed)
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

-- Record which side's packets have the initial time to live of a system: they have not crossed a router.
local function note_hops(sa, sender, ttl)
    if ttl then
        local initial = IS_INITIAL[ttl]
        if sender then
            sa[initial and "initiator_direct" or "initiator_routed"] = true
        else
            sa[initial and "responder_direct" or "responder_routed"] = true
        end
    end
end

-- Note the fragment number of the latest datagram of a slot with `single`. Returns whether it is another fragment of
-- the same transmission. `count`: of the datagrams before it.
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

-- Append a datagram to its slot, which has others.
local function append(slot, datagram)
    local count, fragment = #slot, datagram[FRAGMENT]
    slot[count + 1] = datagram
    if datagram[TIME] < slot[count][TIME] or slot.unsorted then
        slot.start = math.min(Conversation.start(slot), datagram[TIME])
        slot.single, slot.stale, slot.unsorted = false, true, true
        slot.fragmented = slot.fragmented or fragment > 0
    elseif slot.single then
        if not note_fragment(slot, datagram, count) then
            slot.single, slot.fragments = false, nil
            slot.fragmented = slot.fragmented or fragment > 0
        end
    elseif fragment > 0 and not slot.fragmented then
        slot.fragmented, slot.stale = true, true
    elseif slot.fragmented and slot.transmissions then
        add_next_fragment(slot, datagram)
    end
end

-- Count the bytes of a datagram, which the initiator sent if `sender` is true.
local function count_bytes(sa, sender, datagram)
    local by_initiator, by_responder, bytes = sa.bytes_initiator, sa.bytes_responder, datagram[BYTES]
    if sender then
        by_initiator = by_initiator + bytes
    else
        by_responder = by_responder + bytes
    end
    sa.bytes_initiator, sa.bytes_responder = by_initiator, by_responder
    datagram[SENT_BY_INITIATOR], datagram[SENT_BY_RESPONDER] = by_initiator, by_responder
end

--- Add a datagram to its IKE SA; `parsed`: its header and endpoints.
function Conversation:add(sa, datagram, parsed)
    local head = parsed.head
    local sender, requester, response = find_roles(sa, parsed)
    local pair = get_pair(sa, head, requester)
    local slot = response and pair.response or not response and pair.request
    if slot then
        append(slot, datagram)
    else
        slot = new_slot(pair, response, sender, datagram)
    end
    datagram[SLOT] = slot
    if pair.exchanges then
        pair.changed = true
    end
    sa.changed, sa.exchanges = true, nil
    note_hops(sa, sender, datagram[TTL])
    local port = parsed[sender and "source_port" or "destination_port"]
    if port ~= sa.initiator_port then
        sa.other_ports = sa.other_ports or {}
        sa.other_ports[port] = true
    end
    sa.last_time = math.max(sa.last_time or 0, parsed.several_frames and datagram.last_time or datagram[TIME])
    if parsed.init then
        if head.major == 2 and not response then
            -- the last request counts: after a REDIRECT it has another gateway and may have another SPI
            if sa.responder ~= parsed.destination then
                sa.responder = parsed.destination
                local list = self:of_hosts(sa)
                list[#list + 1] = sa
            end
            sa.spi_i, sa.responder_port = head.spi_i, parsed.destination_port
        end
        if head.spi_r ~= NO_SPI and not sa.protected then
            sa.spi_r = head.spi_r
        end
    elseif sa.latest_key ~= head.key then
        sa.latest_key = head.key
        if head.spi_r ~= NO_SPI then
            sa.spi_r, sa.protected = head.spi_r, true
        end
    end
    count_bytes(sa, sender, datagram)
    local path = sa.path
    path.added, self.added = path.added + 1, self.added + 1
    path.repeated = path.repeated or #slot > math.max(datagram[TOTAL], 1)
end

--- Recount the bytes so far of an IKE SA, after a datagram was added that is not the latest.
function Conversation.recount_bytes(sa)
    local datagrams = {}
    for _, pair in ipairs(sa.list) do
        for _, slot in pairs({ request = pair.request, response = pair.response }) do
            for _, datagram in ipairs(slot) do
                datagrams[#datagrams + 1] = datagram
            end
        end
    end
    table.sort(datagrams, function(a, b)
        if a[TIME] ~= b[TIME] then
            return a[TIME] < b[TIME]
        end
        return a.number < b.number
    end)
    sa.bytes_initiator, sa.bytes_responder = 0, 0
    for _, datagram in ipairs(datagrams) do
        count_bytes(sa, datagram[SLOT].from_initiator, datagram)
    end
end

return Conversation
