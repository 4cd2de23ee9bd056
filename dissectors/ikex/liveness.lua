--[[ Whether a capture may still bring packets that it lacks.

tshark dissects a packet again only after it has read the whole file. Wireshark does so whenever it draws a row, also
while it captures, and it keeps the text and the colour that it drew. So during a capture, a packet is not called
missing before packets that are 4 s later, or 5 s without packets, show that it will not come. A capture is running if
packets were added after others were drawn, or if its last packet is only seconds old. ]]
local Liveness = {}
Liveness.__index = Liveness

local WAIT = 4e6 -- us, the longest first retransmission timer of common daemons
local QUIET = 5 -- s without packets after which the capture has probably ended
local RECENT = 10 -- s from the last packet of a running capture until it is drawn

--- `has_window`: the program is Wireshark, which draws rows while it captures.
function Liveness.new(has_window)
    return setmetatable({ has_window = has_window, drawn = nil, running = false, quiet_since = 0 }, Liveness)
end

--- Note that packets are drawn. `latest`: number of the latest packet; `last_time`: of all packets, s.
function Liveness:draw(latest, last_time)
    if not self.has_window or latest == self.drawn then
        return
    end
    local now = os.time()
    self.running = self.drawn ~= nil or math.abs(now - last_time) < RECENT
    self.drawn, self.quiet_since = latest, now
end

--- The time in us until which the capture is final: packets that it lacks before will not come. `last_time`: of all
-- packets, us.
function Liveness:final_time(last_time)
    if not self.running or os.time() - self.quiet_since > QUIET then
        return math.huge
    end
    return last_time - WAIT
end

return Liveness
