--[[ Exchanges: each request with its response, their times, and which transmission was answered.

The response that ended an exchange is the first one after the last transmission of the request (whoever still repeats the request has
not got the response), as long as that lies before the same side's next request. It answers the latest transmission
before it, unless there are as many responses as requests: then they answer one another in order. ]]
local Association = require("ikex.association")
local Conversation = require("ikex.conversation")
local message = require("ikex.message")

local exchanges = {}

local NEVER = math.huge
local INITS = { [34] = true, [38] = true }

--- Exchanges of the initiator that set the IKE SA up, of IKEv2 and of IKEv1.
local SET_UP = { [34] = true, [35] = true, [38] = true, [39] = true, [43] = true }
local SET_UP_V1 = { [1] = true, [2] = true, [3] = true, [4] = true, [6] = true }
local QUICK_MODE = 32

--- Whether the exchanges of a pair set the IKE SA up. `quick`: the first quick mode of an IKE SA of IKEv1.
function exchanges.sets_up(pair, quick)
    if pair.sa.version == 2 then
        return pair.asked_by_initiator and SET_UP[pair.exchange] == true
    end
    return pair == quick or SET_UP_V1[pair.exchange] == true
end

--- The first quick mode of an IKE SA; nil if there is none.
function exchanges.first_quick_mode(sa)
    local earliest
    for _, one in ipairs(sa.version == 1 and sa.list or {}) do
        if one.exchange == QUICK_MODE and (not earliest or exchanges.start(one) < exchanges.start(earliest)) then
            earliest = one
        end
    end
    return earliest
end

--- When the first message of a pair was sent: its request, if there is one.
function exchanges.start(pair)
    local slot = pair.request or pair.response
    return slot.units[1].time
end

-- Which attempt each response of a pair belongs to, by its body, where a request was repeated with another body: to the last
-- request that was first sent before it. An attempt has one response: the one that is no refusal, or else the last;
-- refusals beside it are late ones of the attempt before.
local function answered_attempts(requests, responses)
    local asked = {}
    for _, sent in ipairs(requests) do
        if sent.body == #asked + 1 and sent.transmission == 1 then
            asked[#asked + 1] = sent.time
        end
    end
    local bodies, attempt, refusal = {}, {}, {}
    local early = {}
    for _, sent in ipairs(responses) do
        if not attempt[sent.body] then
            local before = 0
            for _, time in ipairs(asked) do
                before = before + (time <= sent.time and 1 or 0)
            end
            attempt[sent.body] = math.max(before, 1)
            bodies[#bodies + 1] = sent.body
            if sent.units[1].next == message.NOTIFY then
                refusal[sent.body] = true
                early[sent.body] = (#asked > 0 and before == 0) or nil
            end
        end
    end
    table.sort(bodies)
    local final = {}
    for _, refused in ipairs({ true, false }) do
        for _, body in ipairs(bodies) do
            if (refusal[body] or false) == refused then
                final[attempt[body]] = body
            end
        end
    end
    local moved, any_early = {}, next(early) ~= nil
    for _, body in ipairs(bodies) do
        if refusal[body] and attempt[body] > 1 and final[attempt[body]] ~= body then
            moved[body] = attempt[body] - 1
        end
    end
    local crowded = false
    local counted = {}
    for _, body in ipairs(bodies) do
        crowded = crowded or counted[attempt[body]] ~= nil
        counted[attempt[body]] = true
    end
    if not crowded then
        return attempt, 0, {}
    end
    for body, place in pairs(moved) do
        attempt[body] = place
    end
    return attempt, any_early and 1 or 0, early
end

local NONE = {}

local function group(pair)
    local requests = pair.request and Conversation.messages(pair.request) or NONE
    local responses = pair.response and Conversation.messages(pair.response) or NONE
    local last_request, last_response = requests[#requests], responses[#responses]
    if (not last_request or last_request.body == 1) and (not last_response or last_response.body == 1) then
        -- nearly always: one body on each side
        local exchange = { pair = pair, requests = requests, responses = responses, attempt = 1 }
        for _, sent in ipairs(requests) do
            sent.exchange = exchange
        end
        for _, sent in ipairs(responses) do
            sent.exchange = exchange
        end
        return { exchange }
    end
    local found = {}
    local function enter(sent, place, name)
        local exchange = found[place]
        if not exchange then
            exchange = { pair = pair, requests = {}, responses = {} }
            found[place] = exchange
        end
        local list = exchange[name]
        list[#list + 1] = sent
        sent.exchange = exchange
    end
    local attempt, shift, early = {}, 0, {}
    if pair.sa.version == 2 then
        attempt, shift, early = answered_attempts(requests, responses)
    end
    for _, sent in ipairs(requests) do
        enter(sent, sent.body + shift, "requests")
    end
    for _, sent in ipairs(responses) do
        local place = pair.sa.version == 1 and sent.body or attempt[sent.body]
        enter(sent, early[sent.body] and place or place + shift, "responses")
    end
    local places, list = {}, {}
    for place in pairs(found) do
        places[#places + 1] = place
    end
    table.sort(places)
    for index, place in ipairs(places) do
        list[index] = found[place]
        list[index].attempt = index
    end
    return list
end

local function settle(exchange, following)
    local requests, responses = exchange.requests, exchange.responses
    exchange.request_time = requests[1] and requests[1].time
    exchange.response_time = responses[1] and responses[1].time
    exchange.start = exchange.request_time or exchange.response_time
    for _, sent in ipairs(requests) do
        exchange.request_time = math.min(exchange.request_time, sent.time)
    end
    local last_request, first_response = -NEVER, NEVER
    local ending, latest, answering = NEVER, -NEVER, 0
    for _, sent in ipairs(requests) do
        if sent.time < following then
            last_request = math.max(last_request, sent.time)
        end
    end
    for _, sent in ipairs(responses) do
        first_response = math.min(first_response, sent.time)
        if sent.time < following then
            latest = math.max(latest, sent.time)
            if sent.time > last_request then
                ending = math.min(ending, sent.time)
            end
        end
    end
    local answer = ending ~= NEVER and ending or latest ~= -NEVER and latest or first_response
    if answer ~= NEVER then
        exchange.answer = answer
        for _, sent in ipairs(responses) do
            if sent.time == answer then
                exchange.ended_by = sent
                break
            end
        end
        for _, sent in ipairs(responses) do
            if sent.time < following and sent.time <= answer then
                answering = answering + 1
            end
        end
        local answered
        for _, sent in ipairs(requests) do
            if sent.time <= answer and (not answered or sent.time > answered.time) then
                answered = sent
            end
        end
        if #requests == #responses and #requests > 1 and answering > 0 then
            answered = requests[answering]
        end
        if answered and answered.time <= answer then
            exchange.answered = answered
            exchange.rtt = answer - answered.time
        end
    end
end

--- The exchanges of a pair, in order: {requests, responses, request_time, rtt, answered, ended_by, attempt, start}; the
-- first two are lists of messages, times are in us. `rtt` is nil where it is not known.
function exchanges.of(pair)
    local asked = pair.sa.asked[pair.asked_by_initiator]
    local next_pair = pair.place and asked[pair.place + 1]
    local following = next_pair and exchanges.start(next_pair) or NEVER
    if pair.changed or pair.following ~= following or not pair.exchanges then
        pair.exchanges = group(pair)
        pair.changed, pair.following = false, following
        for index, exchange in ipairs(pair.exchanges) do
            local after = pair.exchanges[index + 1]
            local until_time = after and after.requests[1] and after.requests[1].time or following
            local begin = (exchange.requests[1] or exchange.responses[1]).time
            -- two that began at the same time say nothing of each other
            settle(exchange, until_time > begin and until_time or NEVER)
        end
    end
    return pair.exchanges
end

--- Why a responder wanted another request, of an exchange of IKE_SA_INIT that another one followed: COOKIE, INVALID_KE_PAYLOAD,
-- REDIRECT; nil if it did not.
function exchanges.asked_again(exchange)
    if exchange.pair.sa.version ~= 2 or not INITS[exchange.pair.exchange] then
        return nil
    end
    for _, sent in ipairs(exchange.responses) do
        local data = sent.units[1].data
        if data and sent.units[1].next == message.NOTIFY then
            local head = message.header(data)
            for _, payload in ipairs(message.payloads(data, head.next, message.HEADER + 1, head.length)) do
                local notify = payload.type == message.NOTIFY and message.notify(data, payload)
                if notify and Association.ASKS_AGAIN[notify.type] then
                    return Association.ASKS_AGAIN[notify.type]
                end
            end
        end
    end
    return nil
end

--- The exchange of a unit, the message that it is of, and all exchanges of the pair; nil while that is not settled.
function exchanges.of_unit(unit)
    local sent = Conversation.message_of(unit)
    if not sent then
        return nil
    end
    local pair = unit.slot.pair
    local list = exchanges.of(pair)
    if not sent.exchange then
        return nil
    end
    return sent.exchange, sent, list
end

return exchanges
