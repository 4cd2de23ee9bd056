--[[ IKE SAs, and their messages.

    IKE SA ─ pair (side, exchange type, message ID) ─ slot (its request or its response) ─ transmissions ─ datagrams

Slots and what they consist of are in the module `slots`. ]]
local Datagram = require("ikex.datagram")
local slots = require("ikex.slots")

local Conversation = {}
Conversation.__index = Conversation

local sub = string.sub
local NUMBER, TIME, BYTES, TTL, TOTAL, SLOT = Datagram.NUMBER, Datagram.TIME, Datagram.BYTES, Datagram.TTL,
    Datagram.TOTAL, Datagram.SLOT
local PLAIN = Datagram.PLAIN
local SENT_BY_INITIATOR, SENT_BY_RESPONDER = Datagram.SENT_BY_INITIATOR, Datagram.SENT_BY_RESPONDER
local INFORMATIONAL_V1 = 5
local NO_SPI = ("\0"):rep(8)
-- The times to live with which systems send packets (RFC 1700; RFC 8200, 3).
local IS_INITIAL = { [64] = true, [128] = true, [255] = true }

function Conversation.new()
    return setmetatable({ sas = {}, by_hosts = {}, paths = {}, added = 0, latest_start = -1 }, Conversation)
end

-- The number of the first frame of an IKE SA.
local function find_first_frame(sa)
    local pair = sa.list[1]
    local datagram = (pair.request or pair.response)[1]
    return datagram.numbers and datagram.numbers[1] or datagram[NUMBER]
end

-- Whether an IKE SA has its first message before another one.
local function begins_before(sa, other)
    if sa.start ~= other.start then
        return sa.start < other.start
    end
    local first, second = find_first_frame(sa), find_first_frame(other)
    return first < second or (first == second and sa.number < other.number)
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
        last_time = 0, -- of its latest frame, us
        undecoded = {}, -- datagrams whose contents have not been decoded yet
    }
    if parsed.time > self.latest_start then
        self.latest_start = parsed.time
    else
        self.disordered = true -- perhaps: see `renumber`
    end
    self.sas[sa.number] = sa
    self:add_to_path(sa)
    -- IKE_SA_INIT shows who is who; later messages between these two addresses are of the one or of the other
    if parsed.init and head.major == 2 and head.from_initiator ~= head.response and sa.initiator ~= sa.responder then
        sa.first_path = sa.path
    end
    local list = self:of_hosts(sa)
    list[#list + 1] = sa
    return sa
end

--- Note that an IKE SA begins at `time`, us, if that is before its other messages.
function Conversation:begin_before(sa, time)
    if time < sa.start then
        sa.start, self.disordered = time, true
    end
end

-- Put IKE SAs into order. Few of them are out of place, and not far, so that insertion is faster than `table.sort`.
local function sort(sas)
    local left = 4 * #sas -- moves
    for index = 2, #sas do
        local sa, place = sas[index], index
        while place > 1 and left > 0 and begins_before(sa, sas[place - 1]) do
            sas[place] = sas[place - 1]
            place, left = place - 1, left - 1
        end
        sas[place] = sa
        if left == 0 then
            table.sort(sas, begins_before)
            return
        end
    end
end

--- Number the IKE SAs in order of their first messages, after some of them were added late: their first messages were
-- held back (see `Association:associate`), or had more than one frame. Numbers that have been shown must not change
-- before the capture has been read to its end.
function Conversation:renumber()
    if not self.disordered then
        return
    end
    self.disordered = false
    sort(self.sas)
    for number, sa in ipairs(self.sas) do
        sa.number = number
    end
end

-- Put an IKE SA into its path: the IKE SAs with the same initiator and responder. `added`: their datagrams so far;
-- `repeated`: a message may have been sent more than once; `settled`: `added` when the module `paths` decided.
function Conversation:add_to_path(sa)
    local key = sa.initiator .. " " .. sa.responder
    local path = self.paths[key]
    if not path then
        path = {
            sas = {}, added = 0, repeated = false, settled = 0,
            initiator = sa.initiator, responder = sa.responder, -- and `forth`, `back`: see `pack_hosts`
        }
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

-- Whether a message of an IKE SA of IKEv1, or in IKEv1, comes from the host that sent the first one.
local function is_from_first_sender(sa, parsed)
    if sa.initiator == sa.responder then
        return parsed.source_port == sa.initiator_port
    end
    return parsed.source == sa.initiator
end

-- Whether the initiator sent a message of IKEv2: its flag, unless that contradicts the addresses of IKE_SA_INIT. No NAT
-- and no MOBIKE turns these round, since they give a host another address than that of its peer. The flag does not
-- count either in a message that refuses a request of IKEv1.
local function is_from_initiator(sa, parsed)
    local flag, path = parsed.head.from_initiator, sa.first_path
    if sa.version == 1 then
        return is_from_first_sender(sa, parsed)
    elseif not path or parsed.init then
        return flag
    elseif flag then
        return not (parsed.source == path.responder and parsed.destination == path.initiator)
    end
    return parsed.source == path.initiator and parsed.destination == path.responder
end

-- The bytes of an IPv4 address, nil if it is another one.
local function pack_ipv4(address)
    local a, b, c, d = address:match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
    return a and string.char(a, b, c, d)
end

-- Note the bytes of the addresses of a message of the initiator, and of one of the responder, in IPv4; false in IPv6.
local function pack_hosts(path)
    local initiator, responder = pack_ipv4(path.initiator), pack_ipv4(path.responder)
    path.forth = initiator and responder and initiator .. responder or false
    path.back = initiator and responder and responder .. initiator or false
end

--- Whether the flag of the initiator contradicts the source and destination address, `addresses`, of a message in IPv4.
function Conversation.contradicts_flag(sa, addresses, from_initiator)
    local path = sa.first_path
    if not path then
        return false
    elseif path.forth == nil then
        pack_hosts(path)
    end
    return addresses == (from_initiator and path.back or path.forth)
end

-- Whether the initiator sent the message, whether the initiator sent the request of its exchange, and whether it is the
-- response. IKEv1 has no flags for these: the sender of the first message is the initiator, the sender of the first
-- message of an exchange is the requester, and informational messages have no responses.
local function find_roles(sa, parsed)
    local head = parsed.head
    if head.major == 2 then
        local sender = is_from_initiator(sa, parsed)
        return sender, sender ~= head.response, head.response
    end
    local sender = is_from_first_sender(sa, parsed)
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

local function get_key(exchange, message_id, requester)
    return (message_id * 256 + exchange) * 2 + (requester and 0 or 1)
end

--- The pair of an exchange type and message ID; `requester`: whether the initiator requests it. nil: there is none.
function Conversation.find_pair(sa, exchange, message_id, requester)
    return sa.pairs[get_key(exchange, message_id, requester)]
end

local function get_pair(sa, exchange, message_id, requester)
    local key = get_key(exchange, message_id, requester)
    local pair = sa.pairs[key]
    if not pair then
        pair = {
            sa = sa,
            exchange = exchange,
            message_id = message_id,
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

--- Group all fragments of an IKE SA into transmissions.
function Conversation.group_exactly(sa)
    for _, pair in ipairs(sa.list) do
        for _, slot in pairs({ request = pair.request, response = pair.response }) do
            slots.transmissions(slot, true)
        end
    end
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

-- Count the bytes of a datagram, which the initiator sent if `sender` is true.
local function count_bytes(sa, sender, datagram)
    local by_initiator, by_responder, bytes = sa.bytes_initiator, sa.bytes_responder, datagram[BYTES]
    if sender then
        by_initiator = by_initiator + bytes
        sa.bytes_initiator = by_initiator
    else
        by_responder = by_responder + bytes
        sa.bytes_responder = by_responder
    end
    datagram[SENT_BY_INITIATOR], datagram[SENT_BY_RESPONDER] = by_initiator, by_responder
end

-- Note another port of the initiator. Most IKE SAs have one at most: a table would take 96 bytes.
local function note_other_port(sa, port)
    if not sa.other_port then
        sa.other_port = port
    elseif port ~= sa.other_port then
        sa.more_ports = sa.more_ports or {}
        sa.more_ports[port] = true
    end
end

--- Whether the initiator of an IKE SA sent or received a message on a port.
function Conversation.uses_port(sa, port)
    return port == sa.initiator_port or port == sa.other_port or (sa.more_ports and sa.more_ports[port]) or false
end

-- Add a datagram to its slot, and to the counts of its IKE SA. `sender`, `requester`, `response`: see `find_roles`;
-- `port`: of the initiator; `last_time`: us, of its last frame.
local function append(self, sa, datagram, exchange, message_id, sender, requester, response, port, last_time)
    local pair = get_pair(sa, exchange, message_id, requester)
    local slot
    if response then
        slot = pair.response
    else
        slot = pair.request
    end
    if slot then
        slots.append(slot, datagram)
    else
        slot = slots.new(pair, response, sender, datagram)
        if not response then
            add_request(pair)
        end
    end
    datagram[SLOT] = slot
    if pair.exchanges then
        pair.changed = true
    end
    sa.changed, sa.exchanges = true, nil
    note_hops(sa, sender, datagram[TTL])
    if port ~= sa.initiator_port then
        note_other_port(sa, port)
    end
    if last_time > sa.last_time then
        sa.last_time = last_time
    end
    count_bytes(sa, sender, datagram)
    local path, count = sa.path, #slot
    path.added, self.added = path.added + 1, self.added + 1
    if count > 1 and not path.repeated and count > datagram[TOTAL] then
        path.repeated = true
    end
end

-- Note the SPIs of a message after IKE_SA_INIT.
local function note_spis(sa, key, spi_r)
    sa.latest_key = key
    if spi_r ~= NO_SPI then
        sa.spi_r, sa.protected = spi_r, true
    end
end

--- Add a datagram to its IKE SA; `parsed`: its header and endpoints.
function Conversation:add(sa, datagram, parsed)
    local head = parsed.head
    local sender, requester, response = find_roles(sa, parsed)
    append(
        self, sa, datagram, head.exchange, head.message_id, sender, requester, response,
        parsed[sender and "source_port" or "destination_port"],
        parsed.several_frames and datagram.last_time or datagram[TIME]
    )
    if parsed.several_frames then
        self:begin_before(sa, datagram[TIME])
    end
    local expected = parsed.init and not head.response
    if not parsed.init then
        expected = sender
    end
    if head.major == 2 and head.from_initiator ~= expected then
        datagram.wrong_flag, datagram[PLAIN], sa.has_wrong_headers = true, false, true
    end
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
        note_spis(sa, head.key, head.spi_r)
    end
end

--- As `add`, for the most frequent messages: of IKEv2, encrypted, and in a frame. `spis`: of both sides; `port`: of the
-- initiator.
function Conversation:add_encrypted(sa, datagram, spis, exchange, message_id, from_initiator, response, port)
    append(
        self, sa, datagram, exchange, message_id, from_initiator, from_initiator ~= response, response, port,
        datagram[TIME]
    )
    if sa.latest_key ~= spis then
        note_spis(sa, spis, sub(spis, 9))
    end
end

--- Note that datagrams of an IKE SA have changed.
function Conversation:note_change(sa)
    local path = sa.path
    sa.changed, sa.exchanges = true, nil
    path.added, self.added = path.added + 1, self.added + 1
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
