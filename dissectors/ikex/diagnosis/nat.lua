--[[ Whether a side is behind a NAT, by the NAT detection hashes of IKE_SA_INIT (RFC 7296, 2.23).

Each side sends the SHA-1 of the SPIs with the address and port that it sends from and to. A hash that does not fit what
the capture saw shows that an address was changed on the way. ]]
local Datagram = require("ikex.datagram")
local hashes = require("ikex.crypto.hashes")
local message = require("ikex.message")

local nat = {}

local SOURCE_IP, DESTINATION_IP = 16388, 16389
local SHA1_SIZE = 20

local function big_endian16(number)
    return string.char(math.floor(number / 256), number % 256)
end

-- The groups of an IPv6 address in text, before or after "::".
local function read_groups(text)
    local groups = {}
    for digits in text:gmatch("%x+") do
        groups[#groups + 1] = big_endian16(tonumber(digits, 16))
    end
    return groups
end

--- The bytes of an address in text.
function nat.encode_address(text)
    local a, b, c, d = text:match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
    if a then
        return string.char(tonumber(a), tonumber(b), tonumber(c), tonumber(d))
    end
    local before, after = text:match("^(.-)::(.*)$")
    local left, right = read_groups(before or text), read_groups(after or "")
    return table.concat(left) .. ("\0\0"):rep(8 - #left - #right) .. table.concat(right)
end

-- Whether an end of a message, `address` and `port` as captured, differs from its hashes of a type; nil without hashes.
local function differs(data, kind, address, port)
    local head = message.header(data)
    local expected, result
    for _, payload in ipairs(message.payloads(data, head.next, message.HEADER + 1, head.length)) do
        local notify = payload.type == message.NOTIFY and message.notify(data, payload)
        if notify and notify.type == kind and #notify.data == SHA1_SIZE then
            expected = expected or hashes.sha1(data:sub(1, 16) .. nat.encode_address(address) .. big_endian16(port))
            if notify.data == expected then
                return false
            end
            result = true -- a host with several addresses sends a hash for each
        end
    end
    return result
end

-- The latest datagram of transmissions of IKE_SA_INIT.
local function find_latest(transmissions)
    local latest = transmissions[#transmissions]
    local datagram = latest and latest.datagrams[1]
    return datagram and datagram.data and datagram.endpoints and datagram
end

-- Whether the capture has packets of this end before and after a translation.
local function is_translated(association, address, port)
    local endpoint = string.format("%s|%d", address, port)
    if association.alias[endpoint] then
        return true
    end
    for _, other in pairs(association.alias) do
        if other == endpoint then
            return true
        end
    end
    return false
end

--- Whether the initiator of an IKE SA is behind a NAT; false if it is unknown. `init`: the last IKE_SA_INIT exchange,
-- or nil.
function nat.is_initiator_behind(capture, sa, init)
    if is_translated(capture.association, sa.initiator, sa.initiator_port) then
        return true
    end
    local request, response = find_latest(init and init.requests or {}), find_latest(init and init.responses or {})
    return request and differs(request.data, SOURCE_IP, Datagram.get_endpoint(request, "source"))
        or response and differs(response.data, DESTINATION_IP, Datagram.get_endpoint(response, "destination"))
        or false
end

--- Whether the responder is behind a NAT; false if it is unknown. `init`: the last IKE_SA_INIT exchange, or nil.
function nat.is_responder_behind(init)
    local request, response = find_latest(init and init.requests or {}), find_latest(init and init.responses or {})
    return request and differs(request.data, DESTINATION_IP, Datagram.get_endpoint(request, "destination"))
        or response and differs(response.data, SOURCE_IP, Datagram.get_endpoint(response, "source"))
        or false
end

return nat
