--[[ The RADIUS packets between responders and their AAA server (RFC 2865, RFC 3579), and the handshakes they belong to.

A response has the identifier of its request; the same identifier with the same authenticator is a retransmission. The
State attribute connects the pairs of one EAP conversation. A conversation belongs to the handshake whose responder had
an unanswered request during every pair of it; if several fit, the station ids decide. Requests that a proxy sends for
a client whose request is in the capture as well are left out. RADIUS packets in IP fragments are not read. ]]
local Conversation = require("ikex.conversation")
local Duplicates = require("ikex.duplicates")
local exchanges = require("ikex.exchanges")
local packet = require("ikex.packet")
local paths = require("ikex.paths")

local Radius = {}
Radius.__index = Radius

local byte, sub = string.byte, string.sub

--- UDP ports of authentication and accounting.
Radius.PORTS = { [1645] = true, [1646] = true, [1812] = true, [1813] = true }

local HEADER = 20
local ACCESS_REQUEST, ACCESS_REJECT, ACCESS_CHALLENGE = 1, 3, 11
-- Access-Request, Accounting-Request, Status-Server; and Disconnect-Request, CoA-Request of the server (RFC 5176)
local REQUESTS, SERVER_REQUESTS = { [1] = true, [4] = true, [12] = true }, { [40] = true, [43] = true }
local STATE, CALLED_STATION_ID, CALLING_STATION_ID, PROXY_STATE, EAP_MESSAGE = 24, 30, 31, 33, 79
local IKE_AUTH = 35
local MAX_PACKETS = 100000
local MAX_LIFETIME = 120e6 -- us in which a network delivers a packet (RFC 9293, 3.4.2)
local MAX_SIMILAR = 64 -- requests with the same EAP message that a proxy may be asking for

function Radius.new()
    return setmetatable({ packets = {}, settled = nil }, Radius)
end

local function parse_attributes(data, length)
    local attributes = {}
    local at = HEADER + 1
    while at + 1 <= length do
        local kind, size = byte(data, at, at + 1)
        if not size or size < 2 or at + size - 1 > #data then
            break
        end
        local value = sub(data, at + 2, at + size - 1)
        if kind == EAP_MESSAGE then
            attributes.eap = (attributes.eap or "") .. value
        elseif kind == STATE then
            attributes.state = value
        elseif kind == CALLED_STATION_ID then
            attributes.called = value
        elseif kind == CALLING_STATION_ID then
            attributes.calling = value
        elseif kind == PROXY_STATE then
            attributes.proxied = true
        end
        at = at + size
    end
    return attributes
end

--- Add a frame of UDP on these ports, if it is a RADIUS packet; `time`: us.
function Radius:add(number, time, frame, source_port, destination_port)
    local udp, ip, version, fragmented = packet.datagram(frame, source_port, destination_port)
    if not udp or fragmented or #self.packets >= MAX_PACKETS then
        return
    end
    local at = udp + 8
    local code, identifier, high, low = byte(frame, at, at + 3)
    local length = low and high * 256 + low or 0
    if length < HEADER or #frame < at + HEADER - 1 or code == 0 then
        return
    end
    local headers = {}
    local quoted = not packet.read_headers(headers, frame, at, udp, ip, version)
    if quoted or length > (headers.size or length) then
        return
    end
    self.packets[#self.packets + 1] = {
        number = number, time = time, ttl = headers.ttl, ip_id = headers.ip_id,
        source = headers.source, destination = headers.destination,
        source_port = source_port, destination_port = destination_port,
        code = code, identifier = identifier, digest = sub(frame, at, at + length - 1), length = length,
        authenticator = sub(frame, at + 4, at + HEADER - 1),
    }
    self.settled = nil
end

-- Whether a proxy sent this request; `alike`: earlier requests with the same EAP message. Proxies pass EAP messages on
-- unchanged (RFC 3579, 2.1). A proxy may have the address of its responder.
local function is_forwarded(pair, alike)
    if pair.client == pair.server then
        return false
    end
    for index = #alike, math.max(1, #alike - MAX_SIMILAR + 1), -1 do
        local before = alike[index]
        if #before.responses == 0 then
            if pair.from_client and before.server == pair.client then
                return true
            elseif before.client == pair.client then
                return before.forwarded
            elseif pair.from_client and pair.view.proxied then
                return true
            end
        end
    end
    return false
end

local function format_key(source, source_port, destination, destination_port, identifier)
    return string.format("%s %d %s %d %d", source, source_port, destination, destination_port, identifier)
end

-- Pairs requests and responses in order of time.
local Pairing = {}
Pairing.__index = Pairing

function Pairing.new()
    return setmetatable({ pairs = {}, waiting = {}, states = {}, asked = {}, conversations = 0 }, Pairing)
end

function Pairing:add_pair(key, pair)
    self.pairs[#self.pairs + 1] = pair
    self.waiting[key] = pair
end

function Pairing:new_conversation()
    self.conversations = self.conversations + 1
    return self.conversations
end

function Pairing:add_request(each, view)
    local key = format_key(each.source, each.source_port, each.destination, each.destination_port, each.identifier)
    local pair = self.waiting[key]
    local answer = pair and pair.responses[1]
    local replayed = answer and each.time - answer.time > MAX_LIFETIME
    if not pair or replayed or pair.authenticator ~= each.authenticator or pair.code ~= each.code then
        local from_client = REQUESTS[each.code] == true
        pair = {
            code = each.code, authenticator = each.authenticator, view = view, from_client = from_client,
            client = from_client and each.source or each.destination,
            server = from_client and each.destination or each.source,
            requests = {}, responses = {},
        }
        local alike_key = each.code .. (view.eap or "-")
        local alike = self.asked[alike_key] or {}
        self.asked[alike_key] = alike
        pair.forwarded = is_forwarded(pair, alike)
        alike[#alike + 1] = pair
        pair.conversation = view.state and self.states[pair.server .. view.state] or self:new_conversation()
        self:add_pair(key, pair)
    end
    pair.requests[#pair.requests + 1] = each
end

function Pairing:add_response(each, view)
    local key = format_key(each.destination, each.destination_port, each.source, each.source_port, each.identifier)
    local pair = self.waiting[key]
    if not pair then -- the request is not in the capture
        pair = {
            client = each.destination, server = each.source, from_client = true, view = view,
            requests = {}, responses = {}, conversation = self:new_conversation(),
        }
        self:add_pair(key, pair)
    end
    pair.responses[#pair.responses + 1] = each
    pair.latest_code = each.code
    if view.state then
        self.states[each.source .. view.state] = pair.conversation
    end
end

-- The pairs of all packets without capture duplicates.
local function pair_packets(packets)
    table.sort(packets, function(a, b)
        if a.time ~= b.time then
            return a.time < b.time
        end
        return a.number < b.number
    end)
    local duplicates, pairing = Duplicates.new(), Pairing.new()
    for _, each in ipairs(packets) do
        local is_request = REQUESTS[each.code] or SERVER_REQUESTS[each.code] or false
        each.echoes, each.mirrored = nil, nil
        local parsed = {
            head = { major = 2, response = not REQUESTS[each.code] },
            source = each.source, destination = each.destination, digest = each.digest,
        }
        if not duplicates:original(each, parsed) then
            local view = parse_attributes(each.digest, each.length)
            if is_request then
                pairing:add_request(each, view)
            else
                pairing:add_response(each, view)
            end
        end
    end
    return pairing.pairs
end

-- The exchanges whose responder may have waited for its AAA server, in order of their requests.
local function list_intervals(conversation, last_time)
    local intervals, longest = {}, 0
    for _, sa in ipairs(conversation.sas) do
        sa.aaa = nil
        paths.settle(sa)
        for _, exchange in ipairs(exchanges.of_sa(sa)) do
            if exchange.sets_up and exchange.pair.requested_by_initiator and exchange.request_time then
                local finish = exchange.end_time or last_time
                intervals[#intervals + 1] = { start = exchange.request_time, finish = finish, exchange = exchange }
                longest = math.max(longest, finish - exchange.request_time)
            end
        end
    end
    table.sort(intervals, function(a, b)
        if a.start ~= b.start then
            return a.start < b.start
        end
        return a.exchange.pair.sa.number < b.exchange.pair.sa.number
    end)
    return intervals, longest
end

-- The index of the first interval that starts at `time` or later, or after it.
local function find_start(intervals, time, after)
    local low, high = 1, #intervals + 1
    while low < high do
        local middle = math.floor((low + high) / 2)
        local start = intervals[middle].start
        if start < time or (after and start == time) then
            low = middle + 1
        else
            high = middle
        end
    end
    return low
end

-- The exchanges that waited during a pair, in order: from its request to its first response, or to the request's last
-- transmission.
local function find_waiting(pair, intervals, longest)
    local begin = pair.requests[1].time
    local finish = (pair.responses[1] or pair.requests[#pair.requests]).time
    local waiting = {}
    for index = find_start(intervals, begin - longest, false), find_start(intervals, begin, true) - 1 do
        if intervals[index].finish >= finish then
            waiting[#waiting + 1] = intervals[index].exchange
        end
    end
    return waiting
end

local function matches_station_ids(view, sa, by_port)
    local calling, port = view.calling:match("^([^%[]*)%[?(.*)$")
    local called = (view.called or ""):match("^[^%[]*")
    if by_port then
        local number = tonumber(port:match("^(%d+)%]$"))
        if not number or not Conversation.uses_port(sa, number) then
            return false
        end
    end
    return calling == sa.initiator and (called == "" or called == sa.responder)
end

-- Of several IKE SAs, those that the station ids name; all if they name none.
local function choose_by_station_ids(view, fitting)
    if not view.calling then
        return fitting
    end
    local named, by_port = {}, {}
    for _, sa in ipairs(fitting) do
        if matches_station_ids(view, sa, false) then
            named[#named + 1] = sa
            by_port[#by_port + 1] = matches_station_ids(view, sa, true) and sa or nil
        end
    end
    return #by_port > 0 and by_port or #named > 0 and named or fitting
end

-- The IKE SAs that waited during each of several pairs; `waiting`: the exchanges of each pair.
local function intersect(waiting)
    local counts, fitting = {}, {}
    for position, list in ipairs(waiting) do
        for _, exchange in ipairs(list) do
            local sa = exchange.pair.sa
            if (counts[sa] or 0) == position - 1 then
                counts[sa] = position
            end
        end
    end
    for sa, count in pairs(counts) do
        fitting[#fitting + 1] = count == #waiting and sa or nil
    end
    return fitting
end

-- Assign a conversation to the handshake that waited for it, if there is exactly one.
local function assign_conversation(members, intervals, longest)
    local waiting = {}
    for index, pair in ipairs(members) do
        waiting[index] = find_waiting(pair, intervals, longest)
    end
    local fitting = intersect(waiting)
    if #fitting > 1 then
        fitting = choose_by_station_ids(members[1].view, fitting)
    end
    if #fitting ~= 1 then
        return
    end
    local sa = fitting[1]
    sa.aaa = sa.aaa or {}
    for index, pair in ipairs(members) do
        for _, exchange in ipairs(waiting[index]) do
            pair.exchange = exchange.pair.sa == sa and exchange or pair.exchange
        end
        sa.aaa[#sa.aaa + 1] = pair
    end
end

local function assign(all, intervals, longest)
    local conversations, order = {}, {}
    for number, pair in ipairs(all) do
        pair.number = number
        if pair.code == ACCESS_REQUEST and not pair.forwarded then
            local members = conversations[pair.conversation]
            if not members then
                members = {}
                conversations[pair.conversation] = members
                order[#order + 1] = members
            end
            members[#members + 1] = pair
        end
    end
    for _, members in ipairs(order) do
        assign_conversation(members, intervals, longest)
    end
end

-- The responder had received the request before it sent one to its AAA server.
local function correct_answered(sa)
    local first = {}
    for _, pair in ipairs(sa.aaa) do
        local exchange, time = pair.exchange, pair.requests[1].time
        first[exchange] = math.min(first[exchange] or time, time)
    end
    for exchange, time in pairs(first) do
        local answered = exchange.answered
        local received = answered and exchange.response_time >= answered.time
            and exchanges.find_request_before(exchange, time)
        if received and received.time < answered.time then
            exchanges.set_answered(exchange, received)
        end
    end
end

--- Assign the packets to the handshakes of a capture that has been read to its end, as the list `aaa` of an IKE SA, and
-- correct the times of exchanges that waited for the AAA server. `last_time`: of the capture, us.
function Radius:settle(conversation, last_time)
    if #self.packets == 0 or self.settled == conversation.added then
        return
    end
    self.settled = conversation.added
    local intervals, longest = list_intervals(conversation, last_time)
    assign(pair_packets(self.packets), intervals, longest)
    for _, sa in ipairs(conversation.sas) do
        sa.summary = nil
        if sa.aaa then
            table.sort(sa.aaa, function(a, b)
                return a.number < b.number
            end)
            correct_answered(sa)
        end
    end
end

--- Why a handshake failed: Access-Reject, or an AAA server that answered none of the responder's requests until it
-- ended the handshake; nil if neither.
function Radius.find_failure(sa)
    local all = sa.aaa
    if not all then
        return nil
    end
    local last = all[#all]
    if #last.responses == 0 and #last.requests >= 2 and last.view.eap then
        local exchange = last.exchange
        local list = exchanges.of_sa(sa)
        local followed = false
        for index = exchange.index + 1, #list do
            followed = followed or list[index].sets_up
        end
        if exchange.pair.exchange == IKE_AUTH and #exchange.responses > 0 and not followed then
            return "AAA server silent"
        end
    end
    for _, pair in ipairs(all) do
        if pair.latest_code == ACCESS_REJECT then
            return "Access-Reject"
        end
    end
    return nil
end

--- Whether the AAA server still asked in this exchange, the last answered one of a handshake.
function Radius.is_open(sa, exchange)
    local last = sa.aaa and sa.aaa[#sa.aaa]
    return last ~= nil and last.latest_code == ACCESS_CHALLENGE and last.exchange == exchange
end

return Radius
