--[[ The plugin's fields and expert infos. The plugin's README.md documents them. ]]
local names = require("ikex.names")
local rules = require("ikex.diagnosis.rules")

local fields = {}

local function framenum(abbreviation, name, kind, text)
    -- the kind selects the symbol that the packet list shows for the related frame
    return ProtoField.framenum(abbreviation, name, base.NONE, kind or (frametype and frametype.NONE), text)
end

-- The names of two registries whose numbers differ.
local function join(registry, other)
    local joined = {}
    for _, each in ipairs({ registry, other }) do
        for number, name in pairs(each) do
            joined[number] = name
        end
    end
    return joined
end

--- All fields, by the names that the other modules use. To be called once.
function fields.make()
    local kinds = frametype or {}
    return {
        handshake = ProtoField.uint32("ikex.handshake", "Handshake", base.DEC),
        exchange = ProtoField.uint8("ikex.exchange", "Exchange", base.DEC, join(names.exchange, names.exchange1)),
        sender = ProtoField.string("ikex.sender", "Sender"),
        kind = ProtoField.string("ikex.kind", "Kind"),
        time = ProtoField.relative_time("ikex.time", "Time since the handshake began"),
        bytes_initiator = ProtoField.uint64("ikex.bytes.initiator", "Bytes so far, from the initiator", base.DEC),
        bytes_responder = ProtoField.uint64("ikex.bytes.responder", "Bytes so far, from the responder", base.DEC),
        outcome = ProtoField.string("ikex.outcome", "Outcome"),
        reason = ProtoField.string("ikex.reason", "Reason"),
        replaces = ProtoField.uint32("ikex.replaces", "Replaces the IKE SA of handshake", base.DEC),
        diagnosis_code = ProtoField.string("ikex.diagnosis.code", "Diagnosis"),
        diagnosis_effect = ProtoField.string("ikex.diagnosis.effect", "Effect"),
        diagnosis_confidence = ProtoField.string("ikex.diagnosis.confidence", "Confidence"),
        diagnosis_message = ProtoField.string("ikex.diagnosis.message", "Diagnosis in words"),
        diagnosis_concerns = ProtoField.string("ikex.diagnosis.concerns", "IKE message"),
        diagnosis_frame = framenum("ikex.diagnosis.frame", "Evidence in"),
        diagnosis_remedy = ProtoField.string("ikex.diagnosis.remedy", "Try"),
        diagnosis_rfc = ProtoField.string("ikex.diagnosis.rfc", "Specified in"),
        request_in = framenum("ikex.request_in", "Request in", kinds.REQUEST),
        response_in = framenum("ikex.response_in", "Response in", kinds.RESPONSE),
        response_time = ProtoField.relative_time("ikex.response_time", "Response time"),
        attempt = ProtoField.uint32("ikex.attempt", "Attempt", base.DEC),
        extra_round_trip = ProtoField.string("ikex.extra_round_trip", "Reason for the extra round trip"),
        transmission = ProtoField.uint32("ikex.transmission", "Transmission", base.DEC),
        retransmission = ProtoField.uint32("ikex.retransmission", "Retransmission", base.DEC),
        retransmission_of = framenum("ikex.retransmission_of", "First transmission in", kinds.RETRANS_PREV),
        duplicate_of = framenum("ikex.duplicate_of", "Captured twice, first in"),
        part_of = framenum("ikex.part_of", "Part of the message in"),
        fragment = ProtoField.uint32("ikex.fragment", "Fragment", base.DEC),
        fragments = ProtoField.uint32("ikex.fragments", "Fragments in total", base.DEC),
        fragment_frame = framenum("ikex.fragment.frame", "Fragment in"),
        fragment_missing = ProtoField.uint32("ikex.fragment.missing", "Missing fragment", base.DEC),
        ip_fragments = ProtoField.uint32("ikex.ip_fragments", "IP fragments", base.DEC),
        decryption = ProtoField.string("ikex.decryption", "Decryption"),
        epoch = ProtoField.uint32("ikex.epoch", "Epoch of the keys", base.DEC),
        verified = ProtoField.bool("ikex.verified", "Integrity checked"),
        payload = ProtoField.string("ikex.payload", "Payload"),
        transform = ProtoField.string("ikex.transform", "Transform"),
        notify = ProtoField.uint16("ikex.notify", "Notify", base.DEC, names.notify),
        method = ProtoField.uint32("ikex.ke.method", "Key exchange method", base.DEC, names.method),
        method_name = ProtoField.string("ikex.ke.name", "Key exchange method name"),
        role = ProtoField.string("ikex.ke.role", "Key exchange data type"),
        ke_length = ProtoField.uint32("ikex.ke.length", "Length of the data", base.DEC),
        length_ok = ProtoField.bool("ikex.ke.length_ok", "Length is correct for the method"),
        modulus_ok = ProtoField.bool("ikex.ke.modulus_ok", "Modulus check (FIPS 203, 7.2) passed"),
        slot = ProtoField.uint32("ikex.ke.slot", "Key exchange slot", base.DEC),
        negotiated = ProtoField.bool("ikex.ke.negotiated", "Method was negotiated for the slot"),
        link = ProtoField.bytes("ikex.additional.link", "Link to the next key exchange"),
        linked_to = framenum("ikex.additional.linked_to", "Continues the key exchange of"),
    }
end

--- All expert infos, by the names that `findings` uses. To be called once.
function fields.experts()
    local function expert(abbreviation, text, group, severity)
        return ProtoExpert.new("ikex.expert." .. abbreviation, text, group, severity)
    end
    local group, severity = _G.expert.group, _G.expert.severity
    local experts = {
        retransmission = expert("retransmission", "Retransmission", group.SEQUENCE, severity.NOTE),
        missing_fragment = expert("missing_fragment", "Fragments are missing", group.REASSEMBLE, severity.WARN),
        no_key = expert("no_key", "No matching key", group.DECRYPTION or group.UNDECODED, severity.WARN),
        unverified = expert("unverified", "Integrity not checked", group.DECRYPTION or group.UNDECODED, severity.NOTE),
        ke_length = expert("ke_length", "Wrong length of key exchange data", group.MALFORMED, severity.ERROR),
        modulus = expert("modulus", "Modulus check failed", group.SECURITY, severity.ERROR),
        method = expert("method", "Not the negotiated method", group.PROTOCOL, severity.WARN),
        no_request = expert("no_request", "Response without request", group.SEQUENCE, severity.WARN),
        no_response = expert("no_response", "Request without response", group.SEQUENCE, severity.NOTE),
        initiator_flag = expert("initiator_flag", "Wrong Initiator flag", group.PROTOCOL, severity.WARN),
        surplus = expert("surplus", "Bytes after the message", group.PROTOCOL, severity.WARN),
        intermediate = expert("intermediate", "IKE_INTERMEDIATE not negotiated", group.PROTOCOL, severity.WARN),
        downgrade = expert("downgrade", "Additional key exchange not chosen", group.SECURITY, severity.WARN),
        ip_fragments = expert("ip_fragments", "IKE_SA_INIT in IP fragments", group.PROTOCOL, severity.NOTE),
        extra_round_trip = expert("extra_round_trip", "Extra round trip", group.SEQUENCE, severity.NOTE),
        error_notify = expert("error_notify", "Error notify", group.RESPONSE_CODE, severity.WARN),
        payloads = expert("payloads", "Inconsistent chain of payloads", group.MALFORMED, severity.ERROR),
        internal = expert("internal", "ikex internal error", group.UNDECODED, severity.ERROR),
    }
    for _, rule in ipairs(rules.RULES) do
        local name = rules.expert_name(rule)
        local is_note = name:find("^diagnosis_minor") ~= nil
        experts[name] = experts[name]
            or expert(name, "Diagnosis: " .. rule.code, group.SEQUENCE, is_note and severity.NOTE or severity.WARN)
    end
    return experts
end

return fields
