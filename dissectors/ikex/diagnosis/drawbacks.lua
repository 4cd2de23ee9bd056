--[[ Rules of the diagnosis: what made a set-up slow, or an IKE SA weaker than it was meant to be. See the module
`rules`. ]]
-- Common stacks wait for 0.5 s or more before they repeat a request. Copies of another capture point, which look like
-- repeats where they cannot be recognised, follow after a part of the round trip.
local SHORTEST_TIMER_MS = 250
-- After lost responses, the next request follows the repeated response by the round trip, mostly a small part of the
-- timer. On a slow path, it follows by what is left of the round trip, anything from 0 to the next interval.
local SMALL_PART = 4
local STORM = 10 -- transmissions of one message: common stacks give up after 5 to 8

local function is_set_up(f)
    return f.outcome == "completed" or f.outcome == "established"
end

local function is_without_addke(f)
    return is_set_up(f) and f.offered_addke and f.additional_key_exchanges == 0
end

return {
    {
        code = "retransmission-storm", effect = "slowed", confidence = "certain",
        rfc = "RFC 7296, 2.1 and 2.4", subject = "REPEATED_REQUEST",
        when = function(f)
            return f.repeated_sent ~= nil and f.repeated_sent >= STORM
        end,
        sentence = "Retransmission storm: one message of the set-up was sent {repeated_sent:,} times, and "
            .. "{retransmitted_bytes:,} bytes of the set-up are retransmissions (blow-up {blowup:.1f}).",
        remedy =
            "The timer is far too short, or it does not back off: RFC 7296, 2.4, wants it to grow exponentially. Set "
                .. "a first timer above the round-trip time, and a base of at least 1.8.",
    },
    {
        code = "rtt-exceeds-timer", effect = "slowed", confidence = "consistent with",
        rfc = "RFC 7296, 2.1 and 2.4; RFC 6298, 2", subject = "REPEATED_REQUEST",
        when = function(f)
            return f.uncertain ~= nil and f.timer_ms ~= nil and f.timer_ms >= SHORTEST_TIMER_MS
                and (f.least_gap_ms == nil or f.least_gap_ms * SMALL_PART >= f.timer_ms)
        end,
        sentence =
            "Most requests between these hosts were repeated, and each repeat was answered: consistent with a round "
                .. "trip that is longer than the retransmission timer ({timer_ms:,.0f} ms), so that nothing "
                .. "was lost.",
        remedy =
            "Set the first retransmission timer above the round-trip time (strongSwan: retransmit_timeout; libreswan: "
                .. "retransmit-interval). Give --vantage and --rtt for exact times.",
    },
    {
        code = "intermediate-unfragmented", effect = "weakened", confidence = "certain",
        rfc = "RFC 9242, 1; RFC 7383, 1", subject = "LARGE_MESSAGE",
        when = function(f)
            return f.large_bytes ~= nil
        end,
        sentence =
            "IKE_INTERMEDIATE was sent without IKE fragmentation: {large_bytes:,} bytes in IP fragments, which many "
                .. "networks drop.",
        remedy = "Enable IKE fragmentation on both sides (RFC 7383; strongSwan: fragmentation = yes). Both have to "
            .. "announce IKEV2_FRAGMENTATION_SUPPORTED.",
    },
    {
        code = "intermediate-not-supported", effect = "weakened", confidence = "consistent with",
        rfc = "RFC 9242, 3.1; RFC 9370, 2.2.1", subject = "INIT_RESPONSE",
        when = function(f)
            return is_without_addke(f) and f.responder_lacks_intermediate
        end,
        sentence =
            "The initiator offered an additional key exchange, and the IKE SA has none ({key_exchange} alone). The "
                .. "responder did not announce IKE_INTERMEDIATE: consistent with one that does not support it, or that "
                .. "allows none of the offered methods.",
        remedy =
            "If the additional key exchange is for protection against quantum computers, compare the methods that both "
                .. "sides allow, or update the responder, and let the initiator require one. A responder that supports "
                .. "IKE_INTERMEDIATE may announce it only if it chose an additional key exchange (strongSwan).",
    },
    {
        code = "addke-left-out", effect = "weakened", confidence = "certain",
        rfc = "RFC 9370, 2.2.2; RFC 7296, 2.2", subject = "REQUEST",
        when = function(f)
            return is_set_up(f) and f.first_auth_id ~= nil and f.first_auth_id <= f.additional_key_exchanges
        end,
        sentence = "IKE_SA_INIT negotiated {chosen_addke} as well, in an IKE_INTERMEDIATE exchange each, but the "
            .. "initiator sent IKE_AUTH (message ID {first_auth_id}) after {made_addke} of {needed_addke} such "
            .. "exchanges, and the responder accepted that: the keys of the IKE SA do not depend on all of them.",
        remedy =
            "Each negotiated key exchange must be made before IKE_AUTH, and a responder must not accept less: report "
                .. "this to the vendors of both sides.",
    },
    {
        code = "addke-not-chosen", effect = "weakened", confidence = "certain",
        rfc = "RFC 9370, 2.2.1", subject = "INIT_RESPONSE",
        when = function(f)
            return is_without_addke(f)
        end,
        sentence =
            "The initiator offered an additional key exchange, and the responder chose a proposal without: the IKE SA "
                .. "has {key_exchange} alone.",
        remedy = "If the additional key exchange is for protection against quantum computers, enable its method on the "
            .. "responder, and let the initiator require it.",
    },
    {
        code = "ppk-not-supported", effect = "weakened", confidence = "certain",
        rfc = "RFC 8784, 3", subject = "INIT_RESPONSE",
        when = function(f)
            return is_set_up(f) and f.chosen ~= nil and f.initiator_offers_ppk and f.responder_declines_ppk
        end,
        sentence =
            "The initiator offered a post-quantum pre-shared key (PPK), which the responder did not accept: the "
                .. "keys of the IKE SA do not depend on one.",
        remedy =
            "If the PPK is for protection against quantum computers, configure it on the responder, and let the "
                .. "initiator require it (strongSwan: ppk_required; libreswan: ppk).",
    },
}
