--[[ Prints how many handshakes a capture has, and how many of them the diagnosis examines with their outcome, which takes
long. Reads the plugin's modules from the current folder. ]]
package.path = "./?.lua;" .. package.path
local Capture = require("ikex.capture")
local Keyring = require("ikex.keyring")
local diagnose = require("ikex.diagnosis.diagnose")

local capture = Capture.new(Keyring.new({}), false)
local examined = 0

local reader = Proto("reader", "Reader")
function reader.dissector(tvb, pinfo)
    local queue = capture.queue
    if pinfo.number > queue.latest then
        queue.latest = pinfo.number
        queue:see_time(pinfo.abs_ts)
        queue:with_ports(pinfo.number, pinfo.abs_ts, pinfo.len, tvb:raw(), pinfo.src_port, pinfo.dst_port)
    end
end
register_postdissector(reader)

local tap = Listener.new("frame")
function tap.draw()
    capture:finish()
    for _, sa in ipairs(capture.conversation.sas) do
        diagnose.of_sa(capture, sa)
        examined = examined + (sa.summary and 1 or 0)
    end
    print(string.format("%d %d", #capture.conversation.sas, examined))
end
