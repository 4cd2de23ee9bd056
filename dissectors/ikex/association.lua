--[[ Association of messages with IKE SAs (RFC 7296, 2.6, 1.2, 2.11; RFC 5685, 3).

Its two SPIs identify an IKE SA, independent of addresses. Only IKE_SA_INIT needs more, because the responder's SPI is
still 0 in the request. A request with another body belongs to the same IKE SA if the responder asked for it (COOKIE,
INVALID_KE_PAYLOAD, REDIRECT) or if it keeps its nonce, without other key exchange data of the same method. It belongs
to another one if it comes from elsewhere, or if the IKE SA had been answered. A message that refuses the version of a
request, in another version, belongs to the request. A request after a REDIRECT continues the redirected handshake. The
same IKE_SA_INIT request, more than 2 minutes after the initiator's next request, is a replay of recorded traffic and
begins another IKE SA. Peers with a seeded random generator choose both SPIs again: a response with the SPIs of an
earlier IKE SA answers the latest request, unless it repeats the response of the earlier one. ]]
local Datagram = require("ikex.datagram")
local message = require("ikex.message")
local message_table = require("ikex.message_table")

local Association = {}
Association.__index = Association

-- The counts of all candidates, in the array part of their tables: with these under names, and with what few candidates
-- have, a table has place for 16 fields instead of 8, which takes 320 bytes more for each IKE SA.
local REQUESTS, RESPONSES = 1, 2 -- of IKE_SA_INIT, with retransmissions
local INITS = { [34] = true, [38] = true }
local INFORMATIONAL_V1 = 5
local NO_SPI = ("\0"):rep(8)
local COOKIE, REDIRECT, REDIRECTED_FROM = 16390, 16407, 16408
--- Notifies by which a responder asks for another request.
Association.ASKS_AGAIN = { [17] = "INVALID_KE_PAYLOAD", [16390] = "COOKIE", [16407] = "REDIRECT" }
local REDIRECT_WITHIN = 60e6 -- us until the request to the new gateway, which initiators send at once
local MAX_LIFETIME = 120e6 -- us in which a network delivers a packet (RFC 9293, 3.4.2)

--- `new_sa`: called with the first message of each new IKE SA, returns the IKE SA.
function Association.new(new_sa)
    return setmetatable({
        new_sa = new_sa,
        groups = {}, -- by the initiator's SPI
        by_spis = {}, -- IKE SA by the key of a header
        candidates = {}, -- candidate by the same
        alias = {}, -- other address of endpoints that were captured before and after a NAT
        held_groups = {}, -- that have had `held` messages, in order
        redirects = {}, -- by the initiator's endpoint and by its address: the redirected IKE SAs, in order of time
    }, Association)
end

--- Whether a message belongs to the exchange whose request has no responder SPI.
function Association.is_init(head)
    if head.major == 2 then
        return INITS[head.exchange] == true
    end
    return head.spi_r == NO_SPI and head.exchange ~= INFORMATIONAL_V1
end

-- The notify types of a clear message, as keys, its `nonce`, and `key`, the body of its KE payload.
local function read_notifies(data)
    local types = {}
    local head = message.header(data)
    local payloads, problem = message.payloads(data, head.next, message.HEADER + 1, head.length)
    for _, payload in ipairs(payloads) do
        if payload.type == message.NOTIFY then
            local kind = message.notify_type(data, payload)
            if kind then
                types[kind] = true
            end
        elseif payload.type == message.NONCE then
            types.nonce = message.body(data, payload)
        elseif payload.type == message.KE then
            types.key = types.key or message.body(data, payload)
        end
    end
    local cut = problem and message.truncated_notify_type(data, head, payloads)
    if cut then
        types[cut] = true
    end
    return types
end

local function format_endpoint(address, port)
    return address .. "|" .. string.format("%d", port)
end

function Association:resolve_alias(endpoint)
    while self.alias[endpoint] do
        endpoint = self.alias[endpoint]
    end
    return endpoint
end

--- A capture duplicate of IKE_SA_INIT with another address of the initiator shows an address translation: treat both
-- endpoints as the same. `original`: the first copy.
function Association:add_translation(parsed, original)
    local head = parsed.head
    local side = head.response and "destination" or "source"
    local address, port = Datagram.get_endpoint(original, side)
    if not address or head.exchange ~= 34 or head.major ~= 2 then
        return
    end
    local translated = self:resolve_alias(format_endpoint(parsed[side], parsed[side .. "_port"]))
    local untranslated = self:resolve_alias(format_endpoint(address, port))
    if translated < untranslated then
        self.alias[untranslated] = translated
    elseif untranslated < translated then
        self.alias[translated] = untranslated
    end
end

-- Note a candidate under its address.
local function add_address(group, candidate)
    local address = candidate.address
    group.by_address[address] = candidate
    local waiting = group.waiting[address] or { first = 1 }
    group.waiting[address] = waiting
    waiting[#waiting + 1] = candidate
end

-- A group has candidates by address only if it has several: most SPIs are used once.
local function add_candidate(group, parsed, endpoint, address)
    local candidate = { 0, 0, protocol = parsed.head.major, address = address }
    local previous = group.by_endpoint[endpoint]
    if previous then
        previous.closed = true -- the SPI is used again
    end
    group.by_endpoint[endpoint] = candidate
    group.count = group.count + 1
    if group.count == 2 then
        group.by_address, group.waiting = {}, {}
        add_address(group, group.only)
    end
    if group.count >= 2 then
        add_address(group, candidate)
    end
    group.only = candidate
    return candidate
end

-- The latest candidate with this address.
local function find_by_address(group, address)
    if group.by_address then
        return group.by_address[address]
    end
    local only = group.only
    return only and only.address == address and only or nil
end

local function add_key(self, candidate, parsed)
    local key = parsed.head.key
    local known = self.candidates[key]
    if not known or known.replayed_by then
        self.by_spis[key], self.candidates[key] = candidate.sa, candidate
        candidate.spi_known = true
    end
end

-- Whether two requests have key exchange data of one method that differ. A request with a cookie repeats the other
-- payloads (RFC 7296, 2.6), and one after INVALID_KE_PAYLOAD has another method: these are not of one handshake.
local function has_other_key(earlier, notifies)
    local first, second = earlier.key, notifies.key
    return first and second and first:sub(1, 2) == second:sub(1, 2) and first:sub(5) ~= second:sub(5)
end

-- The IKE SA whose request had the same nonce. Nonces are read only if a second request has the same SPI: seldom.
local function find_by_nonce(group, notifies)
    group.by_nonce = group.by_nonce or {}
    for index = 1, #group.unread, 2 do
        local earlier, candidate = read_notifies(group.unread[index]), group.unread[index + 1]
        if earlier.nonce then
            message_table.set(group.by_nonce, earlier.nonce, { candidate = candidate, key = earlier.key })
            candidate.has_nonce = true
        end
    end
    group.unread = {}
    local known = notifies.nonce and message_table.get(group.by_nonce, notifies.nonce)
    return known and not has_other_key(known, notifies) and known.candidate or nil
end

local function continues(candidate, notifies, protocol)
    if candidate.protocol ~= protocol then
        return false
    end
    if candidate.retry_requested or not candidate.has_nonce then
        return true
    end
    return notifies[COOKIE] and not candidate.answered
end

-- The latest replay of the handshake of a candidate, or the candidate.
local function find_latest_replay(candidate)
    while candidate.replayed_by do
        candidate = candidate.replayed_by
    end
    return candidate
end

-- Note that no other request is expected. In Lua 5.2, a field that is set to nil takes memory.
local function clear_retry(candidate)
    if candidate.retry_requested then
        candidate.retry_requested = nil
    end
end

-- The time of the first request of a candidate, which has several or one.
local function find_first_request(candidate)
    return candidate.first_requested_at or candidate.requested_at
end

-- Whether the initiator sent its first request after IKE_SA_INIT so long ago that it cannot have repeated IKE_SA_INIT.
-- If a REDIRECT gave it another SPI, it sent none with this one. Requests before IKE_SA_INIT do not count: if the
-- capture begins within the IKE SA, the clock was set back.
local function has_moved_on(candidate, time)
    local sa = candidate.protocol == 2 and not candidate.continued_by_other and candidate.sa
    local requests = sa and sa.requests_initiator or {}
    local index = candidate.next_index or 1
    local pair = requests[index]
    while pair and (INITS[pair.exchange] or pair.request[1].time < find_first_request(candidate)) do
        index = index + 1
        pair = requests[index]
    end
    candidate.next_index = index
    return pair and time - pair.request[1].time > MAX_LIFETIME or false
end

-- The redirected IKE SA that a request continues if it has REDIRECTED_FROM: the first one with the same port, or else
-- the first one, if several initiators behind one NAT were redirected; nil if there is none.
local function find_redirected(self, parsed)
    for _, key in ipairs({ format_endpoint(parsed.source, parsed.source_port), parsed.source }) do
        local queue = self.redirects[key]
        local redirected = queue and queue[queue.first]
        while redirected do
            if redirected.is_waiting and parsed.time - redirected.time <= REDIRECT_WITHIN then
                return redirected
            end
            redirected.is_waiting = false
            queue.first = queue.first + 1
            redirected = queue[queue.first]
        end
    end
    return nil
end

-- Note that the responder of a candidate has redirected the initiator, unless a request has continued its IKE SA after
-- a REDIRECT of the same gateway.
local function add_redirected(self, candidate, parsed)
    local earlier = candidate.redirection
    if earlier and earlier.is_waiting then
        earlier.time = parsed.time
    elseif not earlier or earlier.gateway ~= parsed.source then
        candidate.redirection = {
            candidate = candidate,
            sa = candidate.sa,
            gateway = parsed.source,
            time = parsed.time,
            is_waiting = true, -- no request has continued it
        }
        for _, key in ipairs({ format_endpoint(parsed.destination, parsed.destination_port), parsed.destination }) do
            local queue = self.redirects[key] or { first = 1 }
            self.redirects[key] = queue
            queue[#queue + 1] = candidate.redirection
        end
    end
end

-- Whether the capture begins within the IKE SA of a candidate: it has later messages, and IKE_SA_INIT at most as a
-- refusal.
local function begins_within(candidate)
    return candidate.protocol == 2 and candidate.begins_later and candidate[REQUESTS] == 0 and not candidate.answered
end

-- The IKE SA of later messages that came before its request, if it is the only one with this SPI. Those of IKEv1 do not
-- tell which address is the initiator's.
local function find_without_request(group, parsed, address)
    local only, version = group.only, parsed.head.major
    local fits = group.count == 1 and only[REQUESTS] == 0 and only.protocol == version
    return fits and (version == 1 or only.address == address or begins_within(only)) and only or nil
end

-- The IKE SA of a request; nil: its response decides.
local function associate_request(self, group, parsed, endpoint, address)
    local known = message_table.get(group.by_digest, parsed.digest)
    local repeated = known and find_latest_replay(known) -- has the same request, or one with the same nonce
    local candidate = repeated or find_without_request(group, parsed, address)
    if not candidate and group.count > 0 then
        local notifies = read_notifies(parsed.data)
        candidate = find_by_nonce(group, notifies)
        if candidate then
            candidate = find_latest_replay(candidate)
            repeated = candidate
        else
            candidate = group.by_endpoint[endpoint]
            if candidate and not continues(candidate, notifies, parsed.head.major) then
                candidate = nil
            end
        end
    end
    if candidate and not repeated and begins_within(candidate) then
        if parsed.next_key == nil then
            return nil
        elseif parsed.next_key and self.candidates[parsed.next_key] ~= candidate then
            candidate = nil
        end
    end
    local replayed = repeated and has_moved_on(repeated, parsed.time) and repeated
    if not candidate or replayed then
        candidate = add_candidate(group, parsed, endpoint, address)
        if replayed then
            replayed.replayed_by = candidate
        end
        local redirected = find_redirected(self, parsed)
        if redirected and read_notifies(parsed.data)[REDIRECTED_FROM] then
            candidate.sa, redirected.candidate.continued_by_other = redirected.sa, true
            redirected.is_waiting = false
        end
    elseif not known and candidate.redirection then
        candidate.redirection.is_waiting = false -- a request with the same SPI continues it
    end
    if known ~= candidate then
        message_table.set(group.by_digest, parsed.digest, candidate)
        local unread = group.unread
        unread[#unread + 1] = parsed.data
        unread[#unread + 1] = candidate
    end
    group.by_endpoint[endpoint] = candidate
    if candidate[REQUESTS] > 0 then
        candidate.first_requested_at = find_first_request(candidate)
    end
    candidate[REQUESTS], candidate.requested_at = candidate[REQUESTS] + 1, parsed.time
    clear_retry(candidate)
    return candidate
end

-- The IKE SA of the only request with this SPI, if it is unanswered; a NAT may have translated the addresses.
local function find_only_candidate(group, head)
    local only = group.only
    return group.count == 1 and not only.spi_known and only.protocol == head.major and only or nil
end

-- Whether a response repeats the last one of the IKE SA of a candidate, because a request of it has no response yet.
local function repeats_response(candidate, parsed)
    return candidate.last_response == parsed.digest and candidate[REQUESTS] > candidate[RESPONSES]
        and parsed.time - candidate.requested_at <= MAX_LIFETIME
end

-- The candidate of the latest request from this endpoint, if it has no response, and `candidate`, whose SPIs the
-- response has, is another one that the response does not repeat.
local function find_later_request(group, candidate, parsed, endpoint)
    local latest = group.by_endpoint[endpoint]
    if latest and latest ~= candidate and latest[REQUESTS] > 0 and not latest.answered
        and latest.protocol == parsed.head.major and not repeats_response(candidate, parsed) then
        return latest
    end
    return nil
end

local function associate_response(self, group, parsed, endpoint, address)
    local head = parsed.head
    local candidate
    if head.spi_r ~= NO_SPI then
        candidate = self.candidates[head.key]
    end
    candidate = candidate and find_latest_replay(candidate)
    local later = candidate and find_later_request(group, candidate, parsed, endpoint)
    if later then
        self.candidates[head.key] = nil
    end
    candidate = later or candidate
        or group.by_endpoint[endpoint] or find_by_address(group, address) or find_only_candidate(group, head)
    if not candidate then
        candidate = add_candidate(group, parsed, endpoint, address)
    end
    clear_retry(candidate)
    if head.next == message.NOTIFY then -- a response that accepts the request begins with SA
        local notifies = read_notifies(parsed.data)
        for kind in pairs(Association.ASKS_AGAIN) do
            candidate.retry_requested = candidate.retry_requested or notifies[kind]
        end
        if notifies[REDIRECT] then
            candidate.redirected = parsed.time
        end
    end
    candidate.answered = candidate.answered or not candidate.retry_requested
    candidate[RESPONSES], candidate.last_response = candidate[RESPONSES] + 1, parsed.digest
    return candidate
end

local function is_waiting(candidate, protocol)
    return not candidate.closed and not candidate.answered and candidate.protocol == protocol
end

-- The candidate with this address that a message with unknown SPIs may belong to: in IKEv1 the latest, in IKEv2 the
-- first that waits for its response.
local function find_without_spi(group, address, protocol)
    local latest = find_by_address(group, address)
    if protocol == 1 then
        return latest and latest.protocol == protocol and latest or nil
    elseif not group.waiting then
        return latest and is_waiting(latest, protocol) and latest or nil
    end
    local waiting = group.waiting[address]
    if not waiting then
        return nil
    end
    local candidate = waiting[waiting.first]
    while candidate and not is_waiting(candidate, protocol) do
        waiting.first = waiting.first + 1
        candidate = waiting[waiting.first]
    end
    return candidate
end

-- The candidate of another version, and unanswered, whose request a message refuses (RFC 7296, 2.5); nil if none.
-- `receiver`: the endpoint that it was sent to, whatever the flags: strongSwan's refusal of IKEv1 has the flag of the
-- initiator.
local function find_refused(group, parsed, receiver)
    local head = parsed.head
    local candidate = head.spi_r == NO_SPI and group.by_endpoint[receiver]
    if not candidate or candidate.protocol == head.major or candidate.answered or candidate.spi_known then
        return nil
    end
    return parsed.clear and parsed.data and message.refuses_version(parsed.data) and candidate or nil
end

local NONE = {}

-- Release what a group holds; `next_key`: the key of the response that follows, false if none does.
local function release_group(group, next_key)
    local held = group.held
    group.held = nil
    for _, message_held in ipairs(held) do
        message_held.parsed.next_key = next_key
    end
    return held
end

--- The messages whose IKE SA is decided now that a message arrives, to be associated before it: the list that
-- `associate` returned, into which the caller put tables with the message as `parsed`.
function Association:release(parsed)
    local head = parsed.head
    if not parsed.init or not head.response or head.spi_r == NO_SPI or head.major ~= 2 then
        return NONE
    end
    local group = self.groups[head.spi_i]
    if not group or not group.held then
        return NONE
    end
    return release_group(group, head.key)
end

--- All messages that wait for a response, at the end of the capture: they count for the IKE SA within which it began.
function Association:release_all()
    local released = {}
    for _, group in ipairs(self.held_groups) do
        for _, held in ipairs(group.held and release_group(group, false) or NONE) do
            released[#released + 1] = held
        end
    end
    self.held_groups = {}
    return released
end

-- Hold the messages of a group, except those of known IKE SAs, until a response tells which IKE SA they begin.
local function hold(self, group)
    group.held = {}
    self.held_groups[#self.held_groups + 1] = group
    return group.held
end

--- The IKE SA of a message, given as
-- {head, init, data, digest, time, source, source_port, destination, destination_port}.
-- nil and a list: the response decides. If the capture begins within an IKE SA, an IKE_SA_INIT request with the same
-- SPIi begins another one if the responder chooses another SPI; with the same one, the clock was set back. The caller
-- puts the message into the list, and associates it again when `release` or `release_all` returns it.
function Association:associate(parsed)
    local head, init = parsed.head, parsed.init
    if not init then
        local sa = self.by_spis[head.key]
        if sa then
            return sa
        end
    end
    local group = self.groups[head.spi_i]
    if not group then
        group = { by_digest = {}, by_endpoint = {}, unread = {}, count = 0 } -- and its IKE SAs, as a list
        self.groups[head.spi_i] = group
    end
    local is_request
    if head.major == 1 then
        is_request = init
    else
        is_request = not head.response
    end
    local from_initiator = is_request
    if head.major == 2 and not init then
        from_initiator = head.from_initiator
    end
    local side = from_initiator and "source" or "destination"
    local address = parsed[side]
    local endpoint = self:resolve_alias(format_endpoint(address, parsed[side .. "_port"]))
    address = endpoint:match("^[^|]*")
    local candidate
    if group.held then
        return nil, group.held
    elseif not init then
        -- the response with this SPI is not in the capture
        local only = head.spi_r == NO_SPI and head.major == 2 and group.count == 1 and group.only
        local receiver = self:resolve_alias(format_endpoint(parsed.destination, parsed.destination_port))
        local refused = find_refused(group, parsed, receiver)
        if refused then
            return refused.sa
        end
        candidate = only and only.protocol == head.major and only -- an error whose sender does not know the IKE SA
            or find_only_candidate(group, head)
            or find_without_spi(group, address, head.major)
        if not candidate then
            candidate = add_candidate(group, parsed, endpoint, address)
            candidate.begins_later = true
        end
        candidate.closed = head.major == 2
    elseif is_request then
        candidate = associate_request(self, group, parsed, endpoint, address)
        if not candidate then
            return nil, hold(self, group)
        end
    else
        candidate = associate_response(self, group, parsed, endpoint, address)
    end
    if not candidate.sa then
        candidate.sa = self.new_sa(parsed)
        group[#group + 1] = candidate.sa
    end
    if head.spi_r ~= NO_SPI or (not init and head.major == 2) then
        add_key(self, candidate, parsed)
    end
    if candidate.redirected == parsed.time and not is_request then
        add_redirected(self, candidate, parsed)
    end
    return candidate.sa
end

return Association
