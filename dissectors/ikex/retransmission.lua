--[[ The rules that distinguish first transmissions from retransmissions.

A slot is a position in the exchanges of one IKE SA: sender, request or response, exchange type, message ID. Within it:
1. Not fragmented: each distinct content is a message of its own, called a body; the same content again is its next
   transmission, however late it comes (RFC 7296, 2.1).
2. Fragmented (RFC 7383): all fragments of a message are one transmission. When a fragment number comes a second time,
   a second transmission has begun: after the longest pause before it, because a sender sends all fragments at once.
3. A fragment number that comes again with other bytes begins another body. If the total has changed, the sender has
   fragmented the same message again, and this is a transmission of the same body. Fragments with the same total belong
   together, also if they arrive between others.
4. A datagram that lacks IP fragments (`incomplete`) was sent, and belongs to its transmission. It did not arrive,
   because IP delivers whole datagrams alone. So it makes no message complete.

One transmission of a message needs either its unfragmented form or all fragments of one total. The receiver discards
its fragments when one with a larger total arrives, and ignores those with a smaller total (RFC 7383, section 2.6). So
the needed form is the one that becomes complete first at the capture point; if none does, the one of which the capture
has the largest part. ]]
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
    local last_index = { [datagrams[1].fragment] = 1 } -- by fragment number, in this transmission or an earlier one
    -- The indexes that follow a longer pause than all after them, from `head` to `tail`: the first one that may begin a
    -- transmission follows the longest pause. Looking through all pauses would take a time that is quadratic in hostile
    -- captures.
    local longest, pauses, head, tail = {}, {}, 1, 0
    for index = 2, #datagrams do
        local datagram = datagrams[index]
        local pause = datagram.time - datagrams[index - 1].time
        while tail >= head and pauses[tail] <= pause do
            tail = tail - 1
        end
        tail = tail + 1
        longest[tail], pauses[tail] = index, pause
        local last = last_index[datagram.fragment]
        if is_refragmented(datagrams[index - 1], datagram) then
            starts[#starts + 1] = index
        elseif last and last >= starts[#starts] then
            local earliest = last + 1
            if is_complete_in_order(datagrams, starts[#starts], index - 1) then
                earliest = index
            end
            while longest[head] < earliest do
                head = head + 1
            end
            starts[#starts + 1] = longest[head]
        end
        last_index[datagram.fragment] = index
    end
    return starts
end

local function key(datagram)
    return datagram.total * 65536 + datagram.fragment
end

-- The datagrams by total, in order of time; those of IKEv1, whose total is mostly unknown, together.
local function split_by_total(datagrams, ikev1)
    local lists, by_total = {}, {}
    for index, datagram in ipairs(datagrams) do
        local total = ikev1 and 0 or datagram.total
        local list = by_total[total]
        if not list then
            list = { positions = {} }
            by_total[total], lists[#lists + 1] = list, list
        end
        list[#list + 1], list.positions[#list + 1] = datagram, index
    end
    return lists
end

-- The transmissions in order of their first datagrams: lists of datagrams, each with the `position` of the first one.
local function find_transmissions(datagrams, ikev1)
    local transmissions = {}
    for _, list in ipairs(split_by_total(datagrams, ikev1)) do
        local starts = find_starts(list)
        for number, first in ipairs(starts) do
            local transmission = { position = list.positions[first] }
            for index = first, (starts[number + 1] or #list + 1) - 1 do
                transmission[#transmission + 1] = list[index]
            end
            transmissions[#transmissions + 1] = transmission
        end
    end
    table.sort(transmissions, function(a, b)
        return a.position < b.position
    end)
    return transmissions
end

--- The transmissions of a slot with fragments, whose datagrams are in order of time: a list of {body, number,
-- datagrams}. `body`, `number`: of the message and its transmission, from 1.
function retransmission.classify_fragments(datagrams, ikev1)
    local transmissions = find_transmissions(datagrams, ikev1)
    local body, number, contents = 1, 0, {}
    for index, own in ipairs(transmissions) do
        local changed = ikev1 and index > 1 and is_refragmented(datagrams[own.position - 1], own[1])
        for _, datagram in ipairs(own) do
            local known = contents[key(datagram)]
            if known and known ~= datagram.digest then
                changed = true
            end
        end
        if changed then
            body, number, contents = body + 1, 0, {}
        end
        number = number + 1
        for _, datagram in ipairs(own) do
            contents[key(datagram)] = datagram.digest
        end
        transmissions[index] = { body = body, number = number, datagrams = own }
    end
    return transmissions
end

local function add_lost(form, datagram)
    local fragment = datagram.fragment
    local known = form.lost[fragment]
    if not form.numbers[fragment] and (not known or known.bytes < datagram.bytes) then
        form.lost[fragment] = datagram
    end
end

--- The datagrams of a body that one transmission of it needs and that arrived, a list with its `total`, 0 if unknown or
-- not fragmented; and `lost`: of each other fragment number the longest datagram that did not arrive. `datagrams`: all
-- of the body, in order of time. Datagrams of IKEv1 count as arrived: the number of its fragments is unknown.
function retransmission.find_needed(datagrams, ikev1)
    local forms, totals, largest = {}, {}, 0
    for _, datagram in ipairs(datagrams) do
        local fragment, total = datagram.fragment, ikev1 and 0 or datagram.total
        if fragment == 0 or total >= largest then -- the receiver ignores others
            local form = forms[total]
            if not form then
                form = { total = 0, numbers = {}, lost = {} }
                forms[total], totals[#totals + 1] = form, total
            end
            form.total = math.max(form.total, datagram.total)
            if datagram.incomplete and not ikev1 then
                add_lost(form, datagram)
            else
                largest = math.max(largest, total)
                if not form.numbers[fragment] then
                    form.numbers[fragment] = true
                    form[#form + 1] = datagram
                    form.lost[fragment] = nil
                end
            end
            if not ikev1 and #form == (fragment == 0 and 1 or total) then -- never where the total is unknown (0)
                return form
            end
        end
    end
    table.sort(totals)
    local needed, largest_part = nil, 0
    for _, total in ipairs(totals) do
        local part = #forms[total] / math.max(total, 1)
        if part >= largest_part then
            needed, largest_part = forms[total], part
        end
    end
    return needed
end

return retransmission
