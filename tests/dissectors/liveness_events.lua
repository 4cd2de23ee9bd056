--[[ Replays the events of the file `events` with the plugin's module `liveness`, and prints one line for each question.

An event is a line: `CLOCK draw NUMBER TIME`, rows are drawn when the packet NUMBER of TIME is the latest; or
`CLOCK final TIME`, which prints the time until which a capture whose last packet is of TIME is final. All are in s. ]]
package.path = "./?.lua;" .. package.path
local Liveness = require("ikex.liveness")

local clock = 0
os.time = function()
    return clock
end

local liveness = Liveness.new(true)
for line in io.lines("events") do
    local at, event, first, second = line:match("^(%d+) (%a+) (%d+) ?(%d*)$")
    clock = tonumber(at)
    if event == "draw" then
        liveness:draw(tonumber(first), tonumber(second))
    else
        local time = liveness:final_time(tonumber(first) * 1e6)
        print(time == math.huge and "all" or string.format("%.0f", time / 1e6))
    end
end
