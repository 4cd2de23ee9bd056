--[[ The rules that distinguish first transmissions from retransmissions.

A slot is a position in the exchanges of one IKE SA: sender, request or response, exchange type, message ID. Within it:
1. Not fragmented: each distinct content is a message of its own, called a body; the same content again is its next
   transmission, however late it comes (RFC 7296, 2.1).
2. Fragmented (RFC 7383): all fragments of a message are one transmission. When a fragment number comes a second time,
   a second transmission has begun: after the longest pause before it, because a sender sends all fragments at once.
3. A fragment number that comes again with other bytes begins another body. If the total has changed, the sender has
   fragmented the same message again, and this is a transmission of the same body. ]]
local retransmission = {}

local function is_refragmented(previous, datagram)
    if (previous.fragment == 0) ~= (datagram.fragment == 0) then
        return true
    end
    return previous.total ~= 0 and datagram.total ~= 0 and previous.total ~= datagram.total
end

local function is_complete_in_order(datagrams, from, to)
    if to - from + 1 ~= datagrams[from].total then
        return false
    end
    for index = from, to do
        if datagrams[index].fragment ~= index - from + 1 then
            return false
        end
    end
    return true
end

-- The index of the first datagram of each transmission, by fragment numbers alone.
local function find_starts(datagrams)
    local starts = { 1 }
    local last_index = { [datagrams[1].fragment] = 1 } -- by fragment number, within the transmission
    for index = 2, #datagrams do
        local datagram = datagrams[index]
        if is_refragmented(datagrams[index - 1], datagram) then
            starts[#starts + 1] = index
            last_index = {}
        elseif last_index[datagram.fragment] then
            local earliest = last_index[datagram.fragment] + 1
            if is_complete_in_order(datagrams, starts[#starts], index - 1) then
                earliest = index
            end
            local begin, longest = earliest, -1
            for at = earliest, index do
                local pause = datagrams[at].time - datagrams[at - 1].time
                if pause >= longest then
                    begin, longest = at, pause
                end
            end
            starts[#starts + 1] = begin
            last_index = {}
            for at = begin, index - 1 do
                last_index[datagrams[at].fragment] = at
            end
        end
        last_index[datagram.fragment] = index
    end
    return starts
end

local function key(datagram)
    return datagram.total * 65536 + datagram.fragment
end

--- The transmissions of a slot with fragments, whose datagrams are in order of time: a list of {body, number, first,
-- last}. `body`, `number`: of the message and its transmission, from 1; `first`, `last`: positions of its datagrams.
function retransmission.classify_fragments(datagrams, ikev1)
    local starts = find_starts(datagrams)
    local transmissions = {}
    local body, number, contents = 1, 0, {}
    for position, first in ipairs(starts) do
        local last = (starts[position + 1] or #datagrams + 1) - 1
        local changed = ikev1 and position > 1 and is_refragmented(datagrams[first - 1], datagrams[first])
        for index = first, last do
            local known = contents[key(datagrams[index])]
            if known and known ~= datagrams[index].digest then
                changed = true
            end
        end
        if changed then
            body, number, contents = body + 1, 0, {}
        end
        number = number + 1
        for index = first, last do
            contents[key(datagrams[index])] = datagrams[index].digest
        end
        transmissions[position] = { body = body, number = number, first = first, last = last }
    end
    return transmissions
end

return retransmission
