--[[ Facts about all transmissions of one message together. ]]
local compat = require("ikex.compat")
local exchanges = require("ikex.exchanges")

local messages = {}

-- Exchanges whose encrypted responses can refuse an SA: IKE_AUTH, CREATE_CHILD_SA, IKE_FOLLOWUP_KE.
local WITH_REFUSALS = { [35] = true, [36] = true, [44] = true }
local MAX_FRAMES = 12 -- evidence of one message
local MAX_NAMED = 64 -- missing fragments

-- A longer encrypted IKE_AUTH response is none that refuses the IKE SA or its CHILD_SA: headers, IV, identity, AUTH
-- payload and notify, padding and ICV have no more. A response of the other types that refuses has less.
local SHORT = 176

--- The number of the first frame of a datagram.
function messages.frame_of(datagram)
    return datagram.numbers and datagram.numbers[1] or datagram.number
end

--- Whether the datagram of a response is an encrypted message so short that it may be a refusal.
function messages.is_short(datagram)
    return not datagram.clear and datagram.fragment == 0 and datagram.size <= SHORT
end

--- Whether the datagram of a response may be the refusal of an SA.
function messages.can_refuse(datagram)
    return WITH_REFUSALS[datagram.slot.pair.exchange] and messages.is_short(datagram) or false
end

-- The first datagrams of the transmissions of a message: those with its lowest fragment number that is there.
local function list_first_datagrams(transmissions, lowest)
    local first = {}
    for _, transmission in ipairs(transmissions) do
        for _, datagram in ipairs(transmission.datagrams) do
            if datagram.fragment == lowest then
                first[#first + 1] = datagram
            end
        end
    end
    table.sort(first, function(a, b)
        return messages.frame_of(a) < messages.frame_of(b)
    end)
    for index = #first, MAX_FRAMES + 1, -1 do
        first[index] = nil
    end
    return first
end

--- All transmissions of a request or of a response together, nil if there are none: {transmissions, bytes, fragments,
-- numbers, ip_fragmented, first, latest, on_4500, ike_bytes, datagrams, countable}. `bytes`: of the largest datagram;
-- `numbers`: those of the fragments that are there, as keys; `first`, `latest`: times in us; `ike_bytes`: the length of
-- a short response that may refuse an SA; `datagrams`: the first ones of its transmissions; `countable`: the
-- transmissions are those of the message, and not IKE fragments without a number.
function messages.summarize(transmissions)
    if #transmissions == 0 then
        return nil
    end
    local slot = transmissions[1].slot
    local can_refuse = slot.response and slot.pair.sa.version == 2 and WITH_REFUSALS[slot.pair.exchange]
    local sum = {
        transmissions = #transmissions, bytes = 0, fragments = 0, numbers = {}, ip_fragmented = false,
        first = math.huge, latest = -math.huge, on_4500 = slot.on_4500 or false, countable = true,
    }
    local lowest = math.huge
    for _, transmission in ipairs(transmissions) do
        for _, datagram in ipairs(transmission.datagrams) do
            sum.bytes = math.max(sum.bytes, datagram.bytes)
            sum.fragments = math.max(sum.fragments, datagram.total)
            sum.numbers[datagram.fragment] = true
            sum.ip_fragmented = sum.ip_fragmented or datagram.ip_fragments or false
            sum.first, sum.latest = math.min(sum.first, datagram.time), math.max(sum.latest, datagram.time)
            lowest = math.min(lowest, datagram.fragment)
            sum.countable = sum.countable and not datagram.unnumbered
            if can_refuse and messages.is_short(datagram) then
                sum.ike_bytes = math.max(sum.ike_bytes or 0, datagram.size)
            end
        end
    end
    sum.datagrams = list_first_datagrams(transmissions, lowest)
    return sum
end

--- How often a request was sent, and in which time; nil: once.
function messages.describe_transmissions(sum)
    if sum and not sum.countable then
        return "at least once"
    elseif not sum or sum.transmissions == 1 then
        return "once"
    end
    return string.format("%d times in %.1f s", sum.transmissions, (sum.latest - sum.first) / 1e6)
end

-- The largest total of the fragments of a message that arrived, which its receiver keeps (RFC 7383, section 2.6), and
-- the numbers of those that arrived, as keys; if none arrived, the largest total.
local function collect_fragments(transmissions)
    local largest, largest_lost, numbers = 0, 0, {}
    for _, transmission in ipairs(transmissions) do
        for _, datagram in ipairs(transmission.datagrams) do
            if datagram.incomplete and transmission.slot.pair.sa.version ~= 1 then
                largest_lost = math.max(largest_lost, datagram.total)
            else
                if datagram.total > largest then
                    largest, numbers = datagram.total, largest == 0 and numbers or {}
                end
                if datagram.total == 0 or datagram.total == largest then -- 0: unknown, of IKEv1
                    numbers[datagram.fragment] = true
                end
            end
        end
    end
    return largest > 0 and largest or largest_lost, numbers
end

--- The IKE fragments that are in no transmission of a request or response: "fragment 2 of 2"; nil if there are none.
-- Only the first ones of very many are named.
function messages.describe_missing(transmissions)
    if not exchanges.lacks_fragments(transmissions) then
        return nil
    end
    local total, numbers = collect_fragments(transmissions)
    local missing = {}
    for number = 1, total do
        if not numbers[number] then
            missing[#missing + 1] = #missing < MAX_NAMED and compat.format_integer(number) or "..."
        end
        if #missing > MAX_NAMED then
            break
        end
    end
    if #missing == 0 then
        return nil
    end
    local word = #missing > 1 and "fragments" or "fragment"
    return string.format("%s %s of %d", word, table.concat(missing, ", "), total)
end

return messages
