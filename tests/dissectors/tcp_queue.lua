--[[ Queues 50,000 copies of the TCP segment `esp` of a stream, then the segment `ike`, as the plugin does while it needs
no fields. Prints the messages of IKE, and the most memory that Lua had meanwhile, in MB. ]]
package.path = "./?.lua;" .. package.path
local PacketQueue = require("ikex.packet_queue")

local SEQUENCE, PAYLOAD = 39, 55 -- positions in a frame: TCP in IPv4 in Ethernet
local found, next_sequence, most = 0, 1, 0
local queue = PacketQueue.new(false, { [4500] = true }, function()
    found = found + 1
end, function() end)

local function read(name)
    local file = assert(io.open(name, "rb"))
    local frame = file:read("*a")
    file:close()
    return frame
end

local function add(number, frame)
    local digits = string.format("%08X", next_sequence)
    local sequence = digits:gsub("..", function(pair)
        return string.char(tonumber(pair, 16))
    end)
    local raw = frame:sub(1, SEQUENCE - 1) .. sequence .. frame:sub(SEQUENCE + 4)
    queue:segment(number, number / 1000, #raw, raw, 40000, 4500)
    next_sequence = next_sequence + #raw - PAYLOAD + 1
    most = math.max(most, collectgarbage("count"))
end

local esp, ike = read("esp"), read("ike")
for number = 1, 50000 do
    add(number, esp)
end
add(50001, ike)
queue:process(print, print, math.huge)
print(string.format("%d %.0f", found, most / 1024))
