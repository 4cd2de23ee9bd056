--[[ What an engineer should look at in a message: a list of {which expert info, text}. ]]
local Association = require("ikex.association")
local exchanges = require("ikex.exchanges")
local contents = require("ikex.contents")
local message = require("ikex.message")
local mlkem = require("ikex.mlkem")
local names = require("ikex.names")
local proposals = require("ikex.proposals")

local findings = {}

local IKE_SA_INIT, IKE_INTERMEDIATE = 34, 43
local INTERMEDIATE_SUPPORTED = 16438

--- What is wrong with key exchange data, beside what can be said of them:
-- {role, expected, length_ok, above, negotiated}; above: coefficients not below the modulus, nil if that is not asked of them.
function findings.key_exchange(content)
    local exchange = content.key_exchange
    if exchange.judged then
        return exchange.judged
    end
    local method, response = exchange.method, content.response
    local judged = { role = mlkem.role(method, response), expected = mlkem.expected(method, response) }
    if judged.expected then
        judged.length_ok = judged.expected == #exchange.data
    end
    if mlkem.is(method) and not response and judged.length_ok then
        judged.above = mlkem.above_modulus(exchange.data)
    end
    if exchange.negotiated then
        judged.negotiated = exchange.negotiated == method
    end
    exchange.judged = judged
    return judged
end

local function of_key_exchange(content, add)
    local exchange = content.key_exchange
    if not exchange then
        return
    end
    local judged = findings.key_exchange(content)
    local name = names.of(names.method, exchange.method)
    if judged.length_ok == false then
        add("ke_length", string.format(
            "%s %s of %d bytes instead of %d", name, judged.role, #exchange.data, judged.expected
        ))
    end
    if judged.above and judged.above > 0 then
        add("modulus", string.format(
            "%d coefficients of the %s encapsulation key are not below 3329 (FIPS 203, 7.2)", judged.above, name
        ))
    end
    if judged.negotiated == false then
        add("method", string.format(
            "Key exchange with %s, but %s was negotiated", name, names.of(names.method, exchange.negotiated)
        ))
    end
end

-- Additional key exchanges were offered, and none was chosen.
local function of_choice(sa, content, add)
    if content ~= sa.init_response or not sa.init_request then
        return
    end
    for payload in contents.each(sa.init_request, message.SA) do
        local offered = proposals.read(message.body(sa.init_request.data, payload))
        if proposals.offer_additional(offered) and (sa.additional or 0) == 0 then
            add("downgrade", "Additional key exchanges were offered, and none was chosen")
        end
    end
end

local function of_content(sa, unit, content, add)
    if content.problem then
        add("payloads", "Payloads: " .. content.problem)
    end
    of_key_exchange(content, add)
    if sa.version ~= 2 then
        return
    end
    local wrong = contents.error_notify(content)
    if wrong and not Association.ASKS_AGAIN[wrong.type] then
        add("error_notify", "Error notify " .. names.both(names.notify, wrong.type))
    end
    if unit.slot.pair.exchange == IKE_SA_INIT then
        of_choice(sa, content, add)
    end
    if content.encrypted and content.verified == false then
        add("unverified", string.format("Epoch %d taken by order, integrity not checked", content.epoch))
    end
end

local function of_intermediate(sa, add)
    for _, side in ipairs({ "request", "response" }) do
        local content = sa["init_" .. side]
        if content and not contents.notify(content, INTERMEDIATE_SUPPORTED) then
            add("intermediate", string.format(
                "IKE_INTERMEDIATE, but the IKE_SA_INIT %s lacks INTERMEDIATE_EXCHANGE_SUPPORTED", side
            ))
        end
    end
end

--- Numbers of the fragments that a transmission of a message lacks. At most `most` of them.
function findings.missing(sent, most)
    local found = {}
    if not sent.seen then
        return found
    end
    for number = 1, sent.total do
        if not sent.seen[number] then
            found[#found + 1] = number
            if #found >= most then
                break
            end
        end
    end
    return found
end

--- What there is to say of a unit, whose exchange and message `exchanges.of_unit` gave. `state`: the capture.
function findings.of(state, unit, exchange, sent)
    local found = {}
    local function add(which, text)
        found[#found + 1] = { which, text }
    end
    local pair = unit.slot.pair
    local sa = pair.sa
    if sent and sent.transmission > 1 then
        add("retransmission", string.format(
            "Retransmission %d of the message in frame %d", sent.transmission - 1, sent.first.units[1].number
        ))
    end
    if sent and sent.seen and sent.have < sent.total and state.finished then
        add("missing_fragment", string.format("%d of %d fragments are missing", sent.total - sent.have, sent.total))
    end
    if unit.incomplete then
        add("missing_fragment", "IP fragments of the message are not in the capture")
    end
    local informational_v1 = sa.version == 1 and pair.exchange == 5
    if exchange and not informational_v1 then
        if #exchange.requests == 0 then
            add("no_request", "The request to this response is not in the capture")
        elseif #exchange.responses == 0 and state.finished and sa.version == 2 then
            add("no_response", "The capture has no response to this request")
        end
        local reason = unit.slot.response and exchanges.asked_again(exchange)
        if reason then
            add("extra_round_trip", "Another request is wanted: " .. reason)
        end
    end
    if unit.ip_fragments and sa.version == 2 and pair.exchange == IKE_SA_INIT then
        add("ip_fragments", string.format("IKE_SA_INIT in %d IP fragments", unit.frames))
    end
    if sa.version == 2 and pair.exchange == IKE_INTERMEDIATE then
        of_intermediate(sa, add)
    end
    if unit.no_key and state.keyring:count(sa.spi_i, sa.spi_r) > 0 then
        add("no_key", "None of the keys of this IKE SA fits")
    end
    local content = contents.content(unit)
    if content then
        of_content(sa, unit, content, add)
    end
    return found
end

return findings
