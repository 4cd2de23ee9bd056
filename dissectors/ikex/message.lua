--[[ Parsers for IKE messages: the header, the chain of payloads, and KE and notify payloads
(RFC 7296, 3; RFC 7383, 2.5; RFC 2408, 3.1). ]]
local message = {}

local byte, sub = string.byte, string.sub

message.HEADER = 28
message.SK, message.SKF, message.FRAGMENT_V1 = 46, 53, 132
message.SA, message.KE, message.AUTH, message.NONCE, message.NOTIFY, message.EAP = 33, 34, 39, 40, 41, 48
message.FIRST_STATUS = 16384 -- notifies below it are errors
message.USE_PPK = 16435 -- announces a PPK in IKE_AUTH (RFC 8784)
--- Notifies that announce a PPK in IKE_INTERMEDIATE (RFC 9867): USE_PPK_INT, and libreswan's number from before it.
message.INTERMEDIATE_PPKS = { 16445, 50209 }
--- Exchange types whose messages are in the clear.
message.INITS = { [34] = true, [38] = true }
local INITS = message.INITS
local MAX_CLEAR_PAYLOADS = 16 -- a message with more of them before an encrypted payload is hostile

-- The SPIs of a header, which most messages of an IKE SA do not need: its `key` has both.
local Header = {
    __index = function(head, name)
        if name == "spi_i" then
            head.spi_i = sub(head.spis, 1, 8)
            return head.spi_i
        elseif name == "spi_r" then
            head.spi_r = sub(head.spis, 9)
            return head.spi_r
        end
        return nil
    end,
}

-- The position of an Encrypted Fragment payload after clear ones (RFC 7383, 2.5.3) in the message from `at` to `last`,
-- whose first payload is of type `kind`; nil if there is none.
local function find_later_fragment(data, at, last, kind)
    at = at + message.HEADER
    for _ = 1, MAX_CLEAR_PAYLOADS do
        if kind == 0 or kind == message.SK or at + 3 > last then
            return nil
        end
        local following, _, high, low = byte(data, at, at + 3)
        kind, at = following, at + math.max(high * 256 + low, 4)
        if kind == message.SKF then
            return at + 7 <= last and at or nil
        end
    end
    return nil
end

--- Whether a message of IKEv2 has no encrypted payload; nil if its chain of payloads cannot be followed to its end.
function message.lacks_encrypted_payload(data)
    local last, kind, at = #data, byte(data, 17), message.HEADER + 1
    for _ = 0, MAX_CLEAR_PAYLOADS do
        if kind == 0 then
            return true
        elseif kind == message.SK or kind == message.SKF then
            return false
        elseif at + 3 > last then
            return nil
        end
        local following, _, high, low = byte(data, at, at + 3)
        kind, at = following, at + math.max(high * 256 + low, 4)
        if at > last + 1 then
            return nil
        end
    end
    return nil
end

--- The header of the message at position `at` of `data` (nil: 1), in the table `into` (nil: a new one); nil if it is
-- not of version 1 or 2. `key`: both SPIs and the version; `major`: 1 or 2; `fragment`, `total`: fragment numbers of
-- RFC 7383 or IKEv1, 0 if the message is not fragmented. In IKEv1 only the last fragment has the total. `invalid`: the
-- fragment numbers are impossible.
function message.header(data, at, into)
    at = at or 1
    local size = #data - at + 1
    if size < message.HEADER then
        return nil
    end
    local following, version, exchange, flags, i1, i2, i3, i4, l1, l2, l3, l4 = byte(data, at + 16, at + 27)
    local major = version >= 32 and version < 48 and 2 or version >= 16 and version < 32 and 1
    if not major then
        return nil
    end
    local spis = sub(data, at, at + 15)
    local head = into or setmetatable({}, Header)
    head.spis, head.spi_i, head.spi_r = spis, nil, nil
    head.key = major == 2 and spis or "1" .. spis -- of another length for each version
    head.next, head.major, head.exchange, head.flags = following, major, exchange, flags
    head.from_initiator, head.response = flags % 16 >= 8, flags % 64 >= 32
    head.message_id = ((i1 * 256 + i2) * 256 + i3) * 256 + i4
    head.length = ((l1 * 256 + l2) * 256 + l3) * 256 + l4
    head.fragment, head.total, head.invalid = 0, 0, nil
    if following == message.SKF and major == 2 and head.length >= 36 and size >= 36 then
        local n1, n2, t1, t2 = byte(data, at + 32, at + 35)
        head.fragment, head.total = n1 * 256 + n2, t1 * 256 + t2
        head.invalid = head.fragment == 0 or head.fragment > head.total
    elseif major == 2 and following ~= 0 and following ~= message.SK and not INITS[exchange] then
        local skf = find_later_fragment(data, at, at + math.min(head.length, size) - 1, following)
        if skf then
            local n1, n2, t1, t2 = byte(data, skf + 4, skf + 7)
            head.fragment, head.total = n1 * 256 + n2, t1 * 256 + t2
            head.invalid = head.fragment == 0 or head.fragment > head.total
        end
    elseif following == message.FRAGMENT_V1 and major == 1 and head.length >= 36 and size >= 36 then
        local number, flag = byte(data, at + 34, at + 35)
        head.fragment, head.total = number, flag % 2 == 1 and number or 0
        head.invalid = number == 0
    end
    return head
end

--- A table for the headers of messages that are read one after the other.
function message.new_header()
    return setmetatable({ spi_i = "", spi_r = "" }, Header)
end

--- Whether this is an IKE fragment that the snapshot length truncates before its number.
function message.lacks_fragment_number(head)
    local kind = head.major == 2 and message.SKF or message.FRAGMENT_V1
    return head.next == kind and head.fragment == 0 and not head.invalid
end

--- Whether these bytes of a message, which have its header, are only its beginning.
function message.is_truncated(data)
    return message.header(data).length > #data
end

--- Whether the payloads can be read without keys.
function message.is_clear(head)
    if head.major == 2 then
        return head.next ~= message.SK and head.next ~= message.SKF
    end
    return head.flags % 2 == 0 and head.next ~= message.FRAGMENT_V1
end

--- The payloads from position `from` of `data` to position `to`: a list of {type, critical, first, last}, where first
-- and last are the positions of the body; and the problem of an inconsistent chain, otherwise nil. An encrypted payload
-- is the last one, and has `inner`, the type of the first payload in it.
function message.payloads(data, first, from, to)
    local size = #data
    local last = to and to < size and to or size
    local payloads, count, at, kind = {}, 0, from, first
    while kind ~= 0 do
        if at + 3 > last then
            return payloads, "truncated"
        end
        local following, flags, high, low = byte(data, at, at + 3)
        local finish = at + high * 256 + low - 1
        if finish < at + 3 then
            return payloads, "a payload is shorter than its own header"
        elseif finish > last then
            return payloads, "truncated"
        end
        local payload = { type = kind, critical = flags >= 128, first = at + 4, last = finish }
        count = count + 1
        payloads[count] = payload
        if kind == message.SK or kind == message.SKF then
            payload.inner = following
            return payloads
        end
        at, kind = finish + 1, following
    end
    return payloads, at <= last and "bytes after the last payload" or nil
end

--- A KE payload (RFC 7296, 3.4): {method, first, size}; `first`: position of its body, `size`: bytes of the key
-- exchange data, which are the body without its first 4 bytes. nil: it is too short.
function message.key_exchange(data, payload)
    local first = payload.first
    if payload.last < first + 3 then
        return nil
    end
    local high, low = byte(data, first, first + 1)
    return { method = high * 256 + low, first = first, size = payload.last - first - 3 }
end

--- The type of a notify payload (RFC 7296, 3.10); nil if the payload is too short.
function message.notify_type(data, payload)
    local first = payload.first
    if payload.last < first + 3 then
        return nil
    end
    local size, high, low = byte(data, first + 1, first + 3)
    return payload.last >= first + 3 + size and high * 256 + low or nil
end

--- A notify payload (RFC 7296, 3.10): {protocol, type, spi, data}; nil if it is too short.
function message.notify(data, payload)
    local kind = message.notify_type(data, payload)
    if not kind then
        return nil
    end
    local first = payload.first
    local protocol, size = byte(data, first, first + 1)
    return {
        protocol = protocol, type = kind,
        spi = sub(data, first + 4, first + 3 + size), data = sub(data, first + 4 + size, payload.last),
    }
end

--- The type of the notify in which the captured bytes of a clear message end, before its data; nil if they end
-- elsewhere. `head`: the header; `payloads`: those before the end.
function message.truncated_notify_type(data, head, payloads)
    local last = payloads[#payloads]
    local at = last and last.last + 1 or message.HEADER + 1
    local kind = last and byte(data, last.first - 4) or head.next
    if kind ~= message.NOTIFY or last and last.inner or #data < at + 7 then
        return nil
    end
    local _, _, high, low, _, spi_size, type_high, type_low = byte(data, at, at + 7)
    local finish = at + high * 256 + low - 1
    local is_whole_on_the_wire = finish > #data and finish <= head.length
    return is_whole_on_the_wire and #data >= at + 7 + spi_size and type_high * 256 + type_low or nil
end

--- The types of the notifies of a clear message in order, with that of one whose data the snapshot length cut off.
function message.notify_types(data)
    local head = message.header(data)
    local types = {}
    local payloads, problem = message.payloads(data, head.next, message.HEADER + 1, head.length)
    for _, payload in ipairs(payloads) do
        if payload.type == message.NOTIFY then
            types[#types + 1] = message.notify_type(data, payload)
        end
    end
    if problem then
        types[#types + 1] = message.truncated_notify_type(data, head, payloads)
    end
    return types
end

--- The bytes of a payload's body.
function message.body(data, payload)
    return sub(data, payload.first, payload.last)
end

local INVALID_MAJOR_VERSION, NOTIFY_V1 = 5, 11

--- Whether a clear message has the notify INVALID_MAJOR_VERSION, which has the same number in IKEv1 (RFC 2408).
function message.refuses_version(data)
    local head = message.header(data)
    for _, payload in ipairs(head and message.payloads(data, head.next, message.HEADER + 1, head.length) or {}) do
        if head.major == 2 and payload.type == message.NOTIFY then
            local notify = message.notify(data, payload)
            if notify and notify.type == INVALID_MAJOR_VERSION then
                return true
            end
        elseif head.major == 1 and payload.type == NOTIFY_V1 and payload.last - payload.first >= 7 then
            local high, low = data:byte(payload.first + 6, payload.first + 7)
            if high * 256 + low == INVALID_MAJOR_VERSION then
                return true
            end
        end
    end
    return false
end

return message
