--[[ Prints the diagnosis of each handshake while a capture grows: after each packet, which the clock follows, and 3 s and
6 s after the last one. Reads the plugin's modules from the current folder. ]]
package.path = "./?.lua;" .. package.path
local Capture = require("ikex.capture")
local Keyring = require("ikex.keyring")
local diagnose = require("ikex.diagnosis.diagnose")

local clock = 0
os.time = function()
    return clock
end

local capture = Capture.new(Keyring.new({}), true)

local function print_diagnosis(label)
    capture:finish()
    for _, sa in ipairs(capture.conversation.sas) do
        print(label, diagnose.list_codes(capture, sa) or "nothing")
    end
end

local live = Proto("live", "Live capture")
function live.dissector(tvb, pinfo)
    local queue = capture.queue
    if pinfo.number > queue.latest then
        clock = math.floor(pinfo.abs_ts)
        queue.latest = pinfo.number
        queue:see_time(pinfo.abs_ts)
        queue:with_ports(pinfo.number, pinfo.abs_ts, pinfo.len, tvb:raw(), pinfo.src_port, pinfo.dst_port)
        print_diagnosis("packet " .. string.format("%d", pinfo.number))
    end
end
register_postdissector(live)

local tap = Listener.new("frame")
function tap.draw()
    for _ = 1, 2 do
        clock = clock + 3
        print_diagnosis("later")
    end
end
