--[[ Facts from the decrypted payloads of IKE_AUTH, for handshakes that it refused. ]]
local certificates = require("ikex.diagnosis.certificates")
local compat = require("ikex.compat")
local contents = require("ikex.contents")
local message = require("ikex.message")
local names = require("ikex.names")
local packet = require("ikex.packet")

local decrypted = {}

--- Payload types of identities.
decrypted.IDI, decrypted.IDR = 35, 36
local CERT, TSI, TSR = 37, 44, 45
local IKE_AUTH, INFORMATIONAL = 35, 37
local AUTHENTICATION_FAILED, REDIRECT = 24, 16407
local INFORMATIONAL_V1, NOTIFY_V1, ATTRIBUTES_V1 = 5, 11, 14
-- An attributes payload that sets an attribute; the attribute of XAUTH with the result, of two bytes (0x8000).
local SET, XAUTH_STATUS = 3, 0x8000 + 16527
local EAP_FAILURE = 4 -- code
local ID_FQDN, ID_RFC822, ID_DN, ID_NULL = 2, 3, 9, 13
-- Identities and traffic selectors that are addresses, by type, and their bytes.
local ID_ADDRESSES, TS_ADDRESSES = { [1] = 4, [5] = 16 }, { [7] = 4, [8] = 16 }
-- Identities of IKEv1 that are subnets and ranges of addresses, by type, and the bytes of one address.
local SUBNETS_V1, RANGES_V1 = { [4] = 4, [6] = 16 }, { [7] = 4, [8] = 16 }
-- Types of gateways in REDIRECT (RFC 5685, 7.2); the bytes of addresses.
local GATEWAY_ADDRESSES, GATEWAY_FQDN = { [1] = 4, [2] = 16 }, 3
local MAX_SELECTORS = 4
local MAX_CHARACTERS = 64
local PROTOCOLS = {
    [0] = "any", [1] = "icmp", [6] = "tcp", [17] = "udp", [50] = "esp", [58] = "icmpv6", [132] = "sctp",
}
local ICMP, ICMP_V6 = 1, 58
local LAST_PORT = 65535

--- The decrypted messages of IKE_AUTH, in the order of their exchanges, requests first.
function decrypted.list_auths(sa)
    local list = {}
    for _, content in ipairs(sa.version == 2 and sa.contents or {}) do
        if content.encrypted and content.pair.exchange == IKE_AUTH then
            list[#list + 1] = content
        end
    end
    table.sort(list, function(a, b)
        if a.pair.message_id ~= b.pair.message_id then
            return a.pair.message_id < b.pair.message_id
        end
        return not a.response and b.response
    end)
    return list
end

--- The error notify by which the first CHILD_SA of an established IKE SA was refused, or REDIRECT in place of the
--- CHILD_SA (RFC 5685, 6); nil if there is neither.
function decrypted.find_child_error(sa)
    local auths = decrypted.list_auths(sa)
    local last = auths[#auths]
    if not last or not last.response then
        return nil
    end
    local notify = contents.error_notify(last)
        or (not contents.first(last, message.SA) and contents.notify(last, REDIRECT))
    return notify and names.of(names.notify, notify.type) or nil
end

--- The type of the first error notify in an encrypted Informational message of IKEv1; nil if there is none.
function decrypted.find_error_v1(content)
    if not content.encrypted or content.pair.exchange ~= INFORMATIONAL_V1 then
        return nil
    end
    for payload in contents.each(content, NOTIFY_V1) do
        if payload.last >= payload.first + 7 then
            local high, low = content.data:byte(payload.first + 6, payload.first + 7)
            local kind = high * 256 + low
            if kind < message.FIRST_STATUS then
                return kind
            end
        end
    end
    return nil
end

--- Whether a message of IKEv1 tells that XAUTH failed: an attributes payload that sets XAUTH_STATUS to 0.
function decrypted.is_xauth_failure(content)
    for payload in contents.each(content, ATTRIBUTES_V1) do
        local data, at = content.data, payload.first + 4
        while data:byte(payload.first) == SET and at + 3 <= payload.last do
            local a, b, c, d = data:byte(at, at + 3)
            local kind, value = a * 256 + b, c * 256 + d
            if kind == XAUTH_STATUS then
                return value == 0
            end
            at = at + 4 + (kind < 0x8000 and value or 0) -- its value, or the length of it
        end
    end
    return false
end

--- The exchange of IKEv1 (its pair) with an encrypted error notify; nil if there is none.
function decrypted.find_refusing_pair(sa)
    for _, content in ipairs(sa.version == 1 and sa.contents or {}) do
        if decrypted.find_error_v1(content) then
            return content.pair
        end
    end
    return nil
end

--- The side that sent AUTHENTICATION_FAILED; nil if it was not decrypted.
function decrypted.find_rejecting_side(sa)
    for _, content in ipairs(sa.version == 1 and sa.contents or {}) do
        if decrypted.find_error_v1(content) == AUTHENTICATION_FAILED then
            return content.from_initiator and "initiator" or "responder"
        end
    end
    for _, content in ipairs(sa.version == 2 and sa.contents or {}) do
        local of_auth = content.pair.exchange == IKE_AUTH or content.pair.exchange == INFORMATIONAL
        if content.encrypted and of_auth and contents.notify(content, AUTHENTICATION_FAILED) then
            return content.from_initiator and "initiator" or "responder"
        end
    end
    return nil
end

--- "EAP failure" if a response has it; nil if none has.
function decrypted.find_eap_failure(auths)
    for _, content in ipairs(auths) do
        if content.response and decrypted.is_eap_failure(content) then
            return "EAP failure"
        end
    end
    return nil
end

--- Whether a message has an EAP packet that ends IKE_AUTH (RFC 7296, 2.16).
function decrypted.is_eap_failure(content)
    for payload in contents.each(content, message.EAP) do
        if payload.last >= payload.first + 3 and content.data:byte(payload.first) == EAP_FAILURE then
            return true
        end
    end
    return false
end

-- A text that is shown, without unprintable characters and shortened.
local function to_text(data)
    local text = data:gsub("[%c\127]", function(character)
        return string.format("\\x%02x", character:byte())
    end)
    return #text <= MAX_CHARACTERS and text or text:sub(1, MAX_CHARACTERS - 1) .. "…"
end

local function format_address(data)
    local version = #data == 4 and 4 or 6
    -- the addresses of an IP header, of which only these two matter
    return (packet.addresses(("\0"):rep(version == 4 and 12 or 8) .. data .. data, 1, version))
end

local function format_identity(kind, data)
    if ID_ADDRESSES[kind] then
        return #data == ID_ADDRESSES[kind] and format_address(data) or "?"
    elseif kind == ID_FQDN or kind == ID_RFC822 then
        return data
    elseif kind == ID_DN then
        return certificates.format_name(data) or "?"
    elseif kind == ID_NULL then
        return data == "" and "NULL" or "?"
    end
    return compat.hex(data)
end

-- The number of bits of a netmask, if it is a prefix; nil if it is not.
local function find_mask_prefix(mask)
    local bits, ended = 0, false
    for index = 1, #mask do
        for place = 7, 0, -1 do
            local is_set = math.floor(mask:byte(index) / 2 ^ place) % 2 == 1
            if is_set and ended then
                return nil
            end
            ended = ended or not is_set
            bits = bits + (is_set and 1 or 0)
        end
    end
    return bits
end

--- The identity in the body of an ID payload of IKEv1 (RFC 2407, 4.6.2), as `ikeanalyze` describes it; nil if the body
-- is too short.
function decrypted.describe_identity_v1(body)
    if #body < 4 then
        return nil
    end
    local kind, data = body:byte(1), body:sub(5)
    local size = SUBNETS_V1[kind] or RANGES_V1[kind]
    if not size then
        return to_text(format_identity(kind, data))
    elseif #data ~= 2 * size then
        return "?"
    end
    local first, second = data:sub(1, size), data:sub(size + 1)
    if RANGES_V1[kind] then
        return to_text(format_address(first) .. "-" .. format_address(second))
    end
    local bits = find_mask_prefix(second)
    return to_text(format_address(first) .. "/" .. (bits and string.format("%.0f", bits) or format_address(second)))
end

--- The first identity in a payload of type `kind` in requests or responses; nil if there is none.
function decrypted.find_identity(auths, response, kind)
    for _, content in ipairs(auths) do
        local payload = content.response == response and contents.first(content, kind)
        if payload and payload.last >= payload.first + 3 then
            local data = content.data
            return to_text(format_identity(data:byte(payload.first), data:sub(payload.first + 4, payload.last)))
        end
    end
    return nil
end

--- The gateway to which a REDIRECT of a response leads (RFC 5685, 7.2): an address or a name; nil if there is none.
function decrypted.find_redirect_gateway(auths)
    for _, content in ipairs(auths) do
        local notify = content.response and contents.notify(content, REDIRECT)
        if notify then
            local kind, size = notify.data:byte(1, 2)
            if not size or #notify.data < 2 + size then
                return nil
            end
            local data = notify.data:sub(3, 2 + size)
            if kind == GATEWAY_FQDN then
                return to_text(data)
            end
            return size == GATEWAY_ADDRESSES[kind] and format_address(data) or to_text(compat.hex(data))
        end
    end
    return nil
end

--- The first certificate that was not valid at a time (us since 1970), in words; nil if all were.
function decrypted.find_certificate_problem(auths, time)
    for _, content in ipairs(auths) do
        for payload in contents.each(content, CERT) do
            local data = content.data
            local certificate = data:byte(payload.first) == certificates.X509_SIGNATURE
                and certificates.read(data:sub(payload.first + 1, payload.last))
            local problem = certificate and certificates.describe_validity(certificate, math.floor(time / 1e6))
            if problem then
                local side = content.from_initiator and "initiator" or "responder"
                return string.format("the %s's certificate %s %s", side, to_text(certificate.subject), problem)
            end
        end
    end
    return nil
end

-- The number of equal bits at the beginning of both ends of a range, if it is a subnet; nil if it is not.
local function find_prefix(first, last)
    local bits, ended = 0, false
    for index = 1, #first do
        local a, b = first:byte(index), last:byte(index)
        for place = 7, 0, -1 do
            local low, high = math.floor(a / 2 ^ place) % 2, math.floor(b / 2 ^ place) % 2
            ended = ended or low ~= high
            if not ended then
                bits = bits + 1
            elseif low ~= 0 or high ~= 1 then
                return nil
            end
        end
    end
    return bits
end

local function describe_ports(protocol, first, last)
    local all = first == 0 and last == LAST_PORT
    if protocol == 0 and all then
        return ""
    end
    local name = PROTOCOLS[protocol] or compat.format_integer(protocol)
    if all then
        return string.format("[%s]", name)
    elseif first == LAST_PORT and last == 0 then
        return string.format("[%s/opaque]", name)
    end
    local function describe(port)
        if protocol == ICMP or protocol == ICMP_V6 then
            return string.format("%d(%d)", math.floor(port / 256), port % 256)
        end
        return compat.format_integer(port)
    end
    local ends = first == last and describe(first) or describe(first) .. "-" .. describe(last)
    return string.format("[%s/%s]", name, ends)
end

-- The traffic selectors of addresses in a payload (RFC 7296, 3.13), as texts.
local function describe_payload(data, payload)
    local texts, at = {}, payload.first + 4
    while at + 7 <= payload.last and #texts < MAX_SELECTORS do
        local kind, protocol, high, low, a, b, c, d = data:byte(at, at + 7)
        local size, length = TS_ADDRESSES[kind], high * 256 + low
        if length < 8 or at + length - 1 > payload.last then
            break
        elseif size and length >= 8 + 2 * size then
            local first, last = data:sub(at + 8, at + 7 + size), data:sub(at + 8 + size, at + 7 + 2 * size)
            local prefix = find_prefix(first, last)
            local ends = prefix and string.format("%s/%d", format_address(first), prefix)
                or format_address(first) .. "-" .. format_address(last)
            texts[#texts + 1] = ends .. describe_ports(protocol, a * 256 + b, c * 256 + d)
        end
        at = at + length
    end
    return to_text(table.concat(texts, " + "))
end

--- The traffic selectors that were requested for the CHILD_SA: "10.1.0.0/16 to 10.2.0.0/16"; nil if unknown.
function decrypted.describe_selectors(auths)
    for _, content in ipairs(auths) do
        local initiator = not content.response and contents.first(content, TSI)
        local responder = not content.response and contents.first(content, TSR)
        if initiator and responder then
            return describe_payload(content.data, initiator) .. " to " .. describe_payload(content.data, responder)
        end
    end
    return nil
end

--- The proposals for the CHILD_SA; nil if they are unknown.
function decrypted.list_child_proposals(auths)
    for _, content in ipairs(auths) do
        if not content.response and contents.first(content, message.SA) then
            return contents.proposals(content)
        end
    end
    return nil
end

return decrypted
