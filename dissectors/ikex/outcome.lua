--[[ What became of a handshake, in the words of `ikeanalyze report` and by the same rules: established (read in payloads),
failed, cut, unanswered, completed. RADIUS is not looked at. ]]
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
        for _, exchange in ipairs(exchanges.of(pair)) do
            exchange.sets_up = sets_up
            all[#all + 1] = exchange
        end
    end
    table.sort(all, function(one, other)
        if one.start ~= other.start then
            return one.start < other.start
        elseif one.pair ~= other.pair then
            return one.pair.number < other.pair.number
        end
        return one.attempt < other.attempt
    end)
    for index, exchange in ipairs(all) do
        exchange.index = index
    end
    return all
end

local function clear_error(data, version)
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

-- The error of the last response of IKE_SA_INIT, if no request followed; in IKEv1 of any clear message, if nothing was agreed on.
local function refusal(sa, all)
    if sa.version == 1 then
        local error_name
        for _, exchange in ipairs(all) do
            if exchange.pair.exchange == QUICK and #exchange.responses > 0 then
                return nil
            end
            for _, list in ipairs({ exchange.requests, exchange.responses }) do
                for _, sent in ipairs(list) do
                    local unit = sent.units[1]
                    error_name = error_name or (unit.clear and unit.data and clear_error(unit.data, 1))
                end
            end
        end
        return error_name
    end
    local request, response, taken
    for _, exchange in ipairs(all) do
        if INITS[exchange.pair.exchange] then
            for _, sent in ipairs(exchange.requests) do
                if not request or sent.time >= request.time then
                    request = { time = sent.time, index = exchange.index }
                end
            end
            for _, sent in ipairs(exchange.responses) do
                local unit = sent.units[1]
                local takes = unit.next ~= message.NOTIFY
                if not response or (takes and not taken) or (takes == taken and sent.time >= response.time) then
                    response = { time = sent.time, index = exchange.index, unit = unit }
                    taken = takes
                end
            end
        end
    end
    if not response or (request and request.index > response.index) or not response.unit.data then
        return nil
    end
    return clear_error(response.unit.data, 2)
end

-- What decrypted payloads prove: "failed" with its reason, "established", or that IKE_AUTH was to go on.
local function proof(sa)
    local last
    for _, content in ipairs(sa.contents or {}) do
        if content.pair.exchange == INFORMATIONAL and content.from_initiator and not content.response then
            local wrong = contents.error_notify(content)
            if wrong and wrong.type == AUTHENTICATION_FAILED then
                return "failed", names.of(names.notify, wrong.type)
            end
        elseif AUTHS[content.pair.exchange] and content.response and content.pair.asked_by_initiator then
            if not last or content.pair.message_id >= last.pair.message_id then
                last = content
            end
        end
    end
    if not last then
        return nil
    end
    local wrong = contents.error_notify(last)
    if contents.each(last, message.AUTH)() and not contents.each(last, message.EAP)() then
        return "established"
    elseif wrong then
        return "failed", names.of(names.notify, wrong.type)
    end
    return "open"
end

local function evidence(sa, all, last_time)
    local found = { waited = 0 }
    local last
    for _, exchange in ipairs(all) do
        local pair = exchange.pair
        local information = sa.version == 1 and pair.exchange == INFORMATIONAL_V1
        if #exchange.requests > 0 and (pair.asked_by_initiator or exchange.sets_up) and not information then
            last = exchange
        end
    end
    local quick, quick_closed, done_v1 = false, false, false
    for _, exchange in ipairs(all) do
        local kind, attempt = exchange.pair.exchange, exchange.attempt
        local asked, answered = #exchange.requests > 0, #exchange.responses > 0
        local closing = sa.version == 1 and (kind == AGGRESSIVE or kind == QUICK) and attempt > 1
        local unanswered = exchange.sets_up and asked and not answered and not closing
        local open_last = unanswered and exchange == last
        if unanswered and not open_last or exchange.sets_up and not asked then
            found.hole = true
        end
        local owing = sa.version == 1 and (kind == AGGRESSIVE or kind == QUICK) and attempt == 1 and answered
            and exchange.sets_up and exchange == last
        if open_last or owing then
            found.last_unanswered = true
        end
        if open_last then
            found.last_repeated = found.last_repeated or #exchange.requests > 1
            found.waited = last_time - exchange.requests[#exchange.requests].time
        elseif owing then
            found.last_repeated = found.last_repeated or #exchange.responses > 1
        end
        if sa.version == 2 then
            found.begun = found.begun or (INITS[kind] and asked and exchange.sets_up)
            found.finished = found.finished or (AUTHS[kind] and answered and exchange.sets_up)
        else
            done_v1 = done_v1 or (kind == MAIN and attempt >= 3 and answered) or (kind == AGGRESSIVE and attempt >= 2)
            if kind == QUICK and exchange.sets_up then
                quick, quick_closed = true, quick_closed or attempt > 1
            end
        end
    end
    if sa.version == 1 then
        found.begun = sa.begun_init
        found.finished = done_v1 and (not quick or quick_closed)
    end
    return found
end

local function decide(sa, all, last_time, replaced)
    local proved, reason = proof(sa)
    if proved == "failed" then
        return "failed", reason
    elseif proved == "established" then
        return "established", nil
    elseif replaced then
        return "established", "REKEYED"
    end
    reason = refusal(sa, all)
    if reason then
        return "failed", reason
    end
    local found = evidence(sa, all, last_time)
    if not found.begun or found.hole then
        local rekeyed = false
        local any_set_up = false
        for _, exchange in ipairs(all) do
            any_set_up = any_set_up or exchange.sets_up
            local pair = exchange.pair
            rekeyed = rekeyed
                or (sa.version == 2 and pair.asked_by_initiator and pair.message_id == 0 and not INITS[pair.exchange])
        end
        return "cut", rekeyed and not any_set_up and "REKEYED" or nil
    end
    if found.last_unanswered and (found.last_repeated or found.waited > SLOWEST_FIRST_TIMER) then
        return "unanswered", nil
    elseif found.last_unanswered or not found.finished or proved == "open" then
        return "cut", nil
    end
    return "completed", nil
end

local function nothing()
    return { messages = 0, frames = 0, bytes = 0 }
end

local function add(sum, sent)
    sum.messages, sum.frames, sum.bytes = sum.messages + 1, sum.frames + sent.frames, sum.bytes + sent.bytes
end

--- A handshake in numbers: outcome, reason; what sets the IKE SA up by sender (`initiator`, `responder`), what of that was
-- `retransmitted`, and what came `after`, each {messages, frames, bytes}; `setup` in us (nil: not known), reasons of
-- `extra` round trips, all `exchanges`.
-- `last_time`: of the capture; `replaced`: the IKE SA that it took over from, if that is known.
function outcome.of(sa, last_time, replaced)
    for _, pair in ipairs(sa.list) do
        for _, slot in pairs({ request = pair.request, response = pair.response }) do
            Conversation.messages(slot, true)
        end
    end
    local all = outcome.exchanges(sa)
    local result = {
        initiator = nothing(), responder = nothing(), retransmitted = nothing(), after = nothing(), extra = {}, exchanges = all,
    }
    local first, last
    for index, exchange in ipairs(all) do
        for _, list in ipairs({ exchange.requests, exchange.responses }) do
            for _, sent in ipairs(list) do
                if exchange.sets_up then
                    add(sent.slot.from_initiator and result.initiator or result.responder, sent)
                    if sent.transmission > 1 then
                        add(result.retransmitted, sent)
                    end
                else
                    add(result.after, sent)
                end
            end
        end
        if exchange.sets_up and #exchange.requests > 0 then
            first, last = first or exchange, exchange
        end
        local following = all[index + 1]
        if following and INITS[following.pair.exchange] then
            exchange.extra = exchanges.asked_again(exchange)
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
