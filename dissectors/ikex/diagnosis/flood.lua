--[[ The diagnosis of a capture: a flood of half-open IKE SAs, by the rule of `ikeanalyze` (docs/diagnosis.md). ]]
local diagnose = require("ikex.diagnosis.diagnose")
local message = require("ikex.message")
local outcome = require("ikex.outcome")
local templates = require("ikex.diagnosis.templates")

local flood = {}

flood.CODE = "half-open-flood"
flood.REMEDY = "Check first that the capture has UDP port 4500, on which IKE_AUTH is usually sent: a capture of port "
    .. "500 alone looks the same. Let the responder ask for cookies from fewer half-open IKE SAs on (strongSwan: "
    .. "cookie_threshold), and limit them for each address (block_threshold). If the initiators are real, look for "
    .. "packets that are lost after IKE_SA_INIT."

local IKE_SA_INIT = 34
local MANY, WITHIN = 20, 60e6 -- half-open IKE SAs of one responder, within us
local SENTENCE = "{count:,} of {all:,} handshakes with {responder} stop after IKE_SA_INIT, from {where}{asked}: "
    .. "consistent with {explanation}."
local A_FLOOD = "a flood of half-open IKE SAs"
local A_FILTER = "a capture filter that leaves out UDP port 4500, on which set-ups continue behind a NAT and which no "
    .. "IKE message of the capture has, or with "
-- The rule about set-ups that continue on a port of which the capture has no message.
local WITHOUT_PORT = "port-4500-missing"

-- Whether a handshake stopped after an answered IKE_SA_INIT.
local function is_stopped(sa, summary)
    local stopped = summary.outcome == "half-open" or summary.outcome == "cut"
    if not stopped or sa.version ~= 2 or summary.responder.messages == 0 then
        return false
    end
    for _, exchange in ipairs(summary.exchanges) do
        if exchange.sets_up and exchange.pair.exchange ~= IKE_SA_INIT then
            return false
        end
    end
    return true
end

local function has_cookie(summary)
    for _, reason in ipairs(summary.extra) do
        if reason == "COOKIE" then
            return true
        end
    end
    return summary.reason == "COOKIE"
end

-- Whether the capture has only the beginning of an IKE_SA_INIT response.
local function has_truncated_response(summary)
    for _, exchange in ipairs(summary.exchanges) do
        for _, response in ipairs(exchange.pair.exchange == IKE_SA_INIT and exchange.responses or {}) do
            local data = response.datagrams[1].data
            if data and message.is_truncated(data) then
                return true
            end
        end
    end
    return false
end

-- What the handshakes with each responder have in common, in the order of their first ones.
local function count_by_responder(capture)
    local list, by_address = {}, {}
    for _, sa in ipairs(capture.conversation.sas) do
        local summary = capture:summary(sa)
        local sums = by_address[sa.responder]
        if not sums then
            sums = {
                responder = sa.responder, all = 0, count = 0, cookies = 0, starts = {}, initiators = {}, addresses = 0,
                stopped = {},
            }
            by_address[sa.responder], list[#list + 1] = sums, sums
        end
        if summary.reason ~= "REKEYED" then
            sums.all = sums.all + 1
            sums.cookies = sums.cookies + (has_cookie(summary) and 1 or 0)
            sums.truncated = sums.truncated or has_truncated_response(summary)
        end
        if outcome.is_decided(capture, sa) and is_stopped(sa, summary) then
            sums.count = sums.count + 1
            sums.starts[sums.count] = sa.start
            sums.stopped[sums.count] = sa
            sums.addresses = sums.addresses + (sums.initiators[sa.initiator] and 0 or 1)
            sums.initiators[sa.initiator] = true
        end
    end
    return list
end

-- Whether many began within a short time.
local function is_dense(starts)
    table.sort(starts)
    for index = MANY, #starts do
        if starts[index] - starts[index - MANY + 1] <= WITHIN then
            return true
        end
    end
    return false
end

-- Whether the diagnosis of a handshake is that the capture has no message of its next port.
local function lacks_port(capture, stopped)
    for _, sa in ipairs(capture.has_port_4500 and {} or stopped) do
        for _, diagnosis in ipairs(diagnose.of_sa(capture, sa)) do
            if diagnosis.code == WITHOUT_PORT then
                return true
            end
        end
    end
    return false
end

-- How often a responder asked for a cookie; nothing if it may have done so behind the end of truncated responses.
local function describe_cookies(sums)
    if sums.cookies > 0 then
        return "; it asked for a cookie " .. (sums.truncated and "at least " or "") .. "{cookies:,} times"
    end
    return sums.truncated and "" or "; it never asked for a cookie"
end

--- A sentence for each responder that is flooded; requires that the capture has been read to its end.
function flood.describe(capture)
    local sentences = {}
    for _, sums in ipairs(count_by_responder(capture)) do
        if sums.count * 2 > sums.all and is_dense(sums.starts) then
            sums.where = sums.addresses > 1 and templates.fill_in("{addresses:,} addresses", sums) or "one address"
            sums.asked = templates.fill_in(describe_cookies(sums), sums)
            sums.explanation = (lacks_port(capture, sums.stopped) and A_FILTER or "") .. A_FLOOD
            sentences[#sentences + 1] = templates.fill_in(SENTENCE, sums)
        end
    end
    return sentences
end

return flood
