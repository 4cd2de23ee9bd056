--[[ The text of the Info column: exchange, kind and payloads of a message, so that the packet list and the flow graph
read like a ladder diagram: "IKE_INTERMEDIATE request, KE(ML-KEM-768)". ]]
local contents = require("ikex.contents")
local exchanges = require("ikex.exchanges")
local message = require("ikex.message")
local names = require("ikex.names")

local info = {}

local MAX_PAYLOADS = 24

local function describe_payload(content, payload, version)
    if version == 2 and payload.type == message.KE and content.key_exchange then
        return string.format("KE(%s)", names.of(names.method, content.key_exchange.method))
    elseif version == 2 and payload.type == message.NOTIFY then
        local notify = message.notify(content.data, payload)
        return notify and string.format("N(%s)", names.of(names.notify, notify.type)) or "N"
    end
    return names.of(version == 2 and names.payload or names.payload1, payload.type)
end

-- The payloads of a message; of a fragmented one, in the frame that completed it.
local function describe_payloads(datagram, parts)
    local content = contents.content(datagram)
    if not content or datagram.fragment > 0 and content.frame ~= datagram.number then
        if not datagram.clear and datagram.fragment == 0 then
            parts[#parts + 1] = datagram.slot.pair.sa.version == 2 and "SK" or "encrypted"
        end
        return
    end
    for number, payload in ipairs(content.payloads) do
        if number > MAX_PAYLOADS then
            parts[#parts + 1] = "..."
            return
        end
        parts[#parts + 1] = describe_payload(content, payload, content.pair.sa.version)
    end
end

--- The text for a datagram; nil if it belongs to another frame.
function info.describe(datagram)
    if not datagram.slot then
        return nil
    end
    local pair = datagram.slot.pair
    local name = names.of_exchange(pair.sa.version, pair.exchange)
    if pair.sa.version == 2 then
        name = name .. (datagram.slot.response and " response" or " request")
    end
    local parts = { name }
    if datagram.fragment > 0 then
        parts[2] = datagram.total > 0 and string.format("fragment %d/%d", datagram.fragment, datagram.total)
            or string.format("fragment %d", datagram.fragment)
    end
    describe_payloads(datagram, parts)
    local _, transmission = exchanges.of_datagram(datagram)
    local again = transmission and transmission.number > 1 and "[Retransmission] " or ""
    return again .. table.concat(parts, ", ")
end

return info
