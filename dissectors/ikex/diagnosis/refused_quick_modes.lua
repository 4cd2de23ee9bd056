--[[ Quick modes of IKEv1 that were refused in an IKE SA that has others (RFC 2409, 5.5 and 5.7).

The receiver of the first or second message of a quick mode refuses it by an error notify in an Informational exchange
of its own, which has another message ID (RFC 2408, 4.8). Nothing in it names the quick mode, so it is taken for the
latest one in which its sender has not sent the message that was to follow. A refusal does not count if a later quick
mode for the same networks was accepted. ]]
local contents = require("ikex.contents")
local decrypted = require("ikex.diagnosis.decrypted")
local message = require("ikex.message")
local names = require("ikex.names")

local refused_quick_modes = {}

local NONE = {}
local INFORMATIONAL, QUICK_MODE = 5, 32
local ID = 5 -- payload type

-- The bodies of the ID payloads of a message, each with its length before it; and the same as text, if there are two.
local function read_identities(content)
    local bodies, texts = {}, {}
    for payload in contents.each(content, ID) do
        bodies[#bodies + 1] = message.body(content.data, payload)
        texts[#texts + 1] = decrypted.describe_identity_v1(bodies[#bodies])
    end
    return bodies, #bodies == 2 and #texts == 2 and table.concat(texts, " to ") or nil
end

-- The quick modes of an IKE SA in order of time, and the decrypted error notifies by exchange.
local function list_quick_modes(facts)
    local of_pair, informational, list = {}, {}, {}
    for _, exchange in ipairs(facts.exchanges) do
        local pair = exchange.pair
        if pair.exchange == QUICK_MODE and of_pair[pair] then
            of_pair[pair].has_third_message = true -- which is an exchange of its own
        elseif pair.exchange == QUICK_MODE then
            list[#list + 1] = {
                exchange = exchange, from_initiator = pair.requested_by_initiator or false,
                is_answered = #exchange.responses > 0,
            }
            of_pair[pair] = list[#list]
        elseif pair.exchange == INFORMATIONAL then
            informational[pair] = informational[pair] or exchange
        end
    end
    table.sort(list, function(a, b)
        return a.exchange.start < b.exchange.start
    end)
    local refusals = {}
    for _, content in ipairs(facts.sa.contents or NONE) do
        local quick_mode = content.encrypted and of_pair[content.pair]
        if quick_mode and not quick_mode.identities then
            quick_mode.identities, quick_mode.selectors = read_identities(content)
        end
        local notify = informational[content.pair] and decrypted.find_error_v1(content)
        if notify then
            refusals[#refusals + 1] = {
                exchange = informational[content.pair], from_initiator = content.from_initiator or false,
                notify = names.of(names.notify1, notify),
            }
        end
    end
    table.sort(refusals, function(a, b)
        return a.exchange.start < b.exchange.start
    end)
    return list, refusals
end

-- Whether an error notify, which may refuse a quick mode, may refuse this one.
local function may_refuse(refusal, one)
    if one.refusal or one.has_third_message then
        return false
    end
    local time = one.is_answered and one.exchange.end_time or one.exchange.start
    return time <= refusal.exchange.start and one.is_answered == (one.from_initiator == refusal.from_initiator)
end

-- Note by which Informational exchange each quick mode was refused.
local function match_refusals(list, refusals)
    for _, refusal in ipairs(refusals) do
        for index = #list, 1, -1 do
            local one = list[index]
            if may_refuse(refusal, one) then
                one.refusal = refusal
                break
            end
        end
    end
end

local function are_equal(here, there, exchanged)
    for index = 1, math.max(#here, #there) do
        if here[index] ~= there[exchanged and #there + 1 - index or index] then
            return false
        end
    end
    return #here == #there
end

-- Whether another quick mode, which was not over before this one, was for the same networks and was accepted.
local function makes_up_for(refused, other)
    local end_time = other.is_answered and not other.refusal and other.exchange.end_time
    if not end_time or end_time < refused.exchange.start then
        return false
    end
    local here, there = refused.identities, other.identities
    return not here or not there or are_equal(here, there) or are_equal(here, there, true)
end

local function is_same(refused, other)
    return other.from_initiator == refused.from_initiator and other.is_answered == refused.is_answered
        and other.refusal.notify == refused.refusal.notify
        and are_equal(refused.identities or NONE, other.identities or NONE)
end

-- The refused quick modes for which no other one made up.
local function list_left(list)
    local left = {}
    for _, one in ipairs(list) do
        local is_left = one.refusal ~= nil
        for _, other in ipairs(is_left and list or NONE) do
            is_left = is_left and not makes_up_for(one, other)
        end
        left[#left + 1] = is_left and one or nil
    end
    return left
end

--- The last quick mode of an IKE SA that was refused, and for which no other one made up: {exchange, refusal, type,
-- sender, by, count, notify, selectors}; false if there is none. `refusal`: the Informational exchange.
function refused_quick_modes.find(facts)
    local list, refusals = list_quick_modes(facts)
    match_refusals(list, refusals)
    local left = list_left(list)
    local last, count = left[#left], 0
    for _, other in ipairs(left) do
        count = count + (is_same(last, other) and 1 or 0)
    end
    local is_refused_by_responder = last and last.from_initiator ~= last.is_answered
    return last ~= nil and {
        exchange = last.exchange,
        refusal = last.refusal.exchange,
        type = names.exchange1[QUICK_MODE],
        sender = last.from_initiator and "initiator" or "responder",
        by = is_refused_by_responder and "responder" or "initiator",
        count = count,
        notify = last.refusal.notify,
        selectors = last.selectors,
    }
end

return refused_quick_modes
