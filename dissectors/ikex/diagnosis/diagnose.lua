--[[ The diagnosis of a handshake: what stopped it or made it slow, by the rules of `ikeanalyze` (docs/diagnosis.md).

It is made when a packet of the handshake is shown, and not before the capture has all packets that may change it: a
message that may still come is not called lost. Most handshakes are clean, which a look at their messages tells. ]]
local Facts = require("ikex.diagnosis.facts")
local contents = require("ikex.contents")
local exchanges = require("ikex.exchanges")
local glance = require("ikex.glance")
local message = require("ikex.message")
local messages = require("ikex.diagnosis.messages")
local names = require("ikex.names")
local proposals = require("ikex.proposals")
local rules = require("ikex.diagnosis.rules")
local slots = require("ikex.slots")
local templates = require("ikex.diagnosis.templates")

local diagnose = {}

local NONE = {}
local LONGEST_RTT = 60e6 -- us; a longer one may be a change of the clock
local MANY_TRANSMISSIONS = 4 -- of a message; fewer are normal
local IKE_SA_INIT, IKE_AUTH, IKE_INTERMEDIATE = 34, 35, 43
-- Effects that an effect excludes, which is before them in this order.
local EFFECTS = { "unreliable", "stopped", "refused", "disconnected", "slowed", "weakened" }
-- That of an IKE SA that replaced another one: the other rules are about the set-up, which it does not have.
local REPLACED = { "refused" }
local EXCLUDED = {
    unreliable = { stopped = true, refused = true, disconnected = true, slowed = true, weakened = true },
    stopped = { refused = true, disconnected = true },
}
-- Numbers of handshakes with a single exchange that are diagnosed: of each kind (answered, unanswered), because a flood
-- has many more; and of both kinds, if only expert infos need the diagnosis.
local MAX_DIAGNOSED, MAX_WITH_EXPERT_INFO = 10000, 1000

-- Whether the messages of a pair, sent several times, leave no doubt: few retransmissions, and a whole response.
local function is_plain(requests, responses)
    local last_request, last_response = requests[#requests], responses[#responses]
    if #requests >= MANY_TRANSMISSIONS or #responses >= MANY_TRANSMISSIONS or #requests > 1 and #responses > 1 then
        return false -- the round trip may be uncertain
    end
    return not last_request.slot.several_bodies and not last_response.slot.several_bodies
        and last_response.time >= last_request.time and not exchanges.lacks_fragments(responses)
end

-- Whether a pair is an exchange whose request was answered soon.
local function is_answered(pair)
    local request, response = pair.request, pair.response
    if not request or not response then
        return false
    elseif request.several or response.several then
        local requests = slots.transmissions(request, true)
        if not is_plain(requests, slots.transmissions(response, true)) then
            return false
        end
    end
    local rtt = slots.start(response) - slots.start(request)
    return rtt >= 0 and rtt <= LONGEST_RTT
end

-- Whether the initiator offered additional key exchanges, and the responder chose none.
local function is_without_addke(capture, sa)
    capture:decode_for_findings(sa.list[1])
    return sa.contents and sa.additional == 0 and sa.init_request
        and proposals.offer_additional(contents.proposals(sa.init_request))
end

-- Whether the initiator offered a PPK, which few do.
local function offers_ppk(sa)
    return sa.init_request ~= nil and contents.announces_ppk(sa.init_request)
end

-- How many additional key exchanges the responder chose. They have the message IDs from 1 on (RFC 9370, 2.2.2).
local function count_chosen(capture, sa)
    capture:decode_for_findings(sa.list[1])
    return sa.contents and (sa.additional or 0) or glance.count_chosen(sa)
end

-- Whether nothing in an IKE SA concerns a rule: it was set up, and each message was answered.
local function is_clean(capture, sa)
    if sa.version ~= 2 or not sa.begun_init or sa.readable_after_init or sa.aaa or capture.queue.stepped_back then
        return false
    end
    local authenticated = false
    for _, pair in ipairs(sa.list) do
        if not is_answered(pair) then
            return false
        end
        local first, answer = pair.request[1], pair.response[1]
        if pair.exchange == IKE_SA_INIT and answer.next == message.NOTIFY then
            return false
        elseif pair.exchange == IKE_AUTH then
            authenticated = true
            if messages.is_short(answer) or pair.message_id <= count_chosen(capture, sa) then
                return false
            end
        elseif messages.can_refuse(answer) then
            return false
        elseif pair.exchange == IKE_INTERMEDIATE and (first.ip_fragments or answer.ip_fragments) then
            return false
        end
    end
    return authenticated and not is_without_addke(capture, sa) and not offers_ppk(sa)
end

-- Of a flood, only the first handshakes are diagnosed. `known`: what has been diagnosed.
local function is_beyond_limit(sa, known)
    if #sa.list ~= 1 then
        return false
    end
    local kind = sa.list[1].response and "answered" or "unanswered"
    known[kind] = known[kind] + 1
    return known[kind] > MAX_DIAGNOSED
end

-- The remedy with the plugin's words for options of the command.
local function name_preferences(remedy)
    for option, words in pairs(rules.OPTIONS) do
        remedy = remedy:gsub(option, words)
    end
    return remedy
end

local function describe(rule, facts, text)
    local subject = facts[rule.subject]
    local pair = subject.exchange.pair
    local by_initiator = pair.requested_by_initiator == (subject.kind == "request")
    local frames = {}
    for index, datagram in ipairs(subject.datagrams) do
        frames[index] = messages.frame_of(datagram)
    end
    local sent = #subject.exchange.requests > 0 and subject.exchange.requests or subject.exchange.responses
    return {
        code = rule.code, effect = rule.effect, confidence = rule.confidence, rfc = rule.rfc,
        message = text, remedy = name_preferences(templates.fill_in(rule.remedy, facts)),
        concerns = string.format(
            "%s %.0f %s of the %s", names.of_exchange(pair.sa.version, pair.exchange), pair.message_id, subject.kind,
            by_initiator and "initiator" or "responder"
        ),
        frames = frames,
        expert = rules.expert_name(rule),
        datagram = subject.datagrams[1] or sent[1].datagrams[1],
    }
end

-- Of the rules that apply, the first one of each effect, and other explanations of the same.
local function apply_rules(facts, effects)
    local excluded, explained, list = {}, {}, {}
    for _, effect in ipairs(effects) do
        for place, rule in ipairs(excluded[effect] and NONE or rules.RULES) do
            local text = rule.effect == effect and (not explained[effect] or rule.also) and rule.when(facts)
                and templates.fill_in(rule.remedy, facts) and templates.fill_in(rule.sentence, facts)
            if text then
                list[#list + 1] = { place = place, rule = rule, text = text }
            end
            explained[effect] = explained[effect] or text and true
        end
        for other in pairs(explained[effect] and EXCLUDED[effect] or NONE) do
            excluded[other] = true
        end
    end
    table.sort(list, function(a, b)
        return a.place < b.place
    end)
    local diagnoses = {}
    for index, match in ipairs(list) do
        diagnoses[index] = describe(match.rule, facts, match.text)
    end
    return diagnoses
end

local function examine(capture, sa, known)
    if is_clean(capture, sa) or is_beyond_limit(sa, known) then
        return NONE
    end
    capture:decode(sa)
    local summary = capture:summary(sa)
    if not summary.outcome then
        return NONE
    end
    local facts = Facts.new(capture, sa, summary)
    if summary.reason == "REKEYED" then
        return apply_rules(facts, REPLACED)
    end
    return facts.last and apply_rules(facts, EFFECTS) or NONE
end

-- What has been diagnosed since the latest packet: lists by IKE SA, and how many handshakes of a single exchange.
local function get_known(capture)
    local known, added, until_time = capture.diagnosed, capture.conversation.added, capture.queue.last_time
    if not known or known.added ~= added or known.until_time ~= until_time then
        known = { added = added, until_time = until_time, by_sa = {}, answered = 0, unanswered = 0 }
        capture.diagnosed = known
    end
    return known
end

--- The diagnoses of a handshake, the most important first: a list of {code, effect, confidence, rfc, message, remedy,
-- concerns, frames, expert, datagram}. `message`: a sentence; `concerns`: the IKE message; `frames`: numbers of the
-- packets that are the evidence; `expert`: the name of its expert info, which `datagram` shows. The list is empty
-- without a problem, and while a running capture may still bring packets.
function diagnose.of_sa(capture, sa)
    if not capture:is_final(sa.last_time) then
        return NONE
    end
    local known = get_known(capture)
    local list = known.by_sa[sa]
    if not list then
        list = examine(capture, sa, known)
        known.by_sa[sa] = list
    end
    return list
end

--- The same for expert infos, which Wireshark wants of each packet: of a flood, only of some handshakes.
function diagnose.for_expert_info(capture, sa)
    local known = get_known(capture)
    local list = known.by_sa[sa]
    if list then
        return list
    elseif #sa.list == 1 and known.answered + known.unanswered >= MAX_WITH_EXPERT_INFO then
        return NONE
    end
    return diagnose.of_sa(capture, sa)
end

--- The codes of the diagnoses of a handshake, separated by commas; nil without a problem.
function diagnose.list_codes(capture, sa)
    local codes = {}
    for index, diagnosis in ipairs(diagnose.of_sa(capture, sa)) do
        codes[index] = diagnosis.code
    end
    return #codes > 0 and table.concat(codes, ",") or nil
end

return diagnose
