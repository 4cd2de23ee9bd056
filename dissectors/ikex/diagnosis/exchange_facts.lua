--[[ Facts for the rules of the diagnosis about the exchanges of a handshake. "Last" is the last exchange of the set-up,
"later" the last one after it. See the module `facts`. ]]
local compat = require("ikex.compat")
local decrypted = require("ikex.diagnosis.decrypted")
local exchanges = require("ikex.exchanges")
local messages = require("ikex.diagnosis.messages")
local names = require("ikex.names")
local refused_quick_modes = require("ikex.diagnosis.refused_quick_modes")
local refused_requests = require("ikex.diagnosis.refused_requests")
local slots = require("ikex.slots")

local providers = {}

local NONE = {}
local IKE_SA_INIT, IKE_AUTH, IKE_INTERMEDIATE = 34, 35, 43
local INFORMATIONAL, INFORMATIONAL_V1 = 37, 5

local function is_of_type(exchange, kind)
    return exchange.pair.sa.version == 2 and exchange.pair.exchange == kind
end

-- The message that a diagnosis concerns: {exchange, kind, datagrams}.
local function new_subject(exchange, kind, sum)
    return { exchange = exchange, kind = kind, datagrams = sum and sum.datagrams or NONE }
end

-- The exchanges of the set-up, in order.
function providers.set_ups(facts)
    local list = {}
    for _, exchange in ipairs(facts.exchanges) do
        if exchange.sets_up then
            list[#list + 1] = exchange
        end
    end
    return list
end

-- Bytes that one transmission of each message of the set-up needs.
function providers.needed_bytes(facts)
    local sum = 0
    for _, exchange in ipairs(facts.set_ups) do
        for _, list in ipairs({ exchange.requests, exchange.responses }) do
            for _, needed in ipairs(slots.find_needed(list)) do
                for _, datagram in ipairs(needed) do
                    sum = sum + datagram.bytes
                end
                for _, datagram in pairs(needed.lost) do
                    sum = sum + datagram.bytes
                end
            end
        end
    end
    return sum
end

function providers.blowup(facts)
    local sent = facts.summary.initiator.bytes + facts.summary.responder.bytes
    return facts.needed_bytes > 0 and sent / facts.needed_bytes or nil
end

-- Messages of a side after the set-up.
local function count_later_messages(facts, from_initiator)
    local count = 0
    for _, exchange in ipairs(facts.exchanges) do
        for _, list in ipairs(exchange.sets_up and NONE or { exchange.requests, exchange.responses }) do
            for _, transmission in ipairs(list) do
                count = count + ((transmission.slot.from_initiator or false) == from_initiator and 1 or 0)
            end
        end
    end
    return count
end

function providers.after_setup_initiator_messages(facts)
    return count_later_messages(facts, true)
end

function providers.after_setup_responder_messages(facts)
    return count_later_messages(facts, false)
end

-- The last exchange of the set-up.

function providers.last(facts)
    return facts.set_ups[#facts.set_ups]
end

function providers.last_type(facts)
    return names.of_exchange(facts.sa.version, facts.last.pair.exchange)
end

-- Who sent its request: in IKEv1, the responder asks for a password (XAuth).
function providers.last_by(facts)
    return facts.last.pair.requested_by_initiator and "initiator" or "responder"
end

function providers.a_last_by(facts)
    return facts.last_by == "initiator" and "an initiator" or "a responder"
end

function providers.request_receiver(facts)
    return facts.last_by == "initiator" and "responder" or "initiator"
end

-- Informational messages of IKEv1 that the receiver of its request sent after that began: one that refuses a request
-- has no other message for it (RFC 2408, section 4.8).
function providers.informationals(facts)
    local count = 0
    for _, exchange in ipairs(facts.sa.version == 1 and facts.exchanges or NONE) do
        local pair = exchange.pair
        local by_receiver = pair.requested_by_initiator ~= facts.last.pair.requested_by_initiator
        if pair.exchange == INFORMATIONAL_V1 and by_receiver and exchange.start > facts.last.start then
            count = count + 1
        end
    end
    return count
end

function providers.informational_messages(facts)
    return facts.informationals == 1 and "an Informational message"
        or compat.format_integer(facts.informationals) .. " Informational messages"
end

function providers.last_message_id(facts)
    return facts.last.pair.message_id
end

-- The least message ID of an IKE_AUTH exchange.
function providers.first_auth_id(facts)
    local first
    for _, exchange in ipairs(facts.set_ups) do
        if is_of_type(exchange, IKE_AUTH) then
            first = math.min(first or exchange.pair.message_id, exchange.pair.message_id)
        end
    end
    return first
end

-- A request whose message ID is not the one that follows (RFC 7296, 2.2 and 2.3).
function providers.skipped_ids(facts)
    local before = facts.set_ups[#facts.set_ups - 1]
    local number, number_before = facts.last_message_id, before and before.pair.message_id
    if facts.sa.version ~= 2 or not before or number <= number_before + 1 then
        return ""
    end
    return string.format(
        " Its message ID is %.0f, and that of the exchange before %.0f: the capture lost an exchange between them, or "
            .. "the initiator left out an ID, and a responder ignores such requests.",
        number, number_before
    )
end

function providers.request(facts)
    return messages.summarize(facts.last.requests)
end

function providers.response(facts)
    return messages.summarize(facts.last.responses)
end

function providers.sent(facts)
    return messages.describe_transmissions(facts.request)
end

-- Retransmissions of a request; nil: they cannot be counted.
local function count_retransmissions(sum)
    if sum and not sum.countable then
        return nil
    end
    return sum and sum.transmissions - 1 or 0
end

-- Retransmissions of its request, and transmissions of its response.
function providers.again(facts)
    return count_retransmissions(facts.request)
end

function providers.responses(facts)
    return #facts.last.responses
end

-- Whether it has responses, and none is encrypted.
function providers.unprotected(facts)
    return exchanges.is_unprotected(facts.last)
end

function providers.on_4500(facts)
    return (facts.request or NONE).on_4500 or (facts.response or NONE).on_4500 or false
end

function providers.request_bytes(facts)
    return facts.request and facts.request.bytes or 0
end

function providers.response_bytes(facts)
    return facts.response and facts.response.bytes or 0
end

function providers.request_ip_fragmented(facts)
    return (facts.request or NONE).ip_fragmented or false
end

function providers.response_ip_fragmented(facts)
    return (facts.response or NONE).ip_fragmented or false
end

-- The length of the IKE message, if it is a short IKE_AUTH response.
function providers.response_ike_bytes(facts)
    return (facts.response or NONE).ike_bytes
end

function providers.request_missing(facts)
    return messages.describe_missing(facts.last.requests)
end

function providers.response_missing(facts)
    return messages.describe_missing(facts.last.responses)
end

-- Transmissions of the request after the first one of the response.
function providers.ignored(facts)
    local count = 0
    if facts.request and not facts.request.countable then
        return nil
    end
    for _, transmission in ipairs(facts.response and facts.last.requests or NONE) do
        local latest = transmission.datagrams[#transmission.datagrams]
        count = count + (latest.time > facts.response.first and 1 or 0)
    end
    return count
end

-- The exchanges before the last one.
function providers.answered(facts)
    return #facts.set_ups - 1
end

function providers.answered_exchanges(facts)
    return facts.answered == 1 and "one answered exchange"
        or compat.format_integer(facts.answered) .. " answered exchanges"
end

function providers.but_smaller(facts)
    return facts.answered > 0 and ", although smaller requests were" or ""
end

function providers.auth_exchanges(facts)
    local count = 0
    for _, exchange in ipairs(facts.set_ups) do
        count = count + (is_of_type(exchange, IKE_AUTH) and 1 or 0)
    end
    return count
end

-- The most of a value of the requests or responses that arrived before: of the ended exchanges before the last one.
local function find_most(facts, lists, name)
    local most
    for _, exchange in ipairs(facts.set_ups) do
        local sum = exchange ~= facts.last and exchange.ended_by and messages.summarize(exchange[lists])
        if sum then
            most = math.max(most or 0, sum[name])
        end
    end
    return most
end

function providers.request_passed_bytes(facts)
    return find_most(facts, "requests", "bytes")
end

function providers.response_passed_bytes(facts)
    return find_most(facts, "responses", "bytes")
end

-- Transmissions of the request before that was sent most often.
function providers.passed_sent(facts)
    return find_most(facts, "requests", "transmissions")
end

-- Other exchanges of the set-up.

-- The last IKE_SA_INIT exchange.
function providers.init(facts)
    local last
    for _, exchange in ipairs(facts.set_ups) do
        last = is_of_type(exchange, IKE_SA_INIT) and exchange or last
    end
    return last
end

-- The one whose request was sent most often.
function providers.repeated(facts)
    local most
    for _, exchange in ipairs(facts.set_ups) do
        local sum = messages.summarize(exchange.requests)
        if sum and sum.countable and (not most or sum.transmissions >= #most.requests) then
            most = exchange
        end
    end
    return most
end

function providers.repeated_sent(facts)
    return facts.repeated and #facts.repeated.requests
end

-- The first retransmission timer of the initiator: the lower median of the times between the first two transmissions of
-- each request. On a slow link, where transmissions wait for others, some of these times are shorter than the timer.
function providers.timer_ms(facts)
    local waited = {}
    for _, exchange in ipairs(facts.set_ups) do
        local first, second = exchange.requests[1], exchange.requests[2]
        local is_repeated = second and messages.summarize(exchange.requests).countable
        waited[#waited + 1] = is_repeated and second.time - first.time or nil
    end
    table.sort(waited)
    local median = waited[math.floor((#waited + 1) / 2)]
    return median and median / 1000
end

-- The least time from the last response to a repeated request to the next request.
function providers.least_gap_ms(facts)
    local least
    for index, exchange in ipairs(facts.set_ups) do
        local following = facts.set_ups[index + 1]
        local response = #exchange.requests > 1 and messages.summarize(exchange.responses)
        local request = response and following and messages.summarize(following.requests)
        local gap = request and request.first - response.latest
        if gap and gap >= 0 then
            least = math.min(least or gap, gap)
        end
    end
    return least and least / 1000
end

-- The one with the greatest round-trip time among those whose request was sent once.
function providers.slow(facts)
    local slowest
    for _, exchange in ipairs(facts.set_ups) do
        local fits = #exchange.requests == 1 and exchange.rtt
        if fits and (not slowest or exchange.rtt >= slowest.rtt) then
            slowest = exchange
        end
    end
    return slowest
end

function providers.slow_rtt_s(facts)
    return facts.slow and facts.slow.rtt / 1e6
end

-- The largest IKE_INTERMEDIATE message that was sent in IP fragments, without IKE fragmentation.
function providers.large(facts)
    local largest
    for _, exchange in ipairs(facts.set_ups) do
        for kind, list in pairs({ request = exchange.requests, response = exchange.responses }) do
            local sum = is_of_type(exchange, IKE_INTERMEDIATE) and messages.summarize(list)
            local fits = sum and sum.ip_fragmented and sum.numbers[0] and sum.countable
            if fits and (not largest or sum.bytes > largest.sum.bytes) then
                largest = { exchange = exchange, kind = kind, sum = sum }
            end
        end
    end
    return largest
end

function providers.large_bytes(facts)
    return facts.large and facts.large.sum.bytes
end

-- The least message ID of a request of the initiator after the set-up.
function providers.next_message_id(facts)
    local least
    for _, exchange in ipairs(facts.exchanges) do
        if not exchange.sets_up and exchange.pair.requested_by_initiator and #exchange.requests > 0 then
            least = math.min(least or exchange.pair.message_id, exchange.pair.message_id)
        end
    end
    return least
end

-- The last exchange after the set-up.

function providers.later(facts)
    local last
    for _, exchange in ipairs(facts.exchanges) do
        last = not exchange.sets_up and exchange or last
    end
    return last
end

function providers.later_type(facts)
    return facts.later and names.of_exchange(facts.sa.version, facts.later.pair.exchange)
end

function providers.later_by(facts)
    return facts.later and (facts.later.pair.requested_by_initiator and "initiator" or "responder")
end

function providers.later_ended(facts)
    return facts.later and facts.later.ended_by ~= nil
end

function providers.later_unprotected(facts)
    return facts.later and exchanges.is_unprotected(facts.later)
end

function providers.later_sent(facts)
    return facts.later and messages.describe_transmissions(messages.summarize(facts.later.requests))
end

function providers.later_again(facts)
    return facts.later and count_retransmissions(messages.summarize(facts.later.requests))
end

-- The times of the datagrams that its receiver sent.
local function list_received(facts)
    local times, later = {}, facts.later
    for _, pair in ipairs(later and facts.sa.list or NONE) do
        for _, slot in pairs({ pair.request, pair.response }) do
            local by_receiver = (slot.from_initiator or false) ~= later.pair.requested_by_initiator
            for _, datagram in ipairs(by_receiver and slot or NONE) do
                times[#times + 1] = datagram.time
            end
        end
    end
    return times
end

-- Whether its receiver sent something after its first transmission.
function providers.later_heard(facts)
    for _, time in ipairs(list_received(facts)) do
        if time > facts.later.start then
            return true
        end
    end
    return false
end

-- From the last message of its receiver before it to its first transmission.
function providers.later_idle_s(facts)
    local heard
    for _, time in ipairs(list_received(facts)) do
        if time < facts.later.start then
            heard = math.max(heard or 0, time)
        end
    end
    return heard and math.floor((facts.later.start - heard) / 1e6 + 0.5)
end

-- The request after the set-up that was refused, and no other one made up for it; false if there is none.
function providers.refused(facts)
    if facts.sa.version == 1 then
        return refused_quick_modes.find(facts)
    end
    return refused_requests.find(facts)
end

for _, name in ipairs({ "by", "sender", "type", "notify", "response_bytes" }) do
    providers["refused_" .. name] = function(facts)
        return facts.refused and facts.refused[name] or nil
    end
end

-- Whether the sender of a quick mode refused the response.
local function has_refused_response(facts)
    return facts.refused and facts.refused.by == facts.refused.sender
end

function providers.refused_message(facts)
    return has_refused_response(facts) and "the response to its quick mode" or "a quick mode"
end

function providers.refused_end(facts)
    return has_refused_response(facts) and "was answered but not completed" or "got no response"
end

-- What was refused, in words.
function providers.refused_for(facts)
    local refused = facts.refused
    if not refused then
        return nil
    elseif refused.type == "CREATE_CHILD_SA" then
        return refused.purpose or "a CREATE_CHILD_SA request"
    end
    local of = refused.purpose and " of " .. refused.purpose or ""
    return string.format("an additional key exchange (%s)%s", refused.type, of)
end

function providers.refused_times(facts)
    local count = facts.refused and facts.refused.count or 1
    return count > 1 and string.format(" %d times", count) or ""
end

local function put_refused(facts, form, name)
    local text = facts.refused and facts.refused[name]
    return text and string.format(form, text) or ""
end

function providers.refused_wants(facts)
    return put_refused(facts, " (%s)", "wanted_method")
end

function providers.refused_proposals(facts)
    return put_refused(facts, ": %s", "offered")
end

function providers.refused_between(facts)
    return put_refused(facts, " (%s)", "selectors")
end

-- The messages that diagnoses concern, by the names that the rules use.

function providers.REQUEST(facts)
    return new_subject(facts.last, "request", facts.request)
end

function providers.RESPONSE(facts)
    return new_subject(facts.last, "response", facts.response)
end

-- The message with the error notify that refused a handshake, as far as it was in the clear or decrypted: IKEv1 has no
-- message with one but the Informational one (RFC 2408, 4.8), which no exchange of the set-up has. A responder of IKEv2
-- refuses another version in an INFORMATIONAL response (RFC 7296, 2.5).
function providers.REFUSAL(facts)
    local is_wrong_version = facts.reason == "INVALID_MAJOR_VERSION"
    for _, exchange in ipairs((facts.sa.version == 1 or is_wrong_version) and facts.exchanges or NONE) do
        local kind, request, response = exchange.pair.exchange, exchange.requests[1], exchange.responses[1]
        if not exchange.sets_up and kind == INFORMATIONAL_V1 and request and request.datagrams[1].clear then
            return new_subject(exchange, "request", messages.summarize(exchange.requests))
        elseif is_wrong_version and kind == INFORMATIONAL and response and response.datagrams[1].clear then
            return new_subject(exchange, "response", messages.summarize(exchange.responses))
        end
    end
    local pair = decrypted.find_refusing_pair(facts.sa)
    for _, exchange in ipairs(pair and facts.exchanges or NONE) do
        if exchange.pair == pair then
            return new_subject(exchange, "request", messages.summarize(exchange.requests))
        end
    end
    return facts.RESPONSE
end

function providers.INIT_RESPONSE(facts)
    local init = facts.init or facts.last -- damaged messages may show no IKE_SA_INIT of the initiator
    return new_subject(init, "response", messages.summarize(init.responses))
end

function providers.REPEATED_REQUEST(facts)
    return new_subject(facts.repeated, "request", facts.repeated and messages.summarize(facts.repeated.requests))
end

function providers.SLOW_REQUEST(facts)
    return new_subject(facts.slow, "request", facts.slow and messages.summarize(facts.slow.requests))
end

function providers.LARGE_MESSAGE(facts)
    return new_subject(facts.large.exchange, facts.large.kind, facts.large.sum)
end

function providers.LATER_REFUSAL(facts)
    local exchange, refusal = facts.refused.exchange, facts.refused.refusal
    if refusal then -- of IKEv1
        return new_subject(refusal, "request", messages.summarize(refusal.requests))
    end
    return new_subject(exchange, "response", messages.summarize(exchange.responses))
end

function providers.LATER_REQUEST(facts)
    return new_subject(facts.later, "request", facts.later and messages.summarize(facts.later.requests))
end

return providers
