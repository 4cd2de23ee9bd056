--[[ The text of the Info column: exchange, kind and payloads of a message, so that the packet list and the flow graph
read like a ladder diagram: "IKE_INTERMEDIATE request, KE(ML-KEM-768)". ]]
local Datagram = require("ikex.datagram")
local contents = require("ikex.contents")
local message = require("ikex.message")
local names = require("ikex.names")

local info = {}

local byte = string.byte

local FRAGMENT, TOTAL, SLOT, PLAIN = Datagram.FRAGMENT, Datagram.TOTAL, Datagram.SLOT, Datagram.PLAIN
local MAX_PAYLOADS = 24
local MAX_TOTAL = 64 -- fragments of messages whose texts are kept

local function describe_payload(content, payload, version)
    if version == 2 and payload.type == message.KE and content.key_exchange then
        return string.format("KE(%s)", names.of(names.method, content.key_exchange.method))
    elseif version == 2 and payload.type == message.NOTIFY then
        local notify = message.notify(content.data, payload)
        return notify and string.format("N(%s)", names.of(names.notify, notify.type)) or "N"
    end
    return names.of(version == 2 and names.payload or names.payload1, payload.type)
end

local function describe_payloads(content)
    local parts = {}
    for number, payload in ipairs(content.payloads) do
        if number > MAX_PAYLOADS then
            parts[number] = "..."
            break
        end
        parts[number] = describe_payload(content, payload, content.pair.sa.version)
    end
    return table.concat(parts, ", ")
end

-- The texts of notifies and of key exchanges, by type and by method.
local function new_texts(pattern, registry)
    return setmetatable({}, {
        __index = function(texts, number)
            texts[number] = string.format(pattern, names.of(registry, number))
            return texts[number]
        end,
    })
end
local notify_texts, key_texts = new_texts("N(%s)", names.notify), new_texts("KE(%s)", names.method)

local parts = {}

-- The payloads of a clear message of IKEv2 that has not been decoded: the same text as of its content, without a table
-- for each payload.
local function describe_clear(data)
    local at, last, kind, count, key_text = message.HEADER + 1, #data, byte(data, 17), 0, nil
    while kind ~= 0 and at + 3 <= last and count <= MAX_PAYLOADS do
        local following, _, high, low, b1, b2, b3, b4 = byte(data, at, at + 7)
        local size = high * 256 + low
        if size < 4 or at + size - 1 > last then
            break
        end
        count = count + 1
        if count > MAX_PAYLOADS then
            parts[count] = "..."
        elseif kind == message.KE then
            if key_text == nil then -- the first one counts
                key_text = size >= 8 and key_texts[b1 * 256 + b2] or names.of(names.payload, kind)
            end
            parts[count] = key_text
        elseif kind == message.NOTIFY then
            parts[count] = size >= 8 and size >= 8 + b2 and notify_texts[b3 * 256 + b4] or "N"
        else
            parts[count] = names.of(names.payload, kind)
        end
        at, kind = at + size, following
    end
    return table.concat(parts, ", ", 1, count)
end

-- Texts without payloads, by exchange type, kind and fragment: most messages of a capture have the same ones.
local texts = {}

local function describe_header(version, kind, response, fragment, total)
    local key = (((kind * 2 + (response and 1 or 0)) * 4 + version) * 65536 + fragment) * 65536 + total
    local text = texts[key]
    if not text then
        text = names.of_exchange(version, kind)
        if version == 2 then
            text = text .. (response and " response" or " request")
        end
        if fragment > 0 then
            text = text .. (total > 0 and string.format(", fragment %d/%d", fragment, total)
                or string.format(", fragment %d", fragment))
        end
        if total <= MAX_TOTAL then
            texts[key] = text
        end
    end
    return text
end

--- The text for a datagram, which belongs to `transmission` (nil: unknown).
function info.describe(datagram, transmission)
    local slot, fragment = datagram[SLOT], datagram[FRAGMENT]
    local sa = slot.pair.sa
    local text = describe_header(sa.version, slot.pair.exchange, slot.response, fragment, datagram[TOTAL])
    local plain = datagram[PLAIN]
    local content = not plain and contents.shown(datagram)
    if content then
        content.text = content.text or describe_payloads(content)
        text = content.text ~= "" and text .. ", " .. content.text or text
    elseif not plain and datagram.clear and datagram.data and fragment == 0 then -- not decoded: nothing needs it
        local payloads = describe_clear(datagram.data)
        text = payloads ~= "" and text .. ", " .. payloads or text
    elseif fragment == 0 and (plain or not datagram.clear) then
        text = text .. (sa.version == 2 and ", SK" or ", encrypted")
    end
    return transmission and transmission.number > 1 and "[Retransmission] " .. text or text
end

return info
