--[[ Rules of the diagnosis: unreliable time stamps, and causes that a message names. See the module `rules`. ]]
local LONGEST_RTT_S = 60 -- longer than any initiator waits before it repeats a request
local STEP_BACK_S = 1 -- time stamps of several interfaces are out of order by less

local AAA_REMEDY =
    "Check that the AAA server runs, that its address and port are right, that it knows the responder as a "
    .. "client (an unknown client or a wrong shared secret is ignored without an answer), and the "
    .. "firewall between."

-- A failed handshake with one of these reasons.
local function has_reason(f, ...)
    for _, name in ipairs({ ... }) do
        if f.outcome == "failed" and f.reason == name then
            return true
        end
    end
    return false
end

-- A handshake of IKEv2 whose responder accepted no proposal for the IKE SA.
local function refused_ike_proposals(f)
    return has_reason(f, "NO_PROPOSAL_CHOSEN") and f.last_type ~= "IKE_AUTH"
end

local function has_failed_auth(f)
    return has_reason(f, "AUTHENTICATION_FAILED", "AUTHENTICATION-FAILED")
end

-- The responder refused IKE_INTERMEDIATE, before the initiator authenticated itself.
local function has_failed_in_intermediate(f)
    return has_failed_auth(f) and f.last_type == "IKE_INTERMEDIATE"
end

return {
    {
        code = "clock-jump", effect = "unreliable", confidence = "consistent with",
        rfc = "RFC 7296, 2.4", subject = "REQUEST",
        when = function(f)
            return f.step_back_s > STEP_BACK_S
        end,
        sentence =
            "The time stamps go back by {step_back_s:,.1f} s between two packets of this handshake: consistent with a "
                .. "clock of the capturing machine that was set back, or with captures that were put one after the "
                .. "other.",
        remedy =
            "Do not trust the times of this handshake, nor the order of its messages. Look for a change of the clock "
                .. "(NTP), or merge the captures by time (mergecap).",
    },
    {
        code = "clock-jump", effect = "unreliable", confidence = "consistent with",
        rfc = "RFC 7296, 2.4", subject = "SLOW_REQUEST",
        when = function(f)
            return f.slow_rtt_s ~= nil and f.slow_rtt_s > LONGEST_RTT_S
        end,
        sentence =
            "A response came {slow_rtt_s:,.0f} s after its request, which was not repeated meanwhile: consistent with "
                .. "a clock of the capturing machine that was set forward, or with a machine that was suspended.",
        remedy =
            "Do not trust the times of this handshake. Look for a change of the clock (NTP) or a suspended machine at "
                .. "this time.",
    },
    {
        code = "no-proposal-chosen", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 1.2", subject = "REFUSAL",
        -- the proposals in IKE_AUTH are for the CHILD_SA
        when = function(f)
            return has_reason(f, "NO_PROPOSAL_CHOSEN") and f.last_type == "IKE_AUTH"
        end,
        sentence =
            "The responder, which had accepted a proposal for the IKE SA, ended IKE_AUTH with NO_PROPOSAL_CHOSEN: it "
                .. "refused every proposal for the CHILD_SA{child_of}, and did not set up the IKE SA without one.",
        remedy =
            "Compare the ESP proposals and the traffic selectors of both configurations. In IKE_AUTH, ESP proposals "
                .. "have no key exchange. The responder's log has the reason.",
    },
    {
        code = "no-proposal-chosen", effect = "stopped", confidence = "certain",
        rfc = "RFC 2409, 5.5", subject = "REFUSAL",
        -- phase 1 has ended, so its proposal was accepted
        when = function(f)
            return has_reason(f, "NO-PROPOSAL-CHOSEN") and f.last_type == "Quick Mode"
        end,
        sentence = "Phase 1 of IKEv1 was completed, and quick mode ended with NO-PROPOSAL-CHOSEN: no proposal for the "
            .. "IPsec SA was accepted.",
        remedy = "Compare the ESP proposals of both configurations: encryption, integrity, the key exchange method "
            .. "(PFS group), and tunnel or transport mode. The responder's log has the reason.",
    },
    {
        code = "no-proposal-chosen", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 2.7 and 3.10.1", subject = "REFUSAL",
        when = function(f)
            return has_reason(f, "NO_PROPOSAL_CHOSEN", "NO-PROPOSAL-CHOSEN")
        end,
        sentence = "The responder refused every proposal for the IKE SA with {reason}{offered}.{accepted}",
        remedy = "Compare the proposals of both configurations transform by transform: encryption, integrity, PRF, key "
            .. "exchange and each additional key exchange (ADDKE). The responder's log names those that it "
            .. "accepts. strongSwan answers so, too, if it has no connection for the addresses or the version of IKE.",
    },
    {
        code = "addke-not-offered", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 9370, 2.2.1", subject = "RESPONSE", also = true,
        when = function(f)
            return refused_ike_proposals(f) and f.initiator_supports_intermediate and f.knows_offer
                and not f.offered_addke
        end,
        sentence =
            "The initiator announces IKE_INTERMEDIATE, but none of its proposals has an additional key exchange: a "
                .. "responder that requires one, such as ML-KEM, refuses them all.",
        remedy =
            "If the responder requires a post-quantum key exchange, add it to the initiator's proposals (strongSwan: "
                .. "ke1_mlkem768).",
    },
    {
        code = "intermediate-not-supported", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 3.3.6; RFC 9370, 2.2.1", subject = "RESPONSE", also = true,
        when = function(f)
            return refused_ike_proposals(f) and f.offered_addke and f.all_with_addke
        end,
        sentence =
            "Every proposal has an additional key exchange (ADDKE): a responder that does not know it refuses them "
                .. "all, even those with the alternative NONE.",
        remedy =
            "Update the responder, or enable the method there, or let the initiator offer a second proposal without "
                .. "ADDKE.",
    },
    {
        code = "addke-left-out", effect = "stopped", confidence = "certain",
        rfc = "RFC 9370, 2.2.2; RFC 7296, 2.2", subject = "REQUEST",
        when = function(f)
            local is_stopped = f.outcome == "failed" or f.outcome == "unanswered" or f.outcome == "half-open"
            return is_stopped and f.first_auth_id ~= nil and f.first_auth_id <= f.additional_key_exchanges
        end,
        sentence = "IKE_SA_INIT negotiated {chosen_addke} as well, in an IKE_INTERMEDIATE exchange each, but the "
            .. "initiator sent IKE_AUTH (message ID {first_auth_id}) after {made_addke} of {needed_addke} such "
            .. "exchanges.",
        remedy =
            "An initiator must make each negotiated key exchange before IKE_AUTH, in the order of the transform types: "
                .. "report this to its vendor. Until then, let it offer fewer additional key exchanges.",
    },
    {
        code = "aaa-rejected", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 2.16; RFC 3748, 4.2; RFC 2865, 4.3", subject = "RESPONSE",
        when = function(f)
            return has_reason(f, "Access-Reject", "EAP failure", "XAUTH_STATUS failure")
                or f.outcome == "failed" and (f.aaa_rejected or f.eap_failed ~= nil)
        end,
        sentence = "The authentication of the initiator's user was rejected ({rejection}).",
        remedy =
            "Check user name, password or certificate, and the EAP methods that both allow. The log of the AAA server "
                .. "has the reason.",
    },
    {
        code = "certificate-not-valid", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 5280, 6.1.3; RFC 7296, 2.21.2", subject = "RESPONSE",
        when = function(f)
            return has_failed_auth(f) and f.certificate_problem ~= nil
        end,
        sentence = "The authentication failed ({reason}), and {certificate_problem}.",
        remedy = "Renew the certificate, or set the clock of the host that is wrong.",
    },
    {
        code = "identity-mismatch", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 2.15 and 3.5", subject = "RESPONSE",
        when = function(f)
            return has_failed_auth(f) and f.rejected_by == "initiator" and f.wanted_identity ~= f.responder_identity
        end,
        sentence =
            'The initiator wanted the responder "{wanted_identity}", which authenticated as "{responder_identity}", '
                .. 'and refused it ({reason}).',
        remedy =
            "Set the same identity on both sides: the remote identity of the initiator's configuration has to be the "
                .. "local identity of the responder's, in the same form (FQDN, address, distinguished name).",
    },
    {
        code = "auth-failed", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 2.21.2", subject = "RESPONSE",
        when = function(f)
            return has_failed_auth(f) and f.rejected_by == "initiator"
        end,
        sentence = "The initiator refused the responder's authentication with {reason}{identities}.",
        remedy =
            "Check on the initiator: the expected identity of the responder, the trusted CA of its certificate, its "
                .. "validity and revocation, or the pre-shared key. The initiator's log has the reason.",
    },
    {
        code = "auth-failed", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 7296, 2.21.1 and 2.21.2", subject = "RESPONSE",
        -- identities and credentials are in IKE_AUTH
        when = function(f)
            return has_failed_auth(f) and f.last_type == "IKE_SA_INIT"
        end,
        sentence =
            "The responder answered IKE_SA_INIT with {reason}, before the initiator sent an identity or credentials: "
                .. "consistent with a responder that has no connection for this address.",
        remedy =
            "Check that a connection of the responder allows the addresses of this packet as the initiator's and its "
                .. "own, and the version of IKE. The responder's log has the reason. Credentials are not the cause.",
    },
    {
        code = "auth-failed", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 9242, 3.4; RFC 9867", subject = "RESPONSE",
        when = function(f)
            return has_failed_in_intermediate(f) and f.uses_ppk_in_intermediate
        end,
        sentence = "The responder answered IKE_INTERMEDIATE with {reason}, before the initiator sent an identity or "
            .. "credentials: consistent with a post-quantum pre-shared key (PPK) that the responder requires, and that "
            .. "the initiator did not name or of which it has another value.",
        remedy = "Compare the PPKs of both sides and their identities (PPK_ID). The responder's log has the reason. "
            .. "Other credentials are not the cause.",
    },
    {
        code = "auth-failed", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 2409, 5", subject = "REFUSAL",
        when = function(f)
            return has_failed_auth(f) and f.is_ikev1 and f.answered == 0 and f.responses == 0
        end,
        sentence = "The responder answered the first message of {last_type} with {reason}, before the initiator proved "
            .. "its identity: consistent with a responder that has no connection for this address, identity or mode.",
        remedy = "Check that a connection of the responder allows the addresses of this packet, the initiator's "
            .. "identity, IKEv1, and this mode (main or aggressive) with this kind of authentication. The responder's "
            .. "log has the reason. Keys and certificates are not the cause.",
    },
    {
        code = "auth-failed", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 2409, 5.4", subject = "REFUSAL",
        when = function(f)
            return has_reason(f, "PAYLOAD-MALFORMED", "INVALID-PAYLOAD-TYPE") and f.begins_to_encrypt
        end,
        sentence = "The first encrypted message of IKEv1's main mode was refused with {reason}: consistent with "
            .. "different pre-shared keys, because the responder cannot decrypt the message then.",
        remedy =
            "Compare the pre-shared keys of both sides, and the addresses that they belong to. The responder's log has "
                .. "an error about the message's payloads.",
    },
    {
        code = "auth-failed", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 2409, 5.4", subject = "REFUSAL",
        when = function(f)
            return has_reason(f, "INVALID-HASH-INFORMATION") and f.initiator_has_psk
                and (f.last_type == "Main Mode" or f.last_type == "Aggressive Mode")
        end,
        sentence = "{last_type} of IKEv1 ended with INVALID-HASH-INFORMATION: consistent with different pre-shared "
            .. "keys, on which the HASH payload depends.",
        remedy =
            "Compare the pre-shared keys of both sides, and the identities or addresses that they belong to. The log "
                .. "of the side that sent the notify has an error about the hash.",
    },
    {
        code = "auth-failed", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 2.21.2; RFC 8784, 3", subject = "REFUSAL",
        when = function(f)
            return has_failed_auth(f) and not has_failed_in_intermediate(f) and f.uses_ppk_in_auth
        end,
        sentence = "The responder refused the initiator's authentication with {reason}{identities}. Both sides "
            .. "announced a post-quantum pre-shared key (USE_PPK), on which AUTH depends, too.",
        remedy = "Compare the PPKs of both sides and their identities (PPK_ID). Then compare the identities of both "
            .. "sides (IDi, IDr) and their credentials: the pre-shared key, or the certificate, its validity, its "
            .. "chain and the trusted CAs. The responder's log has the reason.",
    },
    {
        code = "auth-failed", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 2.21.2", subject = "REFUSAL",
        when = function(f)
            return has_failed_auth(f) and not has_failed_in_intermediate(f)
        end,
        sentence = "The responder refused the initiator's authentication with {reason}{identities}.",
        remedy =
            "Compare both sides' identities (IDi, IDr) and credentials: the pre-shared key, or the certificate, its "
                .. "validity, its chain and the trusted CAs. The responder's log has the reason.",
    },
    {
        code = "aaa-silent", effect = "stopped", confidence = "certain",
        rfc = "RFC 2865, 2.4; RFC 5080, 2.2.1", subject = "REQUEST",
        when = function(f)
            return has_reason(f, "AAA server silent")
        end,
        sentence = "The AAA server {aaa_address} answered none of the {aaa_request_messages:,} RADIUS requests of the "
            .. "responder, which then ended {last_type}.",
        remedy = AAA_REMEDY,
    },
    {
        code = "aaa-silent", effect = "stopped", confidence = "consistent with",
        rfc = "RFC 2865, 2.4; RFC 5080, 2.2.1", subject = "REQUEST",
        when = function(f)
            return (f.outcome == "unanswered" or f.outcome == "half-open")
                and f.aaa_retransmitted_messages > 0 and f.aaa_response_messages == 0
        end,
        sentence =
            "The {last_type} request was sent {sent} and never answered, and the AAA server {aaa_address} answered "
                .. "none of the {aaa_request_messages:,} RADIUS requests of the responder.",
        remedy = AAA_REMEDY,
    },
    {
        code = "redirected", effect = "stopped", confidence = "certain",
        rfc = "RFC 5685, 3", subject = "RESPONSE",
        when = function(f)
            return has_reason(f, "REDIRECT")
        end,
        sentence = "The responder redirected the initiator to another gateway with REDIRECT, and the capture has no "
            .. "set-up with that one.",
        remedy =
            "The REDIRECT of this packet names the other gateway. Capture the packets to it as well, and check that "
                .. "the initiator reaches it and follows redirects.",
    },
    {
        code = "ticket-refused", effect = "stopped", confidence = "certain",
        rfc = "RFC 5723, 4.3", subject = "RESPONSE",
        when = function(f)
            return has_reason(f, "TICKET_NACK")
        end,
        sentence =
            "The responder did not accept the ticket of the session that the initiator wanted to resume (TICKET_NACK).",
        remedy =
            "The initiator then has to set up a new IKE SA, with IKE_SA_INIT. If each resumption is refused, compare "
                .. "the lifetime of tickets with the time until they are used, and check that all gateways of a "
                .. "cluster have the same key for them.",
    },
    {
        code = "version-refused", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 2.5", subject = "REFUSAL",
        when = function(f)
            return has_reason(f, "INVALID_MAJOR_VERSION", "INVALID-MAJOR-VERSION")
        end,
        sentence = "The responder does not accept the version of IKE of the {last_type} request ({reason}).",
        remedy =
            "Set the same version on both sides (strongSwan: version; libreswan: ikev2). The header of this packet has "
                .. "a version that the responder speaks.",
    },
    {
        code = "ts-unacceptable", effect = "stopped", confidence = "certain",
        rfc = "RFC 2409, 5.5", subject = "REFUSAL",
        when = function(f)
            return has_reason(f, "INVALID-ID-INFORMATION") and f.last_type == "Quick Mode"
        end,
        sentence = "Phase 1 of IKEv1 was completed, and quick mode ended with INVALID-ID-INFORMATION: the networks of "
            .. "the IPsec SA, which quick mode sends as identities, were not accepted.",
        remedy = "The networks of both configurations have to be the same, with the sides exchanged: local networks of "
            .. "the initiator are remote ones of the responder. IKEv1 does not narrow them.",
    },
    {
        code = "error-notify", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 3.10.1", subject = "REFUSAL",
        when = function(f)
            return f.outcome == "failed" and f.reason ~= nil
        end,
        sentence = "The handshake was ended in {last_type} by the error notify {reason}.",
        remedy = "Look up the notify in RFC 7296, 3.10.1, and the time in the log of the side that sent it.",
    },
    {
        code = "ts-unacceptable", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 2.9 and 3.10.1", subject = "RESPONSE",
        when = function(f)
            return f.child_error == "TS_UNACCEPTABLE"
        end,
        sentence = "The IKE SA was established without a CHILD_SA: the responder accepts none of the requested traffic "
            .. "selectors{between} (TS_UNACCEPTABLE).",
        remedy = "The networks of both configurations have to overlap, with the sides exchanged: local networks of the "
            .. "initiator are remote ones of the responder. For a virtual address, the initiator has to request "
            .. "one.",
    },
    {
        code = "no-proposal-chosen", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 2.7 and 3.10.1", subject = "RESPONSE",
        when = function(f)
            return f.child_error == "NO_PROPOSAL_CHOSEN"
        end,
        sentence = "The IKE SA was established without a CHILD_SA: the responder refused every proposal for it with "
            .. "NO_PROPOSAL_CHOSEN{child_of}.",
        remedy =
            "Compare the ESP proposals of both configurations: encryption, integrity, extended sequence numbers. In "
                .. "IKE_AUTH they have no key exchange. A responder whose kernel cannot install the CHILD_SA answers "
                .. "so, too.",
    },
    {
        code = "redirected", effect = "stopped", confidence = "certain",
        rfc = "RFC 5685, 6", subject = "RESPONSE",
        when = function(f)
            return f.child_error == "REDIRECT"
        end,
        sentence = "The IKE SA was established without a CHILD_SA: the responder redirected the initiator to another "
            .. "gateway{gateway} with REDIRECT in IKE_AUTH.",
        remedy = "Nothing is wrong if the set-up with the other gateway succeeded, which is a handshake of its own. "
            .. "Otherwise check that the initiator reaches that gateway and follows redirects.",
    },
    {
        code = "childless", effect = "stopped", confidence = "certain",
        rfc = "RFC 7296, 2.21.2 and 3.10.1", subject = "RESPONSE",
        when = function(f)
            return f.child_error ~= nil
        end,
        sentence = "The IKE SA was established without a CHILD_SA, which the responder refused with {child_error}.",
        remedy = "No traffic can pass. Look up the notify in RFC 7296, 3.10.1; the responder's log has the reason. "
            .. "Addresses may be exhausted (INTERNAL_ADDRESS_FAILURE), or a required configuration payload may be "
            .. "missing (FAILED_CP_REQUIRED).",
    },
}
