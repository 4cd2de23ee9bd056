--[[ The outcome of a handshake, with the values and rules of `ikeanalyze report`: established (proven by decrypted
payloads), failed, cut, unanswered, half-open, completed; unknown for an IKE SA that replaced another one, unless its
rekeying was decrypted. ]]
local Conversation = require("ikex.conversation")
local exchanges = require("ikex.exchanges")
local contents = require("ikex.contents")
local decrypted = require("ikex.diagnosis.decrypted")
local message = require("ikex.message")
local names = require("ikex.names")
local paths = require("ikex.paths")
local Radius = require("ikex.radius")
local slots = require("ikex.slots")

local outcome = {}

local NO_SPI = ("\0"):rep(8)
-- The longest first retransmission timer of common stacks, us.
local SLOWEST_FIRST_TIMER = 4e6
local INITS = { [34] = true, [38] = true }
local AUTHS = { [35] = true, [39] = true }
local MAIN, AGGRESSIVE, INFORMATIONAL_V1, QUICK = 2, 4, 5, 32
local CREATE_CHILD_SA, INFORMATIONAL, IKE_INTERMEDIATE = 36, 37, 43
local AUTHENTICATION_FAILED, ANOTHER_AUTH_FOLLOWS = 24, 16405
-- Error notifies that delete the IKE SA (RFC 7296, 2.21.2): UNSUPPORTED_CRITICAL_PAYLOAD, INVALID_SYNTAX,
-- AUTHENTICATION_FAILED.
local FATAL = { [1] = true, [7] = true, [24] = true }
-- Status notifies with which the responder refuses the first request: REDIRECT (RFC 5685), TICKET_NACK (RFC 5723, 4.3).
local REFUSALS = { [16407] = true, [16412] = true }
-- Notifies by which a responder asks for another IKE_SA_INIT request: INVALID_KE_PAYLOAD, COOKIE.
local WANTS_ANOTHER_REQUEST = { [17] = true, [16390] = true }
local INVALID_SPI, INVALID_MAJOR_VERSION = names.of(names.notify, 11), names.of(names.notify, 5)
local NOTIFY_V1 = 11
local MISSES_PACKETS = { cut = true, unanswered = true, ["half-open"] = true }

-- The types of the notifies of a clear message of IKEv1, in order.
local function read_notify_types_v1(data)
    local types = {}
    local head = message.header(data)
    for _, payload in ipairs(message.payloads(data, head.next, message.HEADER + 1, head.length)) do
        if payload.type == NOTIFY_V1 and payload.last - payload.first >= 7 then
            local high, low = data:byte(payload.first + 6, payload.first + 7)
            types[#types + 1] = high * 256 + low
        end
    end
    return types
end

-- The name of the first error notify in a clear message, and of the first one that asks for another request; nil if
-- there is none.
local function read_clear_error(data, version)
    local error_name, wanted
    for _, kind in ipairs(version == 2 and message.notify_types(data) or read_notify_types_v1(data)) do
        if version == 2 and WANTS_ANOTHER_REQUEST[kind] then
            wanted = wanted or names.of(names.notify, kind)
        elseif kind < message.FIRST_STATUS or (version == 2 and REFUSALS[kind]) then
            error_name = error_name or (version == 2 and names.of(names.notify, kind) or names.of(names.notify1, kind))
        end
    end
    return error_name, wanted
end

-- The error in the last IKE_SA_INIT response, if no request followed, and the notify by which it asks for another
-- request. In IKEv1: the error in any clear message, if quick mode was not answered.
local function find_refusal(sa, all)
    if sa.version == 1 then
        local error_name, begun
        for _, exchange in ipairs(all) do
            begun = begun or exchange.sets_up
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
        -- a host may send INVALID-SPI for an ESP packet, with any cookies and outside of all exchanges
        return (begun or error_name ~= "INVALID-SPI") and error_name or nil
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

-- Whether an IKE SA of IKEv2 has only INVALID_SPI messages in the clear: about an ESP or AH packet, outside of any IKE
-- SA (RFC 7296, section 1.5).
local function is_about_esp(sa, all)
    for _, exchange in ipairs(all) do
        if exchange.pair.exchange ~= INFORMATIONAL or #exchange.responses > 0 then
            return false
        end
        for _, transmission in ipairs(exchange.requests) do
            local datagram = transmission.datagrams[1]
            local clear = exchanges.is_in_clear(transmission) and datagram.data
            if not clear or read_clear_error(clear, 2) ~= INVALID_SPI then
                return false
            end
        end
    end
    return sa.version == 2 and #all > 0
end

local function is_refusal(transmission)
    local datagram = transmission.datagrams[1]
    return datagram.clear and datagram.data and message.refuses_version(datagram.data)
end

-- Whether an IKE SA consists of messages that refuse its version (RFC 7296, 2.5), and of unanswered first requests.
local function is_wrong_version(sa, all)
    local is_refused = false
    for _, exchange in ipairs(all) do
        local kind, first = exchange.pair.exchange, exchange.attempt == 1
        local is_first_request = INITS[kind] or sa.version == 1 and first
        if not is_first_request or not exchange.sets_up or #exchange.responses > 0 then
            local refusals = kind == INFORMATIONAL and exchange.responses or exchange.requests
            local others = kind == INFORMATIONAL and exchange.requests or exchange.responses
            if #others > 0 or (kind ~= INFORMATIONAL and kind ~= INFORMATIONAL_V1) then
                return false
            end
            for _, transmission in ipairs(refusals) do
                if not is_refusal(transmission) then
                    return false
                end
                is_refused = true
            end
        end
    end
    return is_refused
end

-- What decrypted payloads of IKEv1 prove: "failed" with the reason, or "established": quick mode of both sides.
local function find_proof_v1(sa)
    local quick = {} -- by message ID: the sides
    local failure
    for _, content in ipairs(sa.contents or {}) do
        local error_type = decrypted.find_error_v1(content)
        if error_type then
            failure = failure or names.of(names.notify1, error_type)
        elseif content.encrypted and decrypted.is_xauth_failure(content) then
            failure = failure or "XAUTH_STATUS failure"
        elseif content.encrypted and content.pair.exchange == QUICK then
            local sides = quick[content.pair.message_id] or {}
            quick[content.pair.message_id] = sides
            sides[content.from_initiator and "initiator" or "responder"] = true
            if sides.initiator and sides.responder then
                return "established" -- an error notify then concerned something else
            end
        end
    end
    return failure and "failed" or nil, failure
end

-- Whether a message of an IKE_AUTH exchange announces that its sender authenticates itself again (RFC 4739).
local function announces_another_auth(sa, pair)
    for _, content in ipairs(sa.contents) do
        if content.encrypted and content.pair == pair and contents.notify(content, ANOTHER_AUTH_FOLLOWS) then
            return true
        end
    end
    return false
end

-- The error notify of the last IKE_INTERMEDIATE response, if no IKE_AUTH exchange follows (RFC 9242, 3.4).
local function find_refused_intermediate(sa, response)
    for _, pair in ipairs(sa.list) do
        if AUTHS[pair.exchange] then
            return nil
        end
    end
    return response and contents.error_notify(response)
end

-- The outcome that decrypted payloads prove: "failed" with its reason, "established", or "open" if IKE_AUTH had not
-- ended.
local function find_proof(sa)
    if sa.version == 1 then
        return find_proof_v1(sa)
    end
    local last, last_intermediate, rejection
    for _, content in ipairs(sa.contents or {}) do
        local proves = content.encrypted -- anyone can send a message in the clear
        if proves and content.pair.exchange == INFORMATIONAL and content.from_initiator and not content.response then
            local error_notify = contents.error_notify(content)
            if error_notify and error_notify.type == AUTHENTICATION_FAILED then
                rejection = names.of(names.notify, error_notify.type)
            end
        elseif proves and AUTHS[content.pair.exchange] and content.response and content.pair.requested_by_initiator then
            if not last or content.pair.message_id >= last.pair.message_id then
                last = content
            end
        elseif proves and content.pair.exchange == IKE_INTERMEDIATE and content.response then
            if not last_intermediate or content.pair.message_id >= last_intermediate.pair.message_id then
                last_intermediate = content
            end
        end
    end
    if not last then
        local refusal = find_refused_intermediate(sa, last_intermediate)
        local reason = rejection or refusal and names.of(names.notify, refusal.type)
        return reason and "failed", reason
    end
    local error_notify = contents.error_notify(last)
    -- a response without an AUTH payload ends IKE_AUTH if the initiator authenticates itself more often (RFC 4739)
    local has_ended = not contents.each(last, message.EAP)() and (contents.each(last, message.SA)()
        or contents.each(last, message.AUTH)() and not announces_another_auth(sa, last.pair))
    if rejection and (has_ended or not error_notify) then -- otherwise the response had nothing that could be rejected
        return "failed", rejection
    elseif has_ended and not (error_notify and FATAL[error_notify.type]) then
        return "established"
    elseif error_notify then
        return "failed", names.of(names.notify, error_notify.type)
    elseif decrypted.is_eap_failure(last) then
        return "failed", "EAP failure"
    end
    return "open"
end

-- Whether all transmissions of a response lack IP fragments on the path. A capture filter on UDP ports drops all of
-- them but the first, so the capture must have another one of the response.
local function lack_ip_fragments(responses)
    local has_later = false
    for _, transmission in ipairs(responses) do
        local datagram = transmission.datagrams[1]
        if not datagram.incomplete or not datagram.ip_fragments or datagram.fragment > 0 then
            return false
        end
        has_later = has_later or datagram.frames > 1
    end
    return has_later
end

-- Whether an exchange of the set-up has no response that the initiator can have received: it repeated the request later
-- than any round trip, or all transmissions of the response together lack fragments, or each lacks IP fragments.
local function is_unreceived(exchange)
    if not exchange.sets_up or #exchange.requests == 0 or #exchange.responses == 0 then
        return false
    elseif exchange.unreceived_for > SLOWEST_FIRST_TIMER then
        return true
    end
    local repeated = exchange.unreceived_for > 0 or #exchange.responses > 1
    return repeated and (exchanges.lacks_fragments(exchange.responses) or lack_ip_fragments(exchange.responses))
end

local function is_answered(exchange)
    return #exchange.responses > 0 and not exchanges.is_unprotected(exchange)
end

-- Whether the initiator answered a request of the responder: it has the IKE SA.
local function is_established_by_responder(all)
    for _, exchange in ipairs(all) do
        if not exchange.pair.requested_by_initiator and not exchange.sets_up and is_answered(exchange) then
            return true
        end
    end
    return false
end

-- Whether an IKE SA has later exchanges, as only one that was set up has them. An initiator sends no request before the
-- response to the one before, so that its later request shows by its message ID that IKE_AUTH was answered. It does not
-- if it follows IKE_SA_INIT, IKE_INTERMEDIATE or an IKE_AUTH that had not ended (`is_open`) directly, as a DELETE does
-- with which an initiator stops the set-up, or if it follows an IKE_AUTH request that was repeated in vain, unless it
-- was answered itself.
local function is_continued(sa, all, is_open)
    local last_id, has_auth, in_vain = -1, false, false
    for _, exchange in ipairs(all) do
        local pair = exchange.pair
        if sa.version == 2 and pair.requested_by_initiator and exchange.sets_up then
            has_auth = has_auth or (AUTHS[pair.exchange] == true and not is_open)
            if pair.message_id >= last_id then
                last_id, in_vain = pair.message_id, not is_answered(exchange) and #exchange.requests > 1
            end
        end
    end
    for _, exchange in ipairs(all) do
        local pair, answered = exchange.pair, is_answered(exchange)
        if not exchange.sets_up and not (sa.version == 2 and pair.requested_by_initiator) then
            if answered then
                return true
            end
        elseif not exchange.sets_up and #exchange.requests > 0 and not exchanges.is_in_clear(exchange.requests[1]) then
            local step = pair.message_id - last_id
            -- message ID 0 synchronises those of an IKE SA (RFC 6311, section 4.1)
            if step > 1 or step == 1 and has_auth and (answered or not in_vain) or step <= 0 and answered then
                return true
            end
        end
    end
    return false
end

-- Whether the message IDs of the set-up skip one, whose exchange the capture lacks, or fall, because the clock was set
-- back: the initiator numbers its requests one by one (RFC 7296, 2.2), and all that set up the IKE SA are its own.
local function has_wrong_ids(sa, all)
    local seen, count, lowest, highest = {}, 0, math.huge, -1
    local previous
    for _, exchange in ipairs(all) do
        local id = exchange.pair.message_id
        if sa.version == 2 and exchange.sets_up then
            if previous and id < previous.pair.message_id and exchange.start > previous.start then
                return true
            elseif not seen[id] then
                seen[id], count = true, count + 1
                lowest, highest = math.min(lowest, id), math.max(highest, id)
            end
            previous = exchange
        end
    end
    return count > 0 and highest - lowest >= count
end

-- Facts that decide the outcome without decrypted payloads. `has_gap`: messages of the set-up are missing; `waited`: us
-- from the last message of the set-up to the end of the capture; `continued`: see `is_continued`; `asked_again`:
-- IKEv1's responder repeated the message that the initiator had to answer. `is_open`: decrypted payloads show that
-- IKE_AUTH had not ended.
local function collect_evidence(sa, all, last_time, is_open)
    local evidence = { continued = is_continued(sa, all, is_open), has_gap = has_wrong_ids(sa, all) }
    local last, first_set_up
    local from_initiator, from_responder
    for _, exchange in ipairs(all) do
        local pair = exchange.pair
        first_set_up = first_set_up or (exchange.sets_up and exchange)
        for _, list in ipairs({ exchange.requests, exchange.responses }) do
            for _, transmission in ipairs(list) do
                from_initiator = from_initiator or transmission.slot.from_initiator
                from_responder = from_responder or not transmission.slot.from_initiator
                if exchange.sets_up then
                    evidence.waited = math.min(evidence.waited or math.huge, last_time - transmission.last_time)
                end
            end
        end
        local information = sa.version == 1 and pair.exchange == INFORMATIONAL_V1
        local later = pair.requested_by_initiator and evidence.continued
        if #exchange.requests > 0 and (later or exchange.sets_up) and not information then
            last = exchange
        end
    end
    local quick, quick_closed, phase1_finished = false, false, false
    local established = is_established_by_responder(all)
    for _, exchange in ipairs(all) do
        local kind, attempt = exchange.pair.exchange, exchange.attempt
        local has_request, has_response = #exchange.requests > 0, is_answered(exchange)
        local closing = sa.version == 1 and (kind == AGGRESSIVE or kind == QUICK) and attempt > 1
        local unanswered = exchange.sets_up and has_request and not has_response and not closing
        local open_last = exchange == last and not established and (unanswered or is_unreceived(exchange))
        if unanswered and exchange ~= last or exchange.sets_up and not has_request then
            evidence.has_gap = true
        end
        -- IKEv1: the initiator has not sent the message that ends aggressive or quick mode
        local lacks_final = sa.version == 1 and (kind == AGGRESSIVE or kind == QUICK) and attempt == 1 and has_response
            and exchange.sets_up and exchange == last
        if open_last then
            evidence.last_unanswered = true
            evidence.last_repeated = evidence.last_repeated or #exchange.requests > 1
        elseif lacks_final then
            evidence.lacks_final = true
            evidence.asked_again = evidence.asked_again or #exchange.responses > 1
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
        evidence.finished = phase1_finished and (not quick or quick_closed) and not evidence.lacks_final
    elseif first_set_up and #first_set_up.requests == 0 then
        evidence.begun = false
    end
    if last and #last.responses > 0 and Radius.is_open(sa, last) then
        evidence.finished = false
    end
    -- the responder's SPI shows that it has sent a message
    evidence.one_sided = sa.spi_r ~= NO_SPI and not (from_initiator and from_responder)
    return evidence
end

-- Whether an IKE SA replaced another one, by its message IDs: from 0, without IKE_SA_INIT.
local function is_rekeyed(sa, all, conversation)
    local by_initiator, by_responder, has_requests, first_by_initiator, first_by_responder
    for _, exchange in ipairs(all) do
        local pair = exchange.pair
        if sa.version ~= 2 or exchange.sets_up then
            return false
        end
        local first_message = exchange.requests[1] or exchange.responses[1]
        -- INVALID_SPI of an ESP packet has message ID 0 and any IKE SPIs (RFC 7296, 1.5), INVALID_MAJOR_VERSION those
        -- of a request of another version
        local in_clear = first_message and exchanges.is_in_clear(first_message)
        local first = pair.message_id == 0 and not INITS[pair.exchange] and not in_clear
        -- after others, message ID 0 synchronises those of an older IKE SA (RFC 6311, 4.1)
        if pair.requested_by_initiator then
            first_by_initiator = first_by_initiator or (first and not by_initiator)
            by_initiator = by_initiator or not in_clear
            has_requests = true
        else
            first_by_responder = first_by_responder or (first and not by_responder)
            by_responder = by_responder or not in_clear
        end
    end
    if first_by_initiator or has_requests or not first_by_responder then
        return first_by_initiator or false
    end
    -- the responder's requests count from 0 in every IKE SA: was one created between these hosts before?
    local start = exchanges.start(all[1].pair)
    for _, other in ipairs(conversation:of_hosts(sa)) do
        local same = other.initiator == sa.initiator and other.responder == sa.responder
        local reversed = other.initiator == sa.responder and other.responder == sa.initiator
        for _, pair in ipairs((same or reversed) and other.list or {}) do
            if other.version == 2 and pair.exchange == CREATE_CHILD_SA and pair.response
                and slots.start(pair.response) < start then
                return true
            end
        end
    end
    return false
end

-- The outcome and its reason; `proven` and `reason` come from decrypted payloads.
local function decide(sa, all, evidence, proven, reason)
    if proven == "failed" then
        return "failed", reason
    elseif proven == "established" then
        return "established", nil
    end
    local error_name, wanted = find_refusal(sa, all)
    error_name = Radius.find_failure(sa) or error_name or (is_wrong_version(sa, all) and INVALID_MAJOR_VERSION)
    if error_name then
        return "failed", error_name
    elseif not evidence.begun or evidence.one_sided then
        return "cut", is_about_esp(sa, all) and INVALID_SPI or wanted
    end
    local waited = evidence.waited and evidence.waited > SLOWEST_FIRST_TIMER
    if evidence.last_unanswered then
        if evidence.last_repeated or waited then
            return "unanswered", nil
        end
        return "cut", wanted
    elseif not evidence.continued and (not evidence.finished or proven == "open") then
        return (evidence.asked_again or waited) and "half-open" or "cut", wanted
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
-- us, nil if unknown; `uncertain`: it may be wrong (module `paths`); `extra`: reasons of extra round trips; all
-- `exchanges`. `conversation`, `last_time`: of the capture; `replaced`: the IKE SA that this one replaced, if known;
-- `radius`: the RADIUS packets of the capture.
function outcome.summarize(sa, conversation, last_time, replaced, radius)
    Conversation.group_exactly(sa)
    paths.settle(sa)
    radius:settle(conversation, last_time)
    local all = exchanges.of_sa(sa)
    local result = {
        initiator = new_sum(), responder = new_sum(), retransmitted = new_sum(), after = new_sum(),
        extra = {}, exchanges = all,
    }
    local first, last, previous_init
    for _, exchange in ipairs(all) do
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
        if INITS[exchange.pair.exchange] then
            if previous_init then
                previous_init.extra = exchanges.retry_reason(previous_init)
                result.extra[#result.extra + 1] = previous_init.extra
            end
            previous_init = exchange
        end
    end
    local proven, reason = find_proof(sa)
    local evidence = collect_evidence(sa, all, last_time, proven == "open")
    if replaced then
        result.outcome, result.reason = "established", "REKEYED"
    elseif is_rekeyed(sa, all, conversation) then
        result.reason = "REKEYED"
    else
        result.outcome, result.reason = decide(sa, all, evidence, proven, reason)
    end
    local succeeded = result.outcome == "completed" or result.outcome == "established"
    local whole = evidence.begun and evidence.finished and not evidence.has_gap and proven ~= "open"
    -- if all packets have the same time, they have none of their own, or the clock is too coarse
    if first and succeeded and whole and last_time - evidence.waited ~= first.request_time then
        result.setup = (last.answered and last.end_time or last.request_time) - first.request_time
        for _, exchange in ipairs(all) do
            result.uncertain = result.uncertain or (exchange.uncertain and exchange.sets_up) or false
        end
    end
    return result
end

--- Whether packets that a running capture may still bring can no longer change the outcome of a handshake from one that
-- means that packets are missing.
function outcome.is_decided(capture, sa)
    local summary = capture:summary(sa)
    return not MISSES_PACKETS[summary.outcome or ""] or capture:is_final(sa.last_time)
end

return outcome
