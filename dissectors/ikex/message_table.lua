--[[ Tables whose keys are the bytes of messages.

Lua 5.2 hashes only some of the bytes of a long string, so that the messages of a flood that differ in a few bytes share
a few hash values. So after the first messages of a table, others are in tables of their own by a checksum of all bytes.
]]
local message_table = {}

local byte = string.byte

local COUNT = 0 -- the key of the number of messages after the first; checksums are above it
local DIRECT = 64 -- messages that are not worth a checksum
local HASHED = 31 -- bytes of a string that every version hashes completely

local function compute_checksum(data)
    local sum = #data
    for at = 1, #data, 8 do
        local a, b, c, d, e, f, g, h = byte(data, at, at + 7)
        sum = (sum * 8191 + a + (b or 0) * 257 + (c or 0) * 1031 + (d or 0) * 2053 + (e or 0) * 4099 + (f or 0) * 8209
            + (g or 0) * 16411 + (h or 0) * 32771) % 4294967296
    end
    return sum + 1
end

--- The value of a message; nil if there is none.
function message_table.get(messages, data)
    local value = messages[data]
    if value == nil and #data > HASHED and (messages[COUNT] or 0) >= DIRECT then
        local same = messages[compute_checksum(data)]
        return same and same[data]
    end
    return value
end

--- Set the value of a message, which is not nil.
function message_table.set(messages, data, value)
    local count = messages[COUNT] or 0
    if #data <= HASHED or messages[data] ~= nil then
        messages[data] = value
    elseif count < DIRECT then
        if next(messages) ~= nil then
            messages[COUNT] = count + 1
        end
        messages[data] = value
    else
        local checksum = compute_checksum(data)
        local same = messages[checksum] or {}
        messages[checksum] = same
        same[data] = value
    end
end

return message_table
