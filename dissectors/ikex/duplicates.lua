--[[ Capture duplicates: frames that the capture contains twice, because it was taken on several interfaces, on a router
("any") or at a mirror port. Duplicates are not transmissions. The same message again is a duplicate

- within 1 ms, with the same IP identification, or without an identification with another TTL: a router;
- within 1 ms, without an identification, with the same TTL: a request, because no initiator repeats one so soon; a
  response if most requests between its hosts so far were there twice, and as many times as those: a mirror port;
- within 10 s, with the same IP identification or none, and a lower TTL, which only a router makes. ]]
local message_table = require("ikex.message_table")
local packet = require("ikex.packet")

local Duplicates = {}
Duplicates.__index = Duplicates

local sub = string.sub
local WITHIN = 1000 -- us in which a packet crosses a machine that does not queue it
local HELD = 10e6 -- us that a router may queue a packet
local MAX_COMPARED = 64 -- latest transmissions of one message
local NO_SPI = ("\0"):rep(8)

function Duplicates.new()
    -- requests: {sent, copied} by both hosts, where `copied` are copies with the same TTL; requests_by_bytes: the same
    -- by the bytes of both IPv4 addresses
    return setmetatable({ seen = {}, seen_clear = {}, requests = {}, requests_by_bytes = {} }, Duplicates)
end

local function is_request(head)
    if head.major == 2 then
        return not head.response
    end
    return head.spi_r == NO_SPI -- IKEv1 has no flag, but only the first message has no responder SPI
end

-- The numbers of requests between two hosts.
local function get_requests(self, a, b)
    if b < a then
        a, b = b, a
    end
    local of_first = self.requests[a]
    if not of_first then
        of_first = {}
        self.requests[a] = of_first
    end
    local requests = of_first[b]
    if not requests then
        requests = { sent = 0, copied = 0 }
        of_first[b] = requests
    end
    return requests
end

-- How many copies of a response a mirror port makes: as many as of the requests between its hosts.
local function count_copies(self, parsed)
    local requests = get_requests(self, parsed.source, parsed.destination)
    local sent, copied = requests.sent, requests.copied
    return copied * 2 > sent and math.ceil(copied / sent) or 0
end

-- Whether a datagram is a copy of `first`, whose IP identification it has, less than 1 ms after it.
local function is_near_copy(self, datagram, first, parsed)
    local identified = datagram.ip_id and datagram.ip_id ~= 0
    return identified
        or datagram.ttl ~= first.ttl
        or is_request(parsed.head)
        or (first.mirrored or 0) < count_copies(self, parsed)
end

local function is_delayed_copy(datagram, first)
    local hops = datagram.ttl and first.ttl and first.ttl - datagram.ttl or 0
    return hops > 0 and not (first.echoes and first.echoes[datagram.ttl])
end

-- The first sighting, among the datagrams of the same content, of a packet that was captured again.
local function find_original(self, seen, datagram, parsed)
    local datagrams = seen.datagrams
    for index = #datagrams, seen.first, -1 do
        local first = datagrams[index]
        if datagram.time - first.time > WITHIN then
            break
        elseif
            first.time - datagram.time <= WITHIN -- a packet that was processed late may be older
            and first.ip_id == datagram.ip_id
            and is_near_copy(self, datagram, first, parsed)
        then
            if first.ttl == datagram.ttl then
                first.mirrored = (first.mirrored or 0) + 1
            end
            return first
        end
    end
    for index = seen.first, #datagrams do
        local first = datagrams[index]
        if first.ip_id == datagram.ip_id and is_delayed_copy(datagram, first) then
            return first
        end
    end
    return nil
end

-- Count a request, and whether it is a copy with the same TTL.
local function count_request(self, datagram, parsed, original)
    if not is_request(parsed.head) then
        return
    end
    local requests = get_requests(self, parsed.source, parsed.destination)
    if not original then
        requests.sent = requests.sent + 1
    elseif original.ttl == datagram.ttl and datagram.time - original.time <= WITHIN then
        requests.copied = requests.copied + 1
    end
end

--- Add a datagram of IKEv2 with an encrypted message, unless its digest, of a few bytes, has been seen before: returns
-- whether it was added. `ip_addresses`: position in `raw` of the IPv4 addresses of its source and destination.
function Duplicates:add_new(datagram, digest, response, raw, ip_addresses)
    if self.seen[digest] ~= nil then
        return false
    end
    self.seen[digest] = datagram
    if not response then
        local hosts = sub(raw, ip_addresses, ip_addresses + 7)
        local requests = self.requests_by_bytes[hosts]
        if not requests then
            requests = get_requests(self, packet.addresses(raw, ip_addresses - 12, 4))
            self.requests_by_bytes[hosts] = requests
        end
        requests.sent = requests.sent + 1
    end
    return true
end

-- Forget the datagrams that are too old to be sighted again.
local function forget(seen, time)
    local datagrams = seen.datagrams
    while
        seen.first <= #datagrams
        and (time - datagrams[seen.first].time > HELD or #datagrams - seen.first >= MAX_COMPARED)
    do
        datagrams[seen.first] = false
        seen.first = seen.first + 1
    end
end

-- The table that has the datagrams with the content of a message: of clear messages, one for each initiator's SPI. Lua
-- 5.2 hashes every 8th byte of a message or fewer, so that messages of a flood that differ in SPIs only would share a
-- few hash values.
local function get_table(self, parsed)
    if not parsed.clear then
        return self.seen
    end
    local spi = parsed.head.spi_i
    local by_digest = self.seen_clear[spi]
    if not by_digest then
        by_digest = {}
        self.seen_clear[spi] = by_digest
    end
    return by_digest
end

--- The datagram that `datagram` is a duplicate of; `parsed`: its header, hosts and digest. If there is none, nil, and
-- later datagrams are compared with it.
function Duplicates:original(datagram, parsed)
    local by_digest = get_table(self, parsed)
    local digest = parsed.digest
    local seen = message_table.get(by_digest, digest)
    local original
    if not seen then
        message_table.set(by_digest, digest, datagram) -- most contents are sent only once: avoid a list
    else
        if not seen.datagrams then
            seen = { datagrams = { seen }, first = 1 }
            message_table.set(by_digest, digest, seen)
        end
        forget(seen, datagram.time)
        original = find_original(self, seen, datagram, parsed)
        if original then
            original.echoes = original.echoes or {}
            original.echoes[datagram.ttl or -1] = true
        else
            seen.datagrams[#seen.datagrams + 1] = datagram
        end
    end
    count_request(self, datagram, parsed, original)
    return original
end

return Duplicates
