--[[ How often Lua collects garbage.

By default, a collection starts when the memory in use has doubled. Every call of a post-dissector leaves a few objects
of Wireshark's behind, and the plugin alone takes some megabytes, which would be searched every 15,000 packets. ]]
local garbage = {}

local ALLOWED = 32 * 1024 -- kB of garbage that are not worth a collection
local MOST = 1000 -- %, the largest value of every version
local CALLS = 1024 -- of `adjust`, from one adjustment to the next

local calls = 0
-- %; more than the default of 200, because most of what grows with a capture is kept
local least = math.max(collectgarbage("setpause", 200), 250)

--- Set how far the memory in use may grow until the next collection.
function garbage.adjust()
    local used = collectgarbage("count")
    local pause = math.floor(100 * (used + ALLOWED) / used)
    collectgarbage("setpause", math.min(math.max(pause, least), MOST))
end

--- To be called with each packet that may need memory.
function garbage.count_call()
    calls = calls + 1
    if calls >= CALLS then
        calls = 0
        garbage.adjust()
    end
end

return garbage
