--[[ Rules of the diagnosis: requests that were refused and connections that were lost after the set-up. See the module
`rules`. ]]
local refused_requests = require("ikex.diagnosis.refused_requests")

-- RFC 3948, 4: a NAT keepalive is due after 20 s; many NATs forget UDP after 30 s.
local NAT_TIMEOUT_S = 20

local function is_set_up(f)
    return f.outcome == "completed" or f.outcome == "established"
end

-- A request after the set-up was refused with a notify, and no other one made up for it.
local function is_refused(f, notify)
    return is_set_up(f) and f.refused and f.refused.notify == notify
end

-- The request was a quick mode of IKEv1.
local function is_quick_mode(f)
    return is_set_up(f) and f.refused and f.refused.type == "Quick Mode"
end

-- The request was for a CHILD_SA.
local function is_for_child(f)
    local purpose = f.refused.purpose
    return purpose == refused_requests.CHILD or purpose == refused_requests.CHILD_REKEYING
end

-- A request after the set-up was repeated and never answered, and nothing shows that its receiver was there. An
-- Informational message of IKEv1 has no response (RFC 2408, 4.8), not even that of a dead peer detection, whose answer
-- is another one (RFC 3706, 5.2).
local function is_lost(f)
    return is_set_up(f) and f.later ~= nil and not f.later_ended and (f.later_again or 0) > 1 and not f.later_heard
        and f.later_type ~= "Informational"
end

return {
    {
        code = "pfs-mismatch", effect = "refused", confidence = "consistent with",
        rfc = "RFC 7296, 1.2 and 1.3.1; RFC 9370, 2.2.4", subject = "LATER_REFUSAL",
        when = function(f)
            return is_refused(f, "NO_PROPOSAL_CHOSEN") and is_for_child(f) and f.refused.differs_in_key_exchange
        end,
        sentence =
            "The {refused_by} refused {refused_for} with "
                .. "NO_PROPOSAL_CHOSEN{refused_times}{refused_proposals}. In IKE_AUTH, where a CHILD_SA has no key "
                .. "exchange of its own, both sides agreed on the other algorithms: consistent with different key "
                .. "exchange methods (PFS groups).",
        remedy =
            "Set the same key exchange method (PFS or DH group), and the same additional ones (ADDKE), for "
                .. "CHILD_SAs on both sides, or none on both (strongSwan: esp_proposals; libreswan: pfs and esp). "
                .. "Until then, a CHILD_SA works until its lifetime ends.",
    },
    {
        code = "pfs-mismatch", effect = "refused", confidence = "certain",
        rfc = "RFC 7296, 1.3", subject = "LATER_REFUSAL",
        when = function(f)
            return is_refused(f, "INVALID_KE_PAYLOAD")
        end,
        sentence =
            "The {refused_by} asked for another key exchange method{refused_wants} in {refused_for} with "
                .. "INVALID_KE_PAYLOAD{refused_times}, and accepted no such request afterwards.",
        remedy =
            "The side that asked for the SA may not support or allow that method. Set a method (PFS or DH "
                .. "group) that both support as the first one.",
    },
    {
        code = "quick-mode-refused", effect = "refused", confidence = "certain",
        rfc = "RFC 2409, 5.5", subject = "LATER_REFUSAL",
        when = function(f)
            return is_quick_mode(f) and is_refused(f, "INVALID-ID-INFORMATION")
        end,
        sentence =
            "The {refused_by} refused {refused_message} with INVALID-ID-INFORMATION{refused_times}: the networks of "
                .. "the IPsec SA, which quick mode sends as identities, were not accepted{refused_between}.",
        remedy =
            "The networks of both configurations have to be the same, with the sides exchanged: local networks of one "
                .. "side are remote ones of the other. IKEv1 does not narrow them, and has a quick mode for each pair "
                .. "of networks. The IPsec SAs of other quick modes are not affected.",
    },
    {
        code = "quick-mode-refused", effect = "refused", confidence = "certain",
        rfc = "RFC 2409, 5.5", subject = "LATER_REFUSAL",
        when = function(f)
            return is_quick_mode(f) and is_refused(f, "NO-PROPOSAL-CHOSEN")
        end,
        sentence =
            "The {refused_by} refused {refused_message} with NO-PROPOSAL-CHOSEN{refused_times}: no proposal for the "
                .. "IPsec SA was accepted{refused_between}.",
        remedy =
            "Compare the ESP proposals of both configurations for these networks: encryption, integrity, the key "
                .. "exchange method (PFS group), and tunnel or transport mode. In rekeying, either side may be the one "
                .. "that proposes. The log of the side that refused has the reason.",
    },
    {
        code = "quick-mode-refused", effect = "refused", confidence = "consistent with",
        rfc = "RFC 2409, 5.5; RFC 2408, 3.14.1", subject = "LATER_REFUSAL",
        when = function(f)
            return is_quick_mode(f)
        end,
        sentence =
            "A quick mode of the {refused_sender} {refused_end}, and then the {refused_by} sent "
                .. "{refused_notify}{refused_times}: consistent with a refused IPsec SA{refused_between}.",
        remedy =
            "Look up the notify in RFC 2408, 3.14.1, and the time in the log of the side that sent it.",
    },
    {
        code = "create-child-refused", effect = "refused", confidence = "certain",
        rfc = "RFC 9370, 2.2.4; RFC 7296, 1.3", subject = "LATER_REFUSAL",
        when = function(f)
            return is_set_up(f) and f.refused and f.refused.type == "IKE_FOLLOWUP_KE" and f.refused.notify ~= nil
        end,
        sentence =
            "The {refused_by} refused {refused_for} with {refused_notify}{refused_times}.",
        remedy =
            "STATE_NOT_FOUND means that this side does not know, or no longer, the CREATE_CHILD_SA exchange "
                .. "that the request belongs to: the time between them may be too long. The log of the side that "
                .. "refused has the reason.",
    },
    {
        code = "create-child-refused", effect = "refused", confidence = "certain",
        rfc = "RFC 7296, 1.3.2 and 2.7", subject = "LATER_REFUSAL",
        when = function(f)
            return is_refused(f, "NO_PROPOSAL_CHOSEN") and f.refused.purpose == refused_requests.IKE_REKEYING
        end,
        sentence =
            "The {refused_by} refused {refused_for} with "
                .. "NO_PROPOSAL_CHOSEN{refused_times}{refused_proposals}.",
        remedy =
            "Compare the IKE proposals of both configurations, with additional key exchanges (ADDKE): in "
                .. "rekeying, either side may be the one that proposes. The log of the side that refused has the "
                .. "reason.",
    },
    {
        code = "create-child-refused", effect = "refused", confidence = "certain",
        rfc = "RFC 7296, 1.3.1 and 2.7", subject = "LATER_REFUSAL",
        when = function(f)
            return is_refused(f, "NO_PROPOSAL_CHOSEN") and is_for_child(f)
        end,
        sentence =
            "The {refused_by} refused {refused_for} with "
                .. "NO_PROPOSAL_CHOSEN{refused_times}{refused_proposals}.",
        remedy =
            "Compare the ESP proposals of both configurations: encryption, integrity, extended sequence "
                .. "numbers, and the key exchange method (PFS group), which a CHILD_SA has in CREATE_CHILD_SA only. "
                .. "The log of the side that refused has the reason.",
    },
    {
        code = "create-child-refused", effect = "refused", confidence = "certain",
        rfc = "RFC 7296, 2.9 and 3.10.1", subject = "LATER_REFUSAL",
        when = function(f)
            return is_refused(f, "TS_UNACCEPTABLE")
        end,
        sentence =
            "The {refused_by} refused {refused_for} with TS_UNACCEPTABLE{refused_times}: it accepts none of "
                .. "the requested traffic selectors{refused_between}.",
        remedy =
            "The networks of both configurations have to overlap, with the sides exchanged: local networks of "
                .. "one side are remote ones of the other. Other CHILD_SAs of the IKE SA are not affected.",
    },
    {
        code = "create-child-refused", effect = "refused", confidence = "certain",
        rfc = "RFC 7296, 2.25", subject = "LATER_REFUSAL",
        when = function(f)
            return is_refused(f, "TEMPORARY_FAILURE")
        end,
        sentence =
            "The {refused_by} refused {refused_for} with TEMPORARY_FAILURE{refused_times}, and accepted no "
                .. "such request afterwards.",
        remedy =
            "A side answers so while it rekeys or closes the SA itself, which ends soon if nothing is wrong. "
                .. "Look in its log for an exchange of its own that does not end, and give both sides different "
                .. "lifetimes, so that they do not rekey at the same time.",
    },
    {
        code = "create-child-refused", effect = "refused", confidence = "certain",
        rfc = "RFC 7296, 1.3", subject = "LATER_REFUSAL",
        when = function(f)
            return is_refused(f, "NO_ADDITIONAL_SAS")
        end,
        sentence =
            "The {refused_by} refused {refused_for} with NO_ADDITIONAL_SAS{refused_times}: it accepts no more "
                .. "SAs in this IKE SA.",
        remedy =
            "Some hosts accept one CHILD_SA alone and no rekeying. Let the other side set up a new IKE SA in "
                .. "time (strongSwan: reauth_time), or raise the limit of the side that refused.",
    },
    {
        code = "create-child-refused", effect = "refused", confidence = "certain",
        rfc = "RFC 7296, 2.25", subject = "LATER_REFUSAL",
        when = function(f)
            return is_refused(f, "CHILD_SA_NOT_FOUND")
        end,
        sentence =
            "The {refused_by} refused {refused_for} with CHILD_SA_NOT_FOUND{refused_times}: it does not know "
                .. "the CHILD_SA.",
        remedy =
            "Nothing is wrong if it had just deleted this CHILD_SA. Otherwise the two sides disagree about "
                .. "the CHILD_SAs that exist, and traffic in the unknown one is lost: look for its SPI in the logs "
                .. "of both sides.",
    },
    {
        code = "create-child-refused", effect = "refused", confidence = "certain",
        rfc = "RFC 7296, 1.3 and 3.10.1", subject = "LATER_REFUSAL",
        when = function(f)
            return is_set_up(f) and f.refused and f.refused.notify ~= nil
        end,
        sentence =
            "The {refused_by} refused {refused_for} with {refused_notify}{refused_times}.",
        remedy =
            "Look up the notify in RFC 7296, 3.10.1, and the time in the log of the side that refused.",
    },
    {
        code = "create-child-refused", effect = "refused", confidence = "consistent with",
        rfc = "RFC 7296, 1.3; RFC 9370, 2.2.4", subject = "LATER_REFUSAL",
        when = function(f)
            return is_set_up(f) and f.refused
        end,
        sentence =
            "The encrypted {refused_type} response of the {refused_by} has {refused_response_bytes} bytes, "
                .. "room for a notify, but not for what a successful one has: consistent with a refused rekeying or "
                .. "CHILD_SA.",
        remedy =
            "Give the keys (--keys with a log of the daemon) to read the notify. If the first CHILD_SA works, "
                .. "and its rekeying is refused, compare the key exchange methods (PFS groups) of the ESP proposals: "
                .. "in IKE_AUTH they have none.",
    },
    {
        code = "unprotected-response", effect = "disconnected", confidence = "consistent with",
        rfc = "RFC 7296, 1.5 and 2.4", subject = "LATER_REQUEST",
        when = function(f)
            return is_set_up(f) and f.later_unprotected
        end,
        sentence =
            "The connection was set up, and later the {later_type} request of the {later_by} was sent {later_sent} and "
                .. "got only unencrypted responses: consistent with a host that has restarted and no longer knows "
                .. "the IKE SA.",
        remedy =
            "Look at the notify in this packet. INVALID_IKE_SPI means that its sender does not know the IKE SA: it has "
                .. "restarted, or the request reached another gateway of a cluster.",
    },
    {
        code = "nat-keepalive-missing", effect = "disconnected", confidence = "consistent with",
        rfc = "RFC 3948, 4; RFC 7296, 2.23", subject = "LATER_REQUEST",
        when = function(f)
            return is_lost(f) and f.later_by == "responder" and f.initiator_behind_nat
                and f.later_idle_s ~= nil and f.later_idle_s >= NAT_TIMEOUT_S
        end,
        sentence =
            "The responder's {later_type} request was sent {later_sent} and never answered. The initiator is behind a "
                .. "NAT and had sent nothing for {later_idle_s} s before: consistent with a NAT that forgot the "
                .. "connection.",
        remedy =
            "Let the initiator send NAT keepalives more often than the NAT forgets UDP, such as every 20 s "
                .. "(strongSwan: keep_alive), or check for dead peers from the initiator's side (DPD).",
    },
    {
        code = "peer-lost", effect = "disconnected", confidence = "certain",
        rfc = "RFC 7296, 2.4", subject = "LATER_REQUEST",
        when = function(f)
            return is_lost(f)
        end,
        sentence = "The connection was set up and lost later: the {later_type} request of the {later_by} was sent "
            .. "{later_sent} and never answered.",
        remedy =
            "Look for this time in the log of the other side: it may have restarted, deleted the IKE SA, changed its "
                .. "address or port (NAT), or lost its network. An ICMP error in the capture comes from the host that "
                .. "refuses the packets: after port unreachable of the other side, its host is up, and its IKE daemon "
                .. "does not run.",
    },
}
