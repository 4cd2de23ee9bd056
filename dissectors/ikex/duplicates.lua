--[[ Capture duplicates: frames that were captured twice because the capture was taken on several interfaces or on a
router ("any"). The same message in the same IP packet appears again within 1 ms, or within 10 s with a lower TTL, which
only a router makes. Without an IP identification, the TTL must differ. Duplicates are not transmissions. ]]
local Duplicates = {}
Duplicates.__index = Duplicates

local WITHIN = 1000 -- us in which a packet crosses a machine that does not queue it
local HELD = 10e6 -- us that a router may queue a packet
local MAX_COMPARED = 64 -- latest transmissions of one message

function Duplicates.new()
    return setmetatable({ seen = {} }, Duplicates)
end

local function is_echo(datagram, first)
    if first.ip_id ~= datagram.ip_id then
        return false
    end
    local identified = datagram.ip_id ~= nil and datagram.ip_id ~= 0
    local near = datagram.time - first.time <= WITHIN
    local hops = datagram.ttl and first.ttl and first.ttl - datagram.ttl or 0
    return (near and (identified or hops ~= 0)) or (hops > 0 and not (first.echoes and first.echoes[datagram.ttl]))
end

--- The datagram that `datagram` is a duplicate of. If there is none, nil, and later datagrams are compared with it.
function Duplicates:original(datagram)
    local seen = self.seen[datagram.digest]
    if not seen then
        self.seen[datagram.digest] = datagram -- most contents are sent only once: avoid a list
        return nil
    elseif not seen.datagrams then
        seen = { datagrams = { seen }, first = 1 }
        self.seen[datagram.digest] = seen
    end
    local datagrams = seen.datagrams
    while
        seen.first <= #datagrams
        and (datagram.time - datagrams[seen.first].time > HELD or #datagrams - seen.first >= MAX_COMPARED)
    do
        datagrams[seen.first] = false
        seen.first = seen.first + 1
    end
    for index = seen.first, #datagrams do
        local first = datagrams[index]
        if is_echo(datagram, first) then
            first.echoes = first.echoes or {}
            first.echoes[datagram.ttl or -1] = true
            return first
        end
    end
    datagrams[#datagrams + 1] = datagram
    return nil
end

return Duplicates
