--[[ Frames that a capture has twice, because it was taken on several interfaces or on a router ("any"): the same message in the
same IP packet again within 1 ms; or, within 10 s, with a lower time to live, which only a router makes. Without an
IP identification, the time to live must differ. They are no transmissions. ]]
local Duplicates = {}
Duplicates.__index = Duplicates

local NEAR = 1000 -- us in which a packet crosses a machine that does not hold it back
local HELD = 10e6 -- us that a router may hold a packet back
local MOST = 64 -- transmissions of one message that are compared with

function Duplicates.new()
    return setmetatable({ seen = {} }, Duplicates)
end

local function is_echo(unit, first)
    if first.ip_id ~= unit.ip_id then
        return false
    end
    local identified = unit.ip_id ~= nil and unit.ip_id ~= 0
    local near = unit.time - first.time <= NEAR
    local hops = unit.ttl and first.ttl and first.ttl - unit.ttl or 0
    return (near and (identified or hops ~= 0)) or (hops > 0 and not (first.echoes and first.echoes[unit.ttl]))
end

--- The unit of which `unit` is a later sighting; nil if it is a new one, which is then kept in mind.
function Duplicates:original(unit)
    local seen = self.seen[unit.digest]
    if not seen then
        self.seen[unit.digest] = unit -- one is nearly always all
        return nil
    elseif not seen.units then
        seen = { units = { seen }, first = 1 }
        self.seen[unit.digest] = seen
    end
    local units = seen.units
    while seen.first <= #units and (unit.time - units[seen.first].time > HELD or #units - seen.first >= MOST) do
        units[seen.first] = false
        seen.first = seen.first + 1
    end
    for index = seen.first, #units do
        local first = units[index]
        if is_echo(unit, first) then
            first.echoes = first.echoes or {}
            first.echoes[unit.ttl or -1] = true
            return first
        end
    end
    units[#units + 1] = unit
    return nil
end

return Duplicates
