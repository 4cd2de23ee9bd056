--[[ The endings of exchanges whose round trip takes longer than the retransmission timer.

Where it does, transmissions of a request keep coming for a round trip after the response that the initiator accepted,
each with a response that the initiator ignores. A message sent less than a round trip before the next request cannot
have caused it: the response one round trip before the next request ended the exchange. If no request follows at once,
the first response that no transmission follows by more than a round trip did.

The round-trip time is estimated from the exchanges of the same two hosts with a single response: it is the shortest
time from a response to the next request, if two exchanges with repeated requests agree on it. Without an estimate,
requests whose repeats were answered have two explanations, a long path or lost responses: they are uncertain, unless a
quick exchange of the same hosts excludes a long path. A capture taken on the initiator's side shows when the first
response arrived, and needs none of this.

These are the rules of `ikeanalyze report` for captures without a given or recorded round-trip time. ]]
local Conversation = require("ikex.conversation")
local exchanges = require("ikex.exchanges")

local paths = {}

-- A shorter time, in round trips, contains no round trip, even with jitter.
local TOO_SHORT = 0.75
-- Bounds of a round trip, in round trips: clocks, jitter and the initiator's processing change it.
local MIN_ROUND_TRIP, MAX_ROUND_TRIP = 0.9, 1.25

-- Find the initiator's next exchange of each exchange of an IKE SA, and whether it follows at once.
local function find_next_exchanges(all)
    local previous
    for index, exchange in ipairs(all) do
        exchange.following, exchange.continues = nil, false
        if exchange.pair.requested_by_initiator and #exchange.requests > 0 then
            if previous then
                previous.following = exchange
                previous.continues = previous.index + 1 == index and previous.sets_up and exchange.sets_up
            end
            previous = exchange
        end
    end
end

-- Whether a handshake was captured on the initiator's side: only the initiator's packets have the initial time to live.
local function is_at_initiator(sa)
    return sa.initiator_direct and not sa.initiator_routed and sa.responder_routed and not sa.responder_direct
end

local function is_repeated(exchange)
    return #exchange.requests > 1 and #exchange.responses > 1
end

-- Call `visit` with each exchange that the initiator began and that has a response, of all IKE SAs of a path.
local function each_answered(path, visit)
    for _, sa in ipairs(path.sas) do
        for _, exchange in ipairs(exchanges.of_sa(sa)) do
            if exchange.pair.requested_by_initiator and exchange.ended_by then
                visit(exchange, sa)
            end
        end
    end
end

-- The round-trip time between capture point and initiator in us; nil if it is unknown.
local function estimate_round_trip(path)
    local gaps, shortest = {}, math.huge
    each_answered(path, function(exchange)
        if #exchange.responses == 1 and exchange.continues then
            local gap = exchange.following.request_time - exchange.end_time
            shortest = math.min(shortest, gap)
            gaps[#gaps + 1] = #exchange.requests > 1 and gap or nil
        end
    end)
    local agreeing = 0
    for _, gap in ipairs(gaps) do
        agreeing = agreeing + (gap <= MAX_ROUND_TRIP * shortest and 1 or 0)
    end
    return agreeing > 1 and shortest > 0 and shortest or nil
end

-- Whether the round trip may take longer than the retransmission timer: most exchanges have repeated requests with
-- several responses, and no request that was sent once was followed soon.
local function is_possibly_long(path)
    local often, seldom, longest, timer = 0, 0, math.huge, math.huge
    each_answered(path, function(exchange)
        if #exchange.requests == 0 then
            return
        elseif is_repeated(exchange) then
            often = often + 1
        else
            seldom = seldom + 1
        end
        if #exchange.requests == 1 and exchange.continues then
            longest = math.min(longest, exchange.following.request_time - exchange.request_time)
        end
    end)
    for _, sa in ipairs(path.sas) do
        for _, exchange in ipairs(exchanges.of_sa(sa)) do
            for _, transmission in ipairs(exchange.pair.requested_by_initiator and exchange.requests or {}) do
                if transmission.number == 2 then
                    timer = math.min(timer, transmission.time - exchange.request_time)
                end
            end
        end
    end
    return often > seldom and MAX_ROUND_TRIP * longest > timer
end

-- The response that fits the round-trip time, nil if there is none. `next_time`: of the next request that the response
-- may have caused, or nil.
local function find_fitting_response(exchange, next_time, rtt)
    local responses = {}
    for index, transmission in ipairs(exchange.responses) do
        responses[index] = transmission
    end
    table.sort(responses, function(a, b)
        if a.last_time ~= b.last_time then
            return a.last_time < b.last_time
        end
        return a.datagrams[1].number < b.datagrams[1].number
    end)
    if next_time then
        local nearest, distance = nil, math.huge
        for _, response in ipairs(responses) do
            local apart = math.abs(next_time - response.last_time - rtt)
            if apart < distance then
                nearest, distance = response, apart
            end
        end
        local gap = next_time - nearest.last_time
        if gap >= TOO_SHORT * rtt and gap <= MAX_ROUND_TRIP * rtt then
            return nearest
        end
    end
    if exchange.continues then
        return nil
    end
    local last_request = exchange.requests[#exchange.requests].time
    for _, response in ipairs(responses) do
        local sent_after = last_request - response.last_time
        if sent_after > 0 and sent_after <= rtt then
            return response
        end
    end
    return nil
end

local function correct_ending(exchange, rtt)
    local following, continues = exchange.following, exchange.continues
    local too_soon = following and following.request_time - exchange.end_time < MIN_ROUND_TRIP * rtt
    -- where the next request does not decide: if the timer expired before the response arrived, transmissions and
    -- responses crossed
    local since = exchange.answered and exchange.answered.time - exchange.response_time or 0
    local crossing = not continues and since > 0 and (since < 2 * rtt or #exchange.responses > 2)
    if not too_soon and not crossing then
        return
    end
    if exchange.sets_up and not continues then
        following = nil -- the exchange after the set-up does not follow at once
    end
    local next_time = following and following.request_time
    if continues and next_time - exchange.end_time >= TOO_SHORT * rtt then
        return
    end
    local response = find_fitting_response(exchange, next_time, rtt)
    local answered = response and exchanges.find_request_before(exchange, response.time)
    if answered and response.last_time < exchange.end_time then
        exchanges.set_ending(exchange, response, answered)
    end
end

-- The exchanges of a path whose ending the order of the transmissions may not decide.
local function find_ambiguous(path)
    local ambiguous = {}
    each_answered(path, function(exchange, sa)
        if is_repeated(exchange) and not is_at_initiator(sa) then
            ambiguous[#ambiguous + 1] = exchange
        end
    end)
    return ambiguous
end

-- Whether a request of a path and its response may both have several transmissions. Otherwise there is nothing to
-- decide, and no exchange need be built: most handshakes with a retransmission lost one message.
local function may_be_ambiguous(path)
    for _, sa in ipairs(path.sas) do
        for _, pair in ipairs(sa.list) do
            local request, response = pair.request, pair.response
            if request and response and request.several and response.several then
                return true
            end
        end
    end
    return false
end

--- Correct the endings of the exchanges between the two hosts of an IKE SA, where the path takes longer than the
-- retransmission timer; mark exchanges as `uncertain` where that is possible and unknown. Requires that the capture has
-- been read to its end.
function paths.settle(sa)
    local path = sa.path
    if path.settled == path.added then
        return
    end
    path.settled = path.added
    if not path.repeated or not may_be_ambiguous(path) then
        return
    end
    for _, each in ipairs(path.sas) do
        each.summary = nil
        Conversation.group_exactly(each)
        exchanges.match_again(each)
        find_next_exchanges(exchanges.of_sa(each))
    end
    local ambiguous = find_ambiguous(path)
    if #ambiguous == 0 then
        return
    end
    local rtt = estimate_round_trip(path)
    local possibly_long = not rtt and is_possibly_long(path)
    for _, exchange in ipairs(ambiguous) do
        if rtt then
            correct_ending(exchange, rtt)
        elseif exchange.sets_up then
            exchange.uncertain = possibly_long
        end
    end
end

return paths
