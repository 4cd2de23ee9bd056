--[[ The rules of retransmission.

A slot is a place in the conversation of one IKE SA: sender, request or response, exchange type, message ID. Within it:
1. Not fragmented: each different content is a message of its own (a body); the same content again is its next
   transmission, however late it comes (RFC 7296, 2.1).
2. Fragmented (RFC 7383): all fragments of a message are one transmission. When a fragment number comes a second time,
   a second one has begun: at the longest pause before it, since a sender sends its fragments at once.
3. A fragment number that comes again with other bytes begins another body; if the total has changed, the same message was
   cut anew, which is a transmission. ]]
local retransmission = {}

local function recut(before, unit)
    if (before.fragment == 0) ~= (unit.fragment == 0) then
        return true
    end
    return before.total ~= 0 and unit.total ~= 0 and before.total ~= unit.total
end

local function complete_in_order(units, from, to)
    if to - from + 1 ~= units[from].total then
        return false
    end
    for index = from, to do
        if units[index].fragment ~= index - from + 1 then
            return false
        end
    end
    return true
end

-- Where each transmission begins, by fragment numbers alone.
local function beginnings(units)
    local starts = { 1 }
    local place = { [units[1].fragment] = 1 }
    for index = 2, #units do
        local unit = units[index]
        if recut(units[index - 1], unit) then
            starts[#starts + 1] = index
            place = {}
        elseif place[unit.fragment] then
            local earliest = place[unit.fragment] + 1
            if complete_in_order(units, starts[#starts], index - 1) then
                earliest = index
            end
            local begin, longest = earliest, -1
            for at = earliest, index do
                local pause = units[at].time - units[at - 1].time
                if pause >= longest then
                    begin, longest = at, pause
                end
            end
            starts[#starts + 1] = begin
            place = {}
            for at = begin, index - 1 do
                place[units[at].fragment] = at
            end
        end
        place[unit.fragment] = index
    end
    return starts
end

local function key(unit)
    return unit.total * 65536 + unit.fragment
end

--- The turns of a slot with fragments, whose units are in order of time: a list of
-- {body, transmission, first, last}, `first` and `last` being the positions of its units.
function retransmission.fragmented(units, ikev1)
    local starts = beginnings(units)
    local turns = {}
    local body, transmission, contents = 1, 0, {}
    for turn, first in ipairs(starts) do
        local last = (starts[turn + 1] or #units + 1) - 1
        local changed = ikev1 and turn > 1 and recut(units[first - 1], units[first])
        for index = first, last do
            local known = contents[key(units[index])]
            if known and known ~= units[index].digest then
                changed = true
            end
        end
        if changed then
            body, transmission, contents = body + 1, 0, {}
        end
        transmission = transmission + 1
        for index = first, last do
            contents[key(units[index])] = units[index].digest
        end
        turns[turn] = { body = body, transmission = transmission, first = first, last = last }
    end
    return turns
end

return retransmission
