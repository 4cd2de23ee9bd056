--[[ The outcome of a handshake, with the values and rules of `ikeanalyze report`: established (proven by decrypted
payloads), failed, cut, unanswered, completed. RADIUS is not evaluated. ]]
local Conversation = require("ikex.conversation")
local exchanges = require("ikex.exchanges")
local contents = require("ikex.contents")
local message = require("ikex.message")
local names = require("ikex.names")

local outcome = {}

-- The longest first retransmission timer of common stacks, us.
local SLOWEST_FIRST_TIMER = 4e6
local INITS = { [34] = true, [38] = true }
local AUTHS = { [35] = true, [39] = true }
local MAIN, AGGRESSIVE, INFORMATIONAL_V1, QUICK = 2, 4, 5, 32
local INFORMATIONAL, AUTHENTICATION_FAILED, REDIRECT = 37, 24, 16407
local NOTIFY_V1 = 11

--- All exchanges of an IKE SA, in order of time.
function outcome.exchanges(sa)
    local all = {}
    local quick = exchanges.first_quick_mode(sa)
    for _, pair in ipairs(sa.list) do
        local sets_up = exchanges.sets_up(pair, quick)
        for _, exchange in ipairs(exchanges.of_pair(pair)) do
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
    return all
end

-- The name of the first error notify in a clear message; nil if there is none.
local function read_clear_error(data, version)
    local head = message.header(data)
    for _, payload in ipairs(message.payloads(data, head.next, message.HEADER + 1, head.length)) do
        local kind
        if version == 2 and payload.type == message.NOTIFY then
            kind = (message.notify(data, payload) or {}).type
        elseif version == 1 and payload.type == NOTIFY_V1 and payload.last - payload.first >= 7 then
            local high, low = data:byte(payload.first + 6, payload.first + 7)
            kind = high * 256 + low
        end
        if kind and (kind < message.FIRST_STATUS or (version == 2 and kind == REDIRECT)) then
            return version == 2 and names.of(names.notify, kind) or names.of(names.notify1, kind)
        end
    end
    return nil
end

-- The error in the last IKE_SA_INIT response, if no request followed. In IKEv1: the error in any clear message, if
-- quick mode was not answered.
local function find_refusal(sa, all)
    if sa.version == 1 then
        local error_name
        for _, exchange in ipairs(all) do
            if exchange.pair.exchange == QUICK and #exchange.responses > 0 then
                return nil
            end
            for _, list in ipairs({ exchange.requests, exchange.responses }) do
                for _, transmission in ipairs(list) do
                    local datagram = transmission.datagrams[1]
                    error_name = error_name
                        or (datagram.clear and datagram.data and read_clear_error(datagram.data, 1))
                end
            end
        end
        return error_name
    end
    local request, response, accepted
    for _, exchange in ipairs(all) do
        if INITS[exchange.pair.exchange] then
            for _, transmission in ipairs(exchange.requests) do
                if not request or transmission.time >= request.time then
                    request = { time = transmission.time, index = exchange.index }
                end
            end
            for _, transmission in ipairs(exchange.responses) do
                local datagram = transmission.datagrams[1]
                local accepts = datagram.next ~= message.NOTIFY
                local later = response and accepts == accepted and transmission.time >= response.time
                if not response or (accepts and not accepted) or later then
                    response = { time = transmission.time, index = exchange.index, datagram = datagram }
                    accepted = accepts
                end
            end
        end
    end
    if not response or (request and request.index > response.index) or not response.datagram.data then
        return nil
    end
    return read_clear_error(response.datagram.data, 2)
end

-- The outcome that decrypted payloads prove: "failed" with its reason, "established", or "open" if IKE_AUTH had not
-- ended.
local function find_proof(sa)
    local last
    for _, content in ipairs(sa.contents or {}) do
        if content.pair.exchange == INFORMATIONAL and content.from_initiator and not content.response then
            local error_notify = contents.error_notify(content)
            if error_notify and error_notify.type == AUTHENTICATION_FAILED then
                return "failed", names.of(names.notify, error_notify.type)
            end
        elseif AUTHS[content.pair.exchange] and content.response and content.pair.requested_by_initiator then
            if not last or content.pair.message_id >= last.pair.message_id then
                last = content
            end
        end
    end
    if not last then
        return nil
    end
    local error_notify = contents.error_notify(last)
    if contents.each(last, message.AUTH)() and not contents.each(last, message.EAP)() then
        return "established"
    elseif error_notify then
        return "failed", names.of(names.notify, error_notify.type)
    end
    return "open"
end

-- Facts that decide the outcome without decrypted payloads. `has_gap`: messages of the set-up are missing; `waited`: us
-- from the last unanswered request to the end of the capture.
local function collect_evidence(sa, all, last_time)
    local evidence = { waited = 0 }
    local last
    for _, exchange in ipairs(all) do
        local pair = exchange.pair
        local information = sa.version == 1 and pair.exchange == INFORMATIONAL_V1
        if #exchange.requests > 0 and (pair.requested_by_initiator or exchange.sets_up) and not information then
            last = exchange
        end
    end
    local quick, quick_closed, phase1_finished = false, false, false
    for _, exchange in ipairs(all) do
        local kind, attempt = exchange.pair.exchange, exchange.attempt
        local has_request, has_response = #exchange.requests > 0, #exchange.responses > 0
        local closing = sa.version == 1 and (kind == AGGRESSIVE or kind == QUICK) and attempt > 1
        local unanswered = exchange.sets_up and has_request and not has_response and not closing
        local open_last = unanswered and exchange == last
        if unanswered and not open_last or exchange.sets_up and not has_request then
            evidence.has_gap = true
        end
        -- IKEv1: the initiator has not sent the message that ends aggressive or quick mode
        local lacks_final = sa.version == 1 and (kind == AGGRESSIVE or kind == QUICK) and attempt == 1 and has_response
            and exchange.sets_up and exchange == last
        if open_last or lacks_final then
            evidence.last_unanswered = true
        end
        if open_last then
            evidence.last_repeated = evidence.last_repeated or #exchange.requests > 1
            evidence.waited = last_time - exchange.requests[#exchange.requests].time
        elseif lacks_final then
            evidence.last_repeated = evidence.last_repeated or #exchange.responses > 1
        end
        if sa.version == 2 then
            evidence.begun = evidence.begun or (INITS[kind] and has_request and exchange.sets_up)
            evidence.finished = evidence.finished or (AUTHS[kind] and has_response and exchange.sets_up)
        else
            phase1_finished = phase1_finished
                or (kind == MAIN and attempt >= 3 and has_response) or (kind == AGGRESSIVE and attempt >= 2)
            if kind == QUICK and exchange.sets_up then
                quick, quick_closed = true, quick_closed or attempt > 1
            end
        end
    end
    if sa.version == 1 then
        evidence.begun = sa.begun_init
        evidence.finished = phase1_finished and (not quick or quick_closed)
    end
    return evidence
end

local function decide(sa, all, last_time, replaced)
    local proven, reason = find_proof(sa)
    if proven == "failed" then
        return "failed", reason
    elseif proven == "established" then
        return "established", nil
    elseif replaced then
        return "established", "REKEYED"
    end
    reason = find_refusal(sa, all)
    if reason then
        return "failed", reason
    end
    local evidence = collect_evidence(sa, all, last_time)
    if not evidence.begun or evidence.has_gap then
        local rekeyed = false
        local any_set_up = false
        for _, exchange in ipairs(all) do
            any_set_up = any_set_up or exchange.sets_up
            local pair = exchange.pair
            local first = pair.requested_by_initiator and pair.message_id == 0
            rekeyed = rekeyed or (sa.version == 2 and first and not INITS[pair.exchange])
        end
        return "cut", rekeyed and not any_set_up and "REKEYED" or nil
    end
    if evidence.last_unanswered and (evidence.last_repeated or evidence.waited > SLOWEST_FIRST_TIMER) then
        return "unanswered", nil
    elseif evidence.last_unanswered or not evidence.finished or proven == "open" then
        return "cut", nil
    end
    return "completed", nil
end

local function new_sum()
    return { messages = 0, frames = 0, bytes = 0 }
end

local function add(sum, transmission)
    sum.messages, sum.frames = sum.messages + 1, sum.frames + transmission.frames
    sum.bytes = sum.bytes + transmission.bytes
end

--- The summary of a handshake: outcome, reason; sums {messages, frames, bytes} of the set-up by sender (`initiator`,
-- `responder`), of its retransmissions (`retransmitted`), and of messages `after` the set-up; `setup`: set-up time in
-- us, nil if unknown; `extra`: reasons of extra round trips; all `exchanges`. `last_time`: of the capture; `replaced`:
-- the IKE SA that this one replaced, if known.
function outcome.summarize(sa, last_time, replaced)
    for _, pair in ipairs(sa.list) do
        for _, slot in pairs({ request = pair.request, response = pair.response }) do
            Conversation.transmissions(slot, true)
        end
    end
    local all = outcome.exchanges(sa)
    local result = {
        initiator = new_sum(), responder = new_sum(), retransmitted = new_sum(), after = new_sum(),
        extra = {}, exchanges = all,
    }
    local first, last
    for index, exchange in ipairs(all) do
        for _, list in ipairs({ exchange.requests, exchange.responses }) do
            for _, transmission in ipairs(list) do
                if exchange.sets_up then
                    add(transmission.slot.from_initiator and result.initiator or result.responder, transmission)
                    if transmission.number > 1 then
                        add(result.retransmitted, transmission)
                    end
                else
                    add(result.after, transmission)
                end
            end
        end
        if exchange.sets_up and #exchange.requests > 0 then
            first, last = first or exchange, exchange
        end
        local following = all[index + 1]
        if following and INITS[following.pair.exchange] then
            exchange.extra = exchanges.retry_reason(exchange)
            result.extra[#result.extra + 1] = exchange.extra
        end
    end
    result.outcome, result.reason = decide(sa, all, last_time, replaced)
    if first and (result.outcome == "completed" or result.outcome == "established") then
        local finish = last.rtt and last.ended_by and last.ended_by.last_time or last.request_time
        result.setup = finish - first.request_time
    end
    return result
end

return outcome
