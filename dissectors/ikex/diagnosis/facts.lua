--[[ The facts about a handshake that the rules of the diagnosis need, by the names that they have in `ikeanalyze`
(columns of its handshakes table, and of `diagnosis/suspects.py`). Each is computed when a rule first asks for it; nil:
unknown, or it does not apply. ]]
local exchange_facts = require("ikex.diagnosis.exchange_facts")
local messages = require("ikex.diagnosis.messages")
local nat = require("ikex.diagnosis.nat")
local negotiation_facts = require("ikex.diagnosis.negotiation_facts")
local responders = require("ikex.diagnosis.responders")

local Facts = {}

local NONE = {}
local ACCESS_REJECT = 3

local providers = {}
for _, part in ipairs({ exchange_facts, negotiation_facts }) do
    for name, provide in pairs(part) do
        providers[name] = provide
    end
end

function Facts.__index(facts, name)
    local provide = providers[name]
    if not provide then
        error("no fact of the diagnosis has the name " .. tostring(name))
    end
    local value = provide(facts)
    if value ~= nil then
        rawset(facts, name, value)
    end
    return value
end

--- The facts about an IKE SA, whose `summary` is that of `outcome`.
function Facts.new(capture, sa, summary)
    return setmetatable({ capture = capture, sa = sa, summary = summary, exchanges = summary.exchanges }, Facts)
end

-- Values of the summary and of the IKE SA.

function providers.outcome(facts)
    return facts.summary.outcome
end

function providers.reason(facts)
    return facts.summary.reason
end

function providers.uncertain(facts)
    return facts.summary.uncertain or nil
end

function providers.retransmitted_bytes(facts)
    return facts.summary.retransmitted.bytes
end

function providers.responder_address(facts)
    return facts.sa.responder
end

function providers.responder_port(facts)
    return facts.sa.responder_port
end

-- By which time stamps go back between two packets, in the order of their numbers.
function providers.step_back_s(facts)
    if not facts.capture.queue.stepped_back then
        return 0
    end
    local datagrams = {}
    for _, pair in ipairs(facts.sa.list) do
        for _, slot in pairs({ pair.request, pair.response }) do
            for _, datagram in ipairs(slot) do
                datagrams[#datagrams + 1] = datagram
            end
        end
    end
    table.sort(datagrams, function(a, b)
        return messages.frame_of(a) < messages.frame_of(b)
    end)
    local latest, step = -math.huge, 0
    for _, datagram in ipairs(datagrams) do
        latest = math.max(latest, datagram.time)
        step = math.max(step, latest - datagram.time)
    end
    return step / 1e6
end

-- The path and the capture.

local function after_capture_point(facts, side)
    local sa = facts.sa
    local other = side == "initiator" and "responder" or "initiator"
    local at_side = sa[side .. "_direct"] and not sa[side .. "_routed"]
        and sa[other .. "_routed"] and not sa[other .. "_direct"]
    return at_side and string.format(" after the capture point, which is on the %s's side", side) or ""
end

function providers.behind_responder(facts)
    return after_capture_point(facts, "responder")
end

function providers.behind_initiator(facts)
    return after_capture_point(facts, "initiator")
end

-- Whether the responder sent something from UDP port 4500, in any handshake of the capture.
function providers.passed_4500(facts)
    return facts.capture.responders_on_4500[facts.sa.responder] == true
end

-- Whether the capture has an IKE message on UDP port 4500.
function providers.has_port_4500(facts)
    return facts.capture.has_port_4500
end

-- Whether the initiator then told another gateway that this responder had redirected it.
function providers.redirected(facts)
    return responders.has_redirected(facts.capture, facts.sa)
end

-- The proposal that the responder accepted first in the capture.
function providers.accepted(facts)
    local text = responders.find_accepted(facts.capture, facts.sa.responder)
    return text and string.format(" In another handshake, it accepted %s.", text) or ""
end

function providers.initiator_behind_nat(facts)
    return nat.is_initiator_behind(facts.capture, facts.sa, facts.init)
end

-- Whether either side is behind a NAT.
function providers.is_behind_nat(facts)
    return facts.initiator_behind_nat or nat.is_responder_behind(facts.init)
end

-- The AAA server.

local function sum_radius(facts, count)
    local sum = 0
    for _, pair in ipairs(facts.sa.aaa or NONE) do
        sum = sum + count(pair)
    end
    return sum
end

function providers.aaa_address(facts)
    return facts.sa.aaa and facts.sa.aaa[1].server
end

function providers.aaa_request_messages(facts)
    return sum_radius(facts, function(pair)
        return #pair.requests
    end)
end

function providers.aaa_response_messages(facts)
    return sum_radius(facts, function(pair)
        return #pair.responses
    end)
end

function providers.aaa_retransmitted_messages(facts)
    return sum_radius(facts, function(pair)
        return math.max(#pair.requests - 1, 0) + math.max(#pair.responses - 1, 0)
    end)
end

function providers.aaa_rejected(facts)
    return sum_radius(facts, function(pair)
        return pair.latest_code == ACCESS_REJECT and 1 or 0
    end) > 0
end

function providers.rejection(facts)
    return facts.aaa_rejected and "Access-Reject" or facts.eap_failed or facts.reason
end

return Facts
