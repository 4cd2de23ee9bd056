--[[ Frames that a capture has twice, because it was taken on several interfaces or on a router ("any"): the same message in the same IP
packet again within 1 ms; or, within 10 s, with a lower time to live, which only a router makes. Without an IP
identification, the time to live must differ. They are no transmissions. ]]
local Duplicates = {}
Duplicates.__index = Duplicates

local NEAR = 1000 -- us in which a packet crosses a machine that does not hold it back
local HELD = 10e6 -- us that a router may hold a packet back

function Duplicates.new()
    return setmetatable({ seen = {} }, Duplicates)
end

--- The unit of which `unit` is a later sighting; nil if it is a new one, which is then kept in mind.
function Duplicates:original(unit)
    local digest = unit.digest
    local first = self.seen[digest]
    if not first then
        self.seen[digest] = unit
        return nil
    end
    local before = nil
    local one = first
    local latest = nil
    while one do
        local apart = unit.time - one.time
        if apart <= HELD and one.ip_id == unit.ip_id then
            local identified = unit.ip_id ~= nil and unit.ip_id ~= 0
            local near = apart <= NEAR
            local hops = unit.ttl and one.ttl and one.ttl - unit.ttl or 0
            local echo = hops > 0 and not (one.echoes and one.echoes[unit.ttl])
            if (near and (identified or hops ~= 0)) or echo then
                one.echoes = one.echoes or {}
                one.echoes[unit.ttl or -1] = true
                return one
            end
        end
        latest = one
        one = one.same_content
        if apart > HELD and one then
            -- too old for anything that may come
            if before then
                before.same_content = one
            else
                self.seen[digest] = one
            end
        else
            before = latest
        end
    end
    if latest ~= unit then
        latest.same_content = unit
    end
    return nil
end

return Duplicates
