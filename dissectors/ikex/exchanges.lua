--[[ Exchanges: each request with its response, their times, and the transmission that was answered.

An initiator repeats its request until it receives the response. So the response that ended an exchange is the first one
after the last transmission of the request, if it precedes the next request of the same side. It answers the latest
transmission before it. If there are as many responses as requests, they answer one another in order. ]]
local Association = require("ikex.association")
local Conversation = require("ikex.conversation")
local Datagram = require("ikex.datagram")
local message = require("ikex.message")
local slots = require("ikex.slots")

local exchanges = {}

local SLOT = Datagram.SLOT
local NEVER = math.huge
-- A pair with more datagrams than this is grouped again only when it has grown by an eighth.
local LARGE = 256
local INITS = { [34] = true, [38] = true }

--- Exchanges of the initiator that set up the IKE SA, of IKEv2 and of IKEv1.
local SET_UP = { [34] = true, [35] = true, [38] = true, [39] = true, [43] = true }
local SET_UP_V1 = { [1] = true, [2] = true, [3] = true, [4] = true, [6] = true }
local QUICK_MODE = 32
local IKE_SA_INIT, LAST_KNOWN = 34, 44
local AUTHS = { [35] = true, [39] = true }

-- Whether the exchange of a pair is between IKE_SA_INIT and IKE_AUTH.
local function precedes_authentication(pair)
    local begun, first_auth = false, NEVER
    for _, other in ipairs(pair.sa.list) do
        if other.requested_by_initiator and AUTHS[other.exchange] then
            first_auth = math.min(first_auth, other.message_id)
        end
        begun = begun or (other.requested_by_initiator and other.exchange == IKE_SA_INIT)
    end
    return begun and pair.message_id < first_auth
end

--- Whether the exchanges of a pair set up the IKE SA. `quick`: the first quick mode of an IKEv1 SA.
function exchanges.sets_up(pair, quick)
    if pair.sa.version == 2 then
        -- one for private use, or a new one, does so in the place of IKE_INTERMEDIATE
        return pair.requested_by_initiator
            and (SET_UP[pair.exchange] == true or (pair.exchange > LAST_KNOWN and precedes_authentication(pair)))
    end
    return pair == quick or SET_UP_V1[pair.exchange] == true
end

--- The first quick mode of an IKE SA; nil if there is none.
function exchanges.first_quick_mode(sa)
    local earliest
    for _, pair in ipairs(sa.version == 1 and sa.list or {}) do
        if pair.exchange == QUICK_MODE and (not earliest or exchanges.start(pair) < exchanges.start(earliest)) then
            earliest = pair
        end
    end
    return earliest
end

--- The time of the first message of a pair: of its request, if there is one.
function exchanges.start(pair)
    return slots.start(pair.request or pair.response)
end

local function is_not_after(transmission, other)
    if transmission.time ~= other.time then
        return transmission.time < other.time
    end
    return transmission.datagrams[1].number <= other.datagrams[1].number
end

-- How many transmissions of a list in order of time are not after another one.
local function count_until(transmissions, other)
    local low, high = 0, #transmissions
    while low < high do
        local middle = math.ceil((low + high) / 2)
        if is_not_after(transmissions[middle], other) then
            low = middle
        else
            high = middle - 1
        end
    end
    return low
end

-- The attempts that the responses of a pair answer, if a request was repeated with another body: the last request that
-- was first sent before it. A refusal may have the same bytes as the one of the attempt before: if that attempt has as
-- many refusals as requests, the next one answers the last request. An attempt has one response: the one that accepts
-- the request, otherwise the last refusal; other refusals answer the attempt before, late.
-- Returns {attempt, early} by transmission, where an `early` one is before the first request, and by how many attempts
-- all others shift.
local function assign_responses(requests, responses)
    local first_requests, sent = {}, {}
    for _, transmission in ipairs(requests) do
        local body = transmission.body
        if body == #first_requests + 1 and transmission.number == 1 then
            first_requests[body] = transmission
        end
        sent[body] = (sent[body] or 0) + 1
    end
    local all, latest, answers, any_early = {}, {}, {}, false
    for _, transmission in ipairs(responses) do
        local before = count_until(first_requests, transmission)
        local attempt, refusal = math.max(before, 1), transmission.datagrams[1].next == message.NOTIFY
        local answer = latest[transmission.body]
        local repeats = answer and not (refusal and attempt > answer.attempt and answer.count >= sent[answer.attempt])
        if not repeats then
            answer = { body = transmission.body, attempt = attempt, count = 0, number = #all + 1, refusal = refusal }
            answer.early = refusal and #first_requests > 0 and before == 0
            any_early = any_early or answer.early
            latest[transmission.body], all[answer.number] = answer, answer
        end
        answer.count = answer.count + 1
        answers[transmission] = answer
    end
    table.sort(all, function(a, b)
        if a.body ~= b.body then
            return a.body < b.body
        end
        return a.number < b.number
    end)
    local final, counted, shared = {}, {}, false -- `shared`: several responses answer the same attempt
    for _, refused in ipairs({ true, false }) do
        for _, answer in ipairs(all) do
            if answer.refusal == refused then
                final[answer.attempt] = answer
                shared = shared or counted[answer.attempt] ~= nil
                counted[answer.attempt] = true
            end
        end
    end
    for _, answer in ipairs(shared and all or {}) do
        answer.late = answer.refusal and answer.attempt > 1 and final[answer.attempt] ~= answer
    end
    for _, answer in ipairs(all) do
        answer.attempt = answer.late and answer.attempt - 1 or answer.attempt
        answer.early = shared and answer.early
    end
    return answers, shared and any_early and 1 or 0
end

local NONE = {}

-- Whether the transmissions of a slot, which may be nil, have different bodies.
local function has_several_bodies(slot)
    return slot and slot.several_bodies
end

local function group_attempts(pair, exactly)
    local requests = pair.request and slots.transmissions(pair.request, exactly) or NONE
    local responses = pair.response and slots.transmissions(pair.response, exactly) or NONE
    if not has_several_bodies(pair.request) and not has_several_bodies(pair.response) then -- the usual case
        local exchange = { pair = pair, requests = requests, responses = responses, attempt = 1 }
        for _, transmission in ipairs(requests) do
            transmission.exchange = exchange
        end
        for _, transmission in ipairs(responses) do
            transmission.exchange = exchange
        end
        return { exchange }
    end
    local by_index = {}
    local function add(transmission, index, name)
        local exchange = by_index[index]
        if not exchange then
            exchange = { pair = pair, requests = {}, responses = {} }
            by_index[index] = exchange
        end
        local list = exchange[name]
        list[#list + 1] = transmission
        transmission.exchange = exchange
    end
    local answers, shift = {}, 0
    if pair.sa.version == 2 then
        answers, shift = assign_responses(requests, responses)
    end
    for _, transmission in ipairs(requests) do
        add(transmission, transmission.body + shift, "requests")
    end
    for _, transmission in ipairs(responses) do
        local answer = answers[transmission] or { attempt = transmission.body } -- of IKEv1
        add(transmission, answer.early and answer.attempt or answer.attempt + shift, "responses")
    end
    local indexes, list = {}, {}
    for index in pairs(by_index) do
        indexes[#indexes + 1] = index
    end
    table.sort(indexes)
    for number, index in ipairs(indexes) do
        list[number] = by_index[index]
        list[number].attempt = number
    end
    return list
end

--- Whether all transmissions of a response together lack fragments of RFC 7383.
function exchanges.lacks_fragments(responses)
    for _, needed in ipairs(slots.find_needed(responses)) do
        if #needed < needed.total then
            return true
        end
    end
    return false
end

-- A message that begins with a notify may have an SK payload after it, if it has this length: IKE header, notify, SK
-- header, and of the shortest ciphers and integrity algorithms 8 bytes of IV, one of padding and 8 of ICV.
local SHORTEST_ENCRYPTED = 28 + 8 + 4 + 8 + 1 + 8
local ENCRYPTED = { [35] = true, [36] = true, [37] = true, [39] = true, [43] = true, [44] = true }

--- Whether an exchange has responses, and none that is encrypted, although its type requires it: a host that does not
-- know the IKE SA may respond so, but the other side must not rely on it (RFC 7296, sections 1.5 and 2.4).
function exchanges.is_unprotected(exchange)
    return #exchange.responses > 0 and #exchanges.encrypted_responses(exchange) == 0
end

-- Whether a transmission has no encrypted payload, although the type of its exchange requires one.
local function lacks_encryption(transmission)
    local datagram, pair = transmission.datagrams[1], transmission.exchange.pair
    if pair.sa.version ~= 2 or not ENCRYPTED[pair.exchange] or not datagram.clear then
        return false
    end
    if datagram.lacks_encryption == nil then
        local lacks = datagram.data and message.lacks_encrypted_payload(datagram.data)
        datagram.lacks_encryption = lacks or (datagram.next == message.NOTIFY and datagram.size < SHORTEST_ENCRYPTED)
    end
    return datagram.lacks_encryption
end

-- Whether a request of an exchange has the encryption that its type requires.
local function has_encrypted_request(exchange)
    for _, request in ipairs(exchange.requests) do
        if not lacks_encryption(request) then
            return true
        end
    end
    return false
end

--- Whether a transmission belongs to no IKE SA, because it lacks the encryption that the type of its exchange requires:
-- a response to an encrypted request, or a notify. If the request is in the clear as well, somebody has decrypted both
-- before they were written into the capture. `has_encrypted`: whether the exchange has an encrypted request, if known.
function exchanges.is_in_clear(transmission, has_encrypted)
    if not lacks_encryption(transmission) then
        return false
    end
    local exchange = transmission.exchange
    if not transmission.slot.response or #exchange.requests == 0 then
        return transmission.datagrams[1].next == message.NOTIFY
    elseif has_encrypted == nil then
        return has_encrypted_request(exchange)
    end
    return has_encrypted
end

--- The responses of an exchange that have the encryption that its type requires.
function exchanges.encrypted_responses(exchange)
    local encrypted, has_encrypted = {}, has_encrypted_request(exchange)
    for _, transmission in ipairs(exchange.responses) do
        if not exchanges.is_in_clear(transmission, has_encrypted) then
            encrypted[#encrypted + 1] = transmission
        end
    end
    return encrypted
end

-- Whether the time to a response can be measured: the capture has all of its fragments, and all IP fragments of one of
-- its transmissions.
local function is_measurable(responses)
    for _, transmission in ipairs(responses) do
        local lacks = false
        for _, datagram in ipairs(transmission.datagrams) do
            -- an IKE fragment without all IP fragments is one that the message lacks
            lacks = lacks or datagram.incomplete and (datagram.fragment == 0 or transmission.slot.pair.sa.version == 1)
        end
        if not lacks then
            return not exchanges.lacks_fragments(responses)
        end
    end
    return false
end

local function find_latest(transmissions, time)
    local latest
    for _, transmission in ipairs(transmissions) do
        if transmission.time <= time and (not latest or transmission.time > latest.time) then
            latest = transmission
        end
    end
    return latest
end

--- Record the response that ended an exchange, and the transmission of the request that it answers; nil if unknown.
function exchanges.set_ending(exchange, response, answered)
    exchange.ended_by, exchange.answer, exchange.end_time = response, response.time, response.last_time
    exchange.answered, exchange.rtt = answered, nil
    if answered and is_measurable(exchange.responses) and not exchanges.is_unprotected(exchange) then
        exchange.rtt = response.time - answered.time
    end
end

--- Correct the transmission of the request that was answered.
function exchanges.set_answered(exchange, answered)
    exchange.answered = answered
    if exchange.rtt then
        exchange.rtt = exchange.answer - answered.time
    end
end

--- The latest transmission of the request of an exchange that was sent by a time; nil if there is none.
function exchanges.find_request_before(exchange, time)
    return find_latest(exchange.requests, time)
end

local function set_start(exchange)
    local requests, responses = exchange.requests, exchange.responses
    exchange.request_time, exchange.response_time = nil, nil
    for _, transmission in ipairs(requests) do
        exchange.request_time = math.min(exchange.request_time or NEVER, transmission.time)
    end
    for _, transmission in ipairs(responses) do
        exchange.response_time = math.min(exchange.response_time or NEVER, transmission.time)
    end
    exchange.start = exchange.request_time or exchange.response_time
end

-- The responses that may have ended an exchange. Of IKE_SA_INIT, those that accept the request if there are any: after
-- a refusal, which anyone can send, an initiator waits for another response (RFC 7296, 2.21.1).
local function select_responses(exchange)
    local responses = exchanges.encrypted_responses(exchange)
    if #responses == 0 then
        return exchange.responses
    elseif #responses == 1 or exchange.pair.sa.version ~= 2 or not INITS[exchange.pair.exchange] then
        return responses
    end
    local accepting = {}
    for _, transmission in ipairs(responses) do
        if transmission.datagrams[1].next ~= message.NOTIFY then
            accepting[#accepting + 1] = transmission
        end
    end
    return #accepting > 0 and accepting or responses
end

local function find_first(transmissions)
    local first = nil
    for _, transmission in ipairs(transmissions) do
        if not first or transmission.time < first.time then
            first = transmission
        end
    end
    return first
end

-- Find the response that ended an exchange, and the transmission that it answers, by the order of the transmissions;
-- `following`: the time of the next request.
local function match_responses(exchange, following)
    local requests, responses = exchange.requests, select_responses(exchange)
    set_start(exchange)
    exchange.unreceived_for = 0
    local last_request, ending, latest, latest_end = -NEVER, nil, nil, -NEVER
    for _, transmission in ipairs(requests) do
        if transmission.time < following then
            last_request = math.max(last_request, transmission.time)
        end
    end
    for _, transmission in ipairs(responses) do
        if transmission.time < following then
            latest_end = math.max(latest_end, transmission.last_time)
            if not latest or transmission.time > latest.time then
                latest = transmission
            end
            if transmission.time > last_request and (not ending or transmission.time < ending.time) then
                ending = transmission
            end
        end
    end
    if latest and last_request > latest_end then
        exchange.unreceived_for = last_request - latest_end
    end
    ending = ending or latest or find_first(exchange.responses)
    if not ending then
        return
    end
    local answering = 0
    for _, transmission in ipairs(responses) do
        if transmission.time < following and transmission.time <= ending.time then
            answering = answering + 1
        end
    end
    local answered = find_latest(requests, ending.time)
    if #requests == #responses and #requests > 1 and answering > 0 then
        answered = requests[answering]
    end
    exchanges.set_ending(exchange, ending, answered and answered.time <= ending.time and answered or nil)
    -- the responder of IKEv1 repeats its response by itself, until the next request comes
    if exchange.pair.sa.version == 1 and following < NEVER and ending.time > last_request then
        exchange.end_time = math.max(exchange.end_time, latest_end)
    end
end

local function count_datagrams(pair)
    return (pair.request and #pair.request or 0) + (pair.response and #pair.response or 0)
end

-- Whether the exchanges of a pair must be determined again; `exactly`: also those of the latest datagrams of a large
-- pair.
local function is_outdated(pair, exactly)
    if not pair.exchanges then
        return true
    elseif not pair.changed then
        return false
    end
    local count = count_datagrams(pair)
    return exactly or count <= LARGE or (count - pair.grouped) * 8 >= count
end

--- The exchanges of a pair, in order: {requests, responses, request_time, response_time, start, ended_by, end_time,
-- answered, rtt, unreceived_for, attempt}. The first two are lists of transmissions, times are in us. `end_time`: of
-- the last frame of the response `ended_by`; `rtt`: from the transmission `answered` to it, nil if unknown;
-- `unreceived_for`: from the last response to a later transmission of the request, 0 if there is none. `exactly`: with
-- the latest datagrams of a large pair, which may be missing otherwise.
function exchanges.of_pair(pair, exactly)
    local next_pair = pair.request_index and Conversation.requested_pairs(pair)[pair.request_index + 1]
    local following = next_pair and exchanges.start(next_pair) or NEVER
    if pair.following ~= following or is_outdated(pair, exactly) then
        pair.exchanges = group_attempts(pair, exactly)
        pair.changed, pair.following, pair.grouped = false, following, count_datagrams(pair)
        for index, exchange in ipairs(pair.exchanges) do
            local after = pair.exchanges[index + 1]
            local again = after and after.requests[1] and after.requests[1].time or NEVER
            local begin = (exchange.requests[1] or exchange.responses[1]).time
            -- a request of the same time or earlier does not limit this one
            local later = following > begin and following or NEVER
            match_responses(exchange, again > begin and math.min(again, later) or later)
        end
    end
    return pair.exchanges
end

--- Discard the exchanges of an IKE SA, whose endings were corrected: the order of the transmissions decides again.
function exchanges.match_again(sa)
    sa.exchanges = nil
    for _, pair in ipairs(sa.list) do
        pair.changed = true
    end
end

--- All exchanges of an IKE SA, in order of time; `sets_up`: whether they set up the IKE SA; `index`: their place.
function exchanges.of_sa(sa)
    if sa.exchanges then
        return sa.exchanges
    end
    local all = {}
    local quick = exchanges.first_quick_mode(sa)
    for _, pair in ipairs(sa.list) do
        local sets_up = exchanges.sets_up(pair, quick)
        for _, exchange in ipairs(exchanges.of_pair(pair, true)) do
            exchange.sets_up = sets_up
            all[#all + 1] = exchange
        end
    end
    table.sort(all, function(a, b)
        if a.start ~= b.start then
            return a.start < b.start
        elseif a.pair ~= b.pair then
            return a.pair.number < b.pair.number
        end
        return a.attempt < b.attempt
    end)
    for index, exchange in ipairs(all) do
        exchange.index = index
    end
    sa.exchanges = all
    return all
end

local function find_retry_reason(exchange)
    for _, transmission in ipairs(exchange.responses) do
        local data = transmission.datagrams[1].data
        if data and transmission.datagrams[1].next == message.NOTIFY then
            for _, kind in ipairs(message.notify_types(data)) do
                if Association.ASKS_AGAIN[kind] then
                    return Association.ASKS_AGAIN[kind]
                end
            end
        end
    end
    return nil
end

--- Why the responder of an IKE_SA_INIT exchange asked for another request: COOKIE, INVALID_KE_PAYLOAD or REDIRECT; nil
-- if it did not.
function exchanges.retry_reason(exchange)
    if exchange.pair.sa.version ~= 2 or not INITS[exchange.pair.exchange] then
        return nil
    end
    if exchange.reason == nil then -- each of the messages shows it
        exchange.reason = find_retry_reason(exchange) or false
    end
    return exchange.reason or nil
end

--- Whether a pair is one exchange, with a request and a response, whose responder did not ask for another request.
-- `exactly`: as in `of_pair`.
function exchanges.is_plain(pair, exactly)
    local request, response = pair.request, pair.response
    if not request or not response then
        return false
    elseif INITS[pair.exchange] and response[1].next == message.NOTIFY then
        return false
    end
    return slots.has_one_body(request, exactly) and slots.has_one_body(response, exactly)
end

--- The exchange of a datagram, its transmission, and all exchanges of the pair; nil until its slot and its pair have
-- been grouped. `exactly`: as in `of_pair`.
function exchanges.of_datagram(datagram, exactly)
    local transmission = slots.transmission_of(datagram, exactly)
    if not transmission then
        return nil
    end
    local list = exchanges.of_pair(datagram[SLOT].pair, exactly)
    if not transmission.exchange then
        return nil, transmission
    end
    return transmission.exchange, transmission, list
end

return exchanges
