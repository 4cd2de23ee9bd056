--[[ Findings about a message that an engineer should look at: a list of {name of the expert info, text}. ]]
local Association = require("ikex.association")
local Datagram = require("ikex.datagram")
local exchanges = require("ikex.exchanges")
local contents = require("ikex.contents")
local glance = require("ikex.glance")
local message = require("ikex.message")
local diagnose = require("ikex.diagnosis.diagnose")
local mlkem = require("ikex.mlkem")
local names = require("ikex.names")
local proposals = require("ikex.proposals")
local slots = require("ikex.slots")

local findings = {}

local SLOT, PLAIN = Datagram.SLOT, Datagram.PLAIN
local IKE_SA_INIT, IKE_INTERMEDIATE = 34, 43
local INTERMEDIATE_SUPPORTED = 16438
local INITS = message.INITS
local NONE = {}

local function add(list, name, text)
    list[#list + 1] = { name, text }
end

--- The checks of key exchange data: {role, expected, length_ok, above, negotiated}. `expected`: length in bytes;
-- `above`: number of coefficients that are not below the modulus. Values are nil if a check does not apply.
function findings.key_exchange(content)
    local exchange = content.key_exchange
    if exchange.checks then
        return exchange.checks
    end
    local method, response = exchange.method, content.response
    local checks = { role = mlkem.role(method, response), expected = mlkem.expected(method, response) }
    if checks.expected then
        checks.length_ok = checks.expected == exchange.size
    end
    if mlkem.is(method) and not response and checks.length_ok then
        checks.above = mlkem.above_modulus(content.data:sub(exchange.first + 4, exchange.first + 3 + exchange.size))
    end
    if exchange.negotiated then
        checks.negotiated = exchange.negotiated == method
    end
    exchange.checks = checks
    return checks
end

local function check_key_exchange(content, list)
    local exchange = content.key_exchange
    if not exchange then
        return
    end
    local checks = findings.key_exchange(content)
    local name = names.of(names.method, exchange.method)
    if checks.length_ok == false then
        add(list, "ke_length", string.format(
            "%s %s of %d bytes instead of %d", name, checks.role, exchange.size, checks.expected
        ))
    end
    if checks.above and checks.above > 0 then
        add(list, "modulus", string.format(
            "%d coefficients of the %s encapsulation key are not below 3329 (FIPS 203, 7.2)", checks.above, name
        ))
    end
    if checks.negotiated == false then
        add(list, "method", string.format(
            "Key exchange with %s, but %s was negotiated", name, names.of(names.method, exchange.negotiated)
        ))
    end
end

-- Report additional key exchanges that were offered, if none was chosen.
local function check_choice(sa, content, list)
    if content ~= sa.init_response or not sa.init_request then
        return
    end
    if (sa.additional or 0) == 0 and proposals.offer_additional(contents.proposals(sa.init_request)) then
        add(list, "downgrade", "Additional key exchanges were offered, and none was chosen")
    end
end

-- The findings that depend on the contents of one message alone; they are kept with it.
local function of_content(sa, content)
    if not content.findings then
        local list = {}
        if content.problem then
            add(list, "payloads", "Payloads: " .. content.problem)
        end
        check_key_exchange(content, list)
        local error_notify = sa.version == 2 and contents.error_notify(content)
        if error_notify and not Association.ASKS_AGAIN[error_notify.type] then
            add(list, "error_notify", "Error notify " .. names.both(names.notify, error_notify.type))
        end
        if sa.version == 2 and content.encrypted and content.verified == false then
            add(list, "unverified", "The key file lacks the algorithm of the ICV: integrity not checked")
        end
        content.findings = list
    end
    return content.findings
end

local function check_content(sa, content, list)
    for _, finding in ipairs(of_content(sa, content)) do
        list[#list + 1] = finding
    end
    if sa.version == 2 and content.pair.exchange == IKE_SA_INIT then
        check_choice(sa, content, list)
    end
end

local function check_support(content, side, list)
    if not content then
        return
    elseif content.supports_intermediate == nil then
        content.supports_intermediate = contents.notify(content, INTERMEDIATE_SUPPORTED) ~= nil
    end
    if not content.supports_intermediate and not contents.is_truncated(content) then
        add(list, "intermediate", string.format(
            "IKE_INTERMEDIATE, but the IKE_SA_INIT %s lacks INTERMEDIATE_EXCHANGE_SUPPORTED", side
        ))
    end
end

--- Numbers of the fragments that a transmission lacks, at most `limit` of them. They are kept with the transmission,
-- because each of its fragments shows them.
function findings.missing_fragments(transmission, limit)
    if not transmission.fragments then
        return NONE
    elseif transmission.missing and transmission.missing_since == transmission.fragment_count then
        return transmission.missing
    end
    local missing = {}
    transmission.missing, transmission.missing_since = missing, transmission.fragment_count
    for number = 1, transmission.total do
        if not transmission.fragments[number] then
            missing[#missing + 1] = number
            if #missing >= limit then
                break
            end
        end
    end
    return missing
end

-- Whether fragments of a message are missing, and not only still to come.
local function is_missing_fragments(capture, slot, transmission)
    if not slot.several then
        local lacks, last_time = slots.lacks_fragments(slot)
        return lacks and capture:is_final(last_time)
    end
    return transmission and transmission.fragments and transmission.total > transmission.fragment_count
        and capture:is_final(transmission.last_time)
end

-- Whether a slot has a message that was sent once, and is whole.
local function is_whole(slot)
    if slot.several or slots.lacks_fragments(slot) then
        return false
    end
    for _, datagram in ipairs(slot) do
        if not datagram[PLAIN] and (datagram.incomplete or datagram.ip_fragments) then
            return false
        end
    end
    return true
end

-- Whether a message of IKE_SA_INIT was sent once and has no findings, before the end of the capture.
local function is_unremarkable_init(sa, slot, datagram)
    local pair = slot.pair
    return INITS[pair.exchange] and not slot.several and not glance.needs_contents(sa, pair) and not sa.contents
        and (not slot.response or exchanges.is_plain(pair, false))
        and datagram.clear and not datagram.incomplete and not datagram.ip_fragments
end

-- Whether no message of an IKE SA has findings and none was sent again, after the end of the capture.
local function has_no_findings(capture, sa)
    for _, pair in ipairs(sa.list) do
        capture:decode_for_findings(pair)
        if not exchanges.is_plain(pair, true) or not is_whole(pair.request) or not is_whole(pair.response) then
            return false
        end
    end
    return #diagnose.for_expert_info(capture, sa) == 0 and not sa.contents
end

--- Whether a datagram belongs to the first transmission of its message and has no findings, like most: a fast test,
-- which is false in case of doubt. For tshark, where nothing is added after the end of the capture.
function findings.is_unremarkable(capture, datagram)
    local slot = datagram[SLOT]
    if not slot or capture.keyring.size > 0 then
        return false
    end
    local sa = slot.pair.sa
    if sa.version ~= 2 or sa.has_wrong_headers then
        return false
    elseif not capture.finished and not datagram[PLAIN] then
        return is_unremarkable_init(sa, slot, datagram)
    elseif capture.finished then
        local known = capture.unremarkable[sa.number]
        if known == nil then
            known = has_no_findings(capture, sa)
            capture.unremarkable[sa.number] = known
        end
        return known
    end
    -- nothing is missing yet; IKE_SA_INIT messages that have been looked at give no findings about later ones
    return not slot.several and not sa.contents and not sa.suspicious and not sa.lacks_intermediate
        and (sa.glanced or 0) == #sa.undecoded
end

-- The list that `of_datagram` returns: most messages have no findings.
local list = {}

-- By whether the initiator is the sender.
local WRONG_KEY = {
    [true] = "SK_ei is wrong: the integrity check passes with SK_ai, but decryption gives no valid padding or payloads",
    [false] = "SK_er is wrong: the integrity check passes with SK_ar, but decryption gives no valid padding"
        .. " or payloads",
}

local WRONG_INIT_FLAGS = "IKE_SA_INIT with both the Initiator and the Response flag, or neither (RFC 7296, 3.1)"
-- By whether the initiator is the sender.
local WRONG_FLAG = {
    [true] = "The host that began the IKE SA sent this message without the Initiator flag (RFC 7296, 3.1)",
    [false] = "The host that answered IKE_SA_INIT sent this message with the Initiator flag (RFC 7296, 3.1)",
}

--- The findings about a datagram, a list that is valid until the next call; `exchange`, `transmission`: from
-- `exchanges.of_datagram`, nil if they are not known; see `View:find_exchange`.
function findings.of_datagram(capture, datagram, exchange, transmission)
    for index = #list, 1, -1 do
        list[index] = nil
    end
    local slot = datagram[SLOT]
    local pair = slot.pair
    local sa = pair.sa
    if transmission and transmission.number > 1 then
        add(list, "retransmission", "Retransmission of an earlier message") -- the fields have its number and frame
    end
    if is_missing_fragments(capture, slot, transmission) then
        add(list, "missing_fragment", "Fragments of the message are missing")
    end
    local plain = datagram[PLAIN]
    if not plain and datagram.incomplete then
        add(list, "missing_fragment", datagram.ip_fragments and "IP fragments of the message are not in the capture"
            or "TCP segments of the message are not in the capture, or truncated")
    end
    -- INVALID_SPI about an ESP packet has the flag, whoever sends it (RFC 7296, 1.5)
    local is_init = INITS[pair.exchange]
    if not plain and datagram.wrong_flag and (is_init or not datagram.clear) then
        add(list, "initiator_flag", is_init and WRONG_INIT_FLAGS or WRONG_FLAG[slot.from_initiator or false])
    end
    if not plain and datagram.surplus then
        add(list, "surplus", string.format(
            "%d bytes follow the message, which ends by its length field (RFC 7296, 3.1)", datagram.surplus
        ))
    end
    local informational_v1 = sa.version == 1 and pair.exchange == 5
    if exchange and not informational_v1 then
        if #exchange.requests == 0 then
            if capture:is_final(datagram.time) then
                add(list, "no_request", "The request to this response is not in the capture")
            end
        elseif #exchange.responses == 0 and sa.version == 2 and capture:is_final(sa.last_time) then
            add(list, "no_response", "The capture has no response to this request")
        end
        local reason = slot.response and exchanges.retry_reason(exchange)
        if reason then
            add(list, "extra_round_trip", "The responder asks for another request: " .. reason)
        end
    end
    -- not an exchange of several requests, like that of IKE_SA_INIT: the other request has another message ID
    local refused = slot.response and contents.retry_reason(datagram)
    if refused then
        add(list, "extra_round_trip", "The other side asks for another request: " .. refused)
    end
    if not plain and datagram.ip_fragments and sa.version == 2 and pair.exchange == IKE_SA_INIT then
        add(list, "ip_fragments", string.format("IKE_SA_INIT in %d IP fragments", datagram.frames))
    end
    if sa.version == 2 and pair.exchange == IKE_INTERMEDIATE then
        check_support(sa.init_request, "request", list)
        check_support(sa.init_response, "response", list)
    end
    if not plain and contents.has_no_key(datagram) and capture.keyring:count(sa) > 0 then
        local missing = capture:is_final(sa.last_time) and contents.missing_keys(sa, datagram)
        add(list, "no_key", datagram.wrong_key and WRONG_KEY[slot.from_initiator or false]
            or "None of the keys of this IKE SA decrypts the message" .. (missing and ": " .. missing or ""))
    end
    local content = contents.content(datagram)
    if content then
        check_content(sa, content, list)
    end
    local diagnoses = capture.finished and diagnose.for_expert_info(capture, sa) or NONE
    for _, diagnosis in ipairs(diagnoses) do
        if diagnosis.datagram == datagram then
            add(list, diagnosis.expert, "Diagnosis: " .. diagnosis.code) -- the fields have the rest
        end
    end
    return list
end

return findings
