--[[ Messages of IKEv1 in fragments, which are payloads of type 132 of Cisco and Microsoft; no RFC specifies them.

The fragments contain the message with a header of its own, which alone shows whether it is encrypted. Each has its
number, and tells whether it is the last one. All messages of one side in main mode have the same message ID, and so the
same slot: a fragment that contradicts those before it begins another message. ]]
local message = require("ikex.message")

local ikev1_fragments = {}

local FLAGS = message.HEADER + 8 -- position of the flags: the data of the fragment follows
local LAST = 1

local function contradicts(latest, datagram, is_last)
    local number, last = datagram.fragment, latest.last
    local digest = latest.digest[number]
    if digest then
        return digest ~= datagram.digest or is_last ~= (number == last)
    end
    return last and (is_last or number > last) or is_last and number < latest.highest
end

--- Add the fragment in a datagram to the message of its slot. Returns a table that all fragments of the message share;
-- and the bytes of the message, if this fragment completed it.
function ikev1_fragments.add(datagram)
    local slot, data, number = datagram.slot, datagram.data, datagram.fragment
    local is_last = data:byte(FLAGS) % 2 == LAST
    local latest = slot.latest_fragments
    if not latest or contradicts(latest, datagram, is_last) then
        latest = { digest = {}, data = {}, highest = 0, count = 0, shared = {} }
        slot.latest_fragments = latest
    end
    if latest.digest[number] or #data < datagram.size then -- sent again, or truncated by the capture
        return latest.shared
    end
    latest.digest[number], latest.data[number] = datagram.digest, data:sub(FLAGS + 1)
    latest.count, latest.highest = latest.count + 1, math.max(latest.highest, number)
    if is_last then
        latest.last = number
    end
    if latest.count ~= latest.last then
        return latest.shared
    end
    local whole = table.concat(latest.data)
    latest.data = nil
    return latest.shared, whole
end

return ikev1_fragments
