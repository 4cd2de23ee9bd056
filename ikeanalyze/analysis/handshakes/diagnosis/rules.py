"""The table of rules, in order of precedence.

Of each effect (see `rule.Effect`), the first rule that applies gives the diagnosis, so a rule can rely on the
ones before it. Messages that name the problem come first, then patterns of packets, from the most to the least specific
one. A rule does not claim more than its packets show: where something else could look the same, its confidence is
"consistent with".

`s` is the suspect. What is not known about it is None, which meets no condition.
"""

from collections.abc import Sequence
from typing import Final

from ikeanalyze.analysis.handshakes.diagnosis.candidates import (
    INTERMEDIATE_PPK_NOTIFIES,
    LONGEST_RTT_NS,
    MANY_IGNORED,
    PPK_NOTIFIES,
    STEP_BACK_NS,
)
from ikeanalyze.analysis.handshakes.diagnosis.refused_requests import Purpose
from ikeanalyze.analysis.handshakes.diagnosis.rule import Confidence, Effect, Rule, Subject
from ikeanalyze.analysis.handshakes.diagnosis.suspect import IcmpFacts, Suspect
from ikeanalyze.analysis.handshakes.outcome import (
    AAA_SILENT,
    ACCESS_REJECT,
    EAP_FAILURE,
    XAUTH_FAILURE,
    OutcomeName,
)
from ikeanalyze.wire.registries.icmp import IcmpProblem
from ikeanalyze.wire.registries.ikev1 import Ikev1ExchangeType
from ikeanalyze.wire.registries.ikev1_notifies import Ikev1NotifyType
from ikeanalyze.wire.registries.ikev2 import ExchangeType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

# Names in the columns of the handshakes table: exchanges, notifies, and those of IKEv1.
_IKE_SA_INIT: Final = ExchangeType.IKE_SA_INIT.label
_IKE_AUTH: Final = ExchangeType.IKE_AUTH.label
_IKE_FOLLOWUP_KE: Final = ExchangeType.IKE_FOLLOWUP_KE.label
_IKE_INTERMEDIATE: Final = ExchangeType.IKE_INTERMEDIATE.label
_MAIN_MODE: Final = Ikev1ExchangeType.MAIN_MODE.label
_AGGRESSIVE_MODE: Final = Ikev1ExchangeType.AGGRESSIVE_MODE.label
_QUICK_MODE: Final = Ikev1ExchangeType.QUICK_MODE.label
_TRANSACTION: Final = Ikev1ExchangeType.TRANSACTION.label
_AUTHENTICATION_FAILED: Final = NotifyType.AUTHENTICATION_FAILED.label
_CHILD_SA_NOT_FOUND: Final = NotifyType.CHILD_SA_NOT_FOUND.label
_COOKIE: Final = NotifyType.COOKIE.label
_INTERMEDIATE_EXCHANGE_SUPPORTED: Final = NotifyType.INTERMEDIATE_EXCHANGE_SUPPORTED.label
_INVALID_KE_PAYLOAD: Final = NotifyType.INVALID_KE_PAYLOAD.label
_INVALID_MAJOR_VERSION: Final = NotifyType.INVALID_MAJOR_VERSION.label
_NO_ADDITIONAL_SAS: Final = NotifyType.NO_ADDITIONAL_SAS.label
_NO_PROPOSAL_CHOSEN: Final = NotifyType.NO_PROPOSAL_CHOSEN.label
_REDIRECT: Final = NotifyType.REDIRECT.label
_TEMPORARY_FAILURE: Final = NotifyType.TEMPORARY_FAILURE.label
_TICKET_NACK: Final = NotifyType.TICKET_NACK.label
_TS_UNACCEPTABLE: Final = NotifyType.TS_UNACCEPTABLE.label
_USE_PPK: Final = NotifyType.USE_PPK.label
_IKEV1_AUTHENTICATION_FAILED: Final = Ikev1NotifyType.AUTHENTICATION_FAILED.label
_IKEV1_INVALID_HASH_INFORMATION: Final = Ikev1NotifyType.INVALID_HASH_INFORMATION.label
_IKEV1_INVALID_ID_INFORMATION: Final = Ikev1NotifyType.INVALID_ID_INFORMATION.label
_IKEV1_INVALID_MAJOR_VERSION: Final = Ikev1NotifyType.INVALID_MAJOR_VERSION.label
_IKEV1_INVALID_PAYLOAD_TYPE: Final = Ikev1NotifyType.INVALID_PAYLOAD_TYPE.label
_IKEV1_NO_PROPOSAL_CHOSEN: Final = Ikev1NotifyType.NO_PROPOSAL_CHOSEN.label
_IKEV1_PAYLOAD_MALFORMED: Final = Ikev1NotifyType.PAYLOAD_MALFORMED.label

#: Every host accepts IP packets of 576 bytes (RFC 1122, 3.3.2): a path MTU does not explain the loss of smaller ones.
_SMALL_BYTES: Final = 600
#: Requests with INVALID_KE_PAYLOAD or COOKIE in the response: one is normal, and another one after both.
_MANY_ROUND_TRIPS: Final = 3
#: RFC 3948, 4: a NAT keepalive is due after 20 s; many NATs forget UDP after 30 s.
_NAT_TIMEOUT_NS: Final = 20_000_000_000
#: Common stacks wait for 0.5 s or more before they repeat a request. Copies of another capture point, which look like
#: repeats where they cannot be recognised, follow after a part of the round trip.
_SHORTEST_TIMER_NS: Final = 250_000_000
#: After lost responses, the next request follows the repeated response by the round trip, mostly a small part of the
#: timer. On a slow path, it follows by what is left of the round trip, anything from 0 to the next interval.
_SMALL_PART: Final = 4
#: Transmissions of one message: common stacks give up after 5 to 8.
_STORM: Final = 10
#: Least bytes of an identity, AUTH with the shortest hash, SA and traffic selectors: 9 + 24 + 36 + 2 * 24.
_CHILD_ROOM: Final = 117
#: A request that proposes a CHILD_SA is longer than a response without one by at least this number of bytes.
_CHILD_BYTES: Final = 60
_SUCCEEDED: Final[tuple[OutcomeName, ...]] = ("completed", "established")
_STOPPED: Final[tuple[OutcomeName, ...]] = ("failed", "unanswered", "half-open", "cut")
#: Exchanges of IKEv1's main mode before the encrypted one.
_CLEAR_EXCHANGES: Final = 2


def _failed(s: Suspect, *reasons: str) -> bool:
    """A failed handshake with one of these reasons."""
    return s.outcome == "failed" and s.reason in reasons


def _refused_ike_proposals(s: Suspect) -> bool:
    """A handshake of IKEv2 whose responder accepted no proposal for the IKE SA."""
    return _failed(s, _NO_PROPOSAL_CHOSEN) and s.last_type != _IKE_AUTH


def _auth_failed(s: Suspect) -> bool:
    return _failed(s, _AUTHENTICATION_FAILED, _IKEV1_AUTHENTICATION_FAILED)


def _auth_failed_in_intermediate(s: Suspect) -> bool:
    """The responder refused IKE_INTERMEDIATE, before the initiator authenticated itself."""
    return _auth_failed(s) and s.last_type == _IKE_INTERMEDIATE


def _has_psk(s: Suspect) -> bool:
    """The initiator authenticates with a pre-shared key."""
    return s.auth_initiator is not None and s.auth_initiator.startswith("psk")


def _begins_to_encrypt(s: Suspect) -> bool:
    """The last exchange is the first encrypted one of IKEv1's main mode with pre-shared keys."""
    return s.protocol == "IKEv1" and s.last_type == _MAIN_MODE and s.answered == _CLEAR_EXCHANGES and _has_psk(s)


def _stopped(s: Suspect) -> bool:
    return s.outcome in _STOPPED


def _succeeded(s: Suspect) -> bool:
    return s.outcome in _SUCCEEDED


def _without_response(s: Suspect) -> bool:
    return s.outcome == "unanswered" and s.responses == 0


def _answered_by_informational(s: Suspect) -> bool:
    """The receiver of the last request of IKEv1 sent Informational messages instead of a response.

    Refusals and deletions have no other message (RFC 2408, 4.8).
    """
    return _without_response(s) and s.informationals > 0


def _ignores_responses(s: Suspect) -> bool:
    """The last request was repeated after each response, and the initiator never continued.

    Earlier requests were not repeated, so that neither random loss nor a slow path explains it.
    """
    return (
        s.ignored is not None
        and s.ignored >= MANY_IGNORED
        and s.passed_sent in (None, 1)
        and s.after_setup_initiator_messages == 0
        and s.uncertain is None
    )


def _without_received_response(s: Suspect) -> bool:
    """The responder answered, and the initiator behaves as if no answer had arrived."""
    return (s.outcome == "unanswered" and s.responses > 0) or (
        s.outcome is not None and s.outcome != "failed" and _ignores_responses(s)
    )


def _has_errors(errors: IcmpFacts | None, problem: IcmpProblem) -> bool:
    """ICMP errors tell this problem."""
    return errors is not None and errors.problem == problem


def _is_large(size: int, passed: int | None) -> bool:
    """A message is larger than any that arrived in its direction, and than what every path carries."""
    return size > _SMALL_BYTES and size > (passed or 0)


def _has_at_most(room: int | None, most: int) -> bool:
    return room is not None and room <= most


def _announces(supports: Sequence[str] | None, *notifies: str) -> bool:
    """A side announced one of these in IKE_SA_INIT."""
    return any(name in notifies for name in supports or ())


def _responder_announces_none(s: Suspect, *notifies: str) -> bool:
    """The responder announced none of these in IKE_SA_INIT, of which a truncated response could lack one."""
    return s.responder_init_truncated is not True and not _announces(s.responder_supports, *notifies)


def _offers_addke(s: Suspect) -> bool:
    """A proposal has an additional key exchange."""
    return any("ADDKE" in proposal for proposal in s.offered or ())


def _needs_addke(s: Suspect) -> bool:
    """Each proposal has an additional key exchange."""
    return bool(s.offered) and all("ADDKE" in proposal for proposal in s.offered or ())


def _lost_addke(s: Suspect) -> bool:
    """An additional key exchange was offered, and none was chosen."""
    return (
        _succeeded(s) and _offers_addke(s) and s.additional_key_exchanges is not None and not s.additional_key_exchanges
    )


def _announced_intermediate_ppk(s: Suspect) -> bool:
    """Both sides announced a PPK in IKE_INTERMEDIATE (RFC 9867)."""
    return _announces(s.initiator_supports, *INTERMEDIATE_PPK_NOTIFIES) and _announces(
        s.responder_supports, *INTERMEDIATE_PPK_NOTIFIES
    )


def _declined_ppk(s: Suspect) -> bool:
    """The initiator offered a PPK, and the responder does not accept one."""
    return _announces(s.initiator_supports, *PPK_NOTIFIES) and _responder_announces_none(s, *PPK_NOTIFIES)


def _left_out_addke(s: Suspect) -> bool:
    """IKE_AUTH came before all additional key exchanges, which have the message IDs from 1 on, had been made.

    This does not depend on what was captured: the initiator numbers its requests one by one (RFC 7296, 2.2).
    """
    return s.first_auth_id is not None and s.first_auth_id <= len(s.additional_key_exchanges or ())


def _refused(s: Suspect, *notifies: str) -> bool:
    """A request after the set-up was refused with one of these notifies, and no other one made up for it."""
    return _succeeded(s) and s.refused is not None and s.refused.notify in notifies


def _refused_child(s: Suspect) -> bool:
    """The request was for a CHILD_SA."""
    return s.refused is not None and s.refused.purpose in (Purpose.CHILD, Purpose.CHILD_REKEYING)


def _refused_quick_mode(s: Suspect) -> bool:
    """The request was a quick mode of IKEv1."""
    return s.refused is not None and s.refused.type == _QUICK_MODE


def _refused_ike_sa(s: Suspect) -> bool:
    """The request was for the rekeying of the IKE SA."""
    return s.refused is not None and s.refused.purpose == Purpose.IKE_REKEYING


def _lost_peer(s: Suspect) -> bool:
    """A request after the set-up was repeated and never answered, and nothing shows that its receiver was there.

    An Informational message of IKEv1 has no response (RFC 2408, 4.8), not even that of a dead peer detection, whose
    answer is another one (RFC 3706, 5.2).
    """
    return (
        _succeeded(s)
        and s.later_ended is False
        and s.later_again is not None
        and s.later_again > 1
        and s.later_heard is False
        and s.later_type != "Informational"
    )


_ADDKE_LEFT_OUT: Final = (
    "IKE_SA_INIT negotiated {chosen_addke} as well, in an IKE_INTERMEDIATE exchange each, but the initiator sent IKE_AUTH "
    "(message ID {first_auth_id}) after {made_addke} of {needed_addke} such exchanges"
)
_LOST_LATER: Final = (
    "The connection was set up and lost later: the {later_type} request of the {later_by} was sent {later_sent} and never "
    "answered, and {later_icmp}"
)
_AAA_REMEDY: Final = (
    "Check that the AAA server runs, that its address and port are right, that it knows the responder as a client (an "
    "unknown client or a wrong shared secret is ignored without an answer), and the firewall between."
)

_TOO_BIG_REMEDY: Final = (
    "Use IKE fragmentation on both sides (RFC 7383; strongSwan: fragmentation = yes) with a smaller fragment size "
    "(fragment_size), so that IP packets are not larger than the path MTU, and let firewalls pass ICMP errors to the "
    "sender. IKE_SA_INIT cannot be fragmented by IKE: move large key exchange methods to IKE_INTERMEDIATE (RFC 9370)."
)

RULES: Final = (
    Rule(
        code="clock-jump",
        effect=Effect.UNRELIABLE,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.4",
        subject=Subject.REQUEST,
        when=lambda s: s.step_back_ns > STEP_BACK_NS,
        sentence="The time stamps go back by {step_back_s:,.1f} s between two packets of this handshake: consistent with "
        "a clock of the capturing machine that was set back, or with captures that were put one after the other.",
        remedy="Do not trust the times of this handshake, nor the order of its messages. Look for a change of the clock "
        "(NTP), or merge the captures by time (mergecap).",
    ),
    Rule(
        code="clock-jump",
        effect=Effect.UNRELIABLE,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.4",
        subject=Subject.SLOW_REQUEST,
        when=lambda s: s.slow_rtt_ns is not None and s.slow_rtt_ns > LONGEST_RTT_NS,
        sentence="A response came {slow_rtt_s:,.0f} s after its request, which was not repeated meanwhile: consistent "
        "with a clock of the capturing machine that was set forward, or with a machine that was suspended.",
        remedy="Do not trust the times of this handshake. Look for a change of the clock (NTP) or a suspended machine at "
        "this time.",
    ),
    Rule(
        code="no-proposal-chosen",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 1.2",
        subject=Subject.REFUSAL,
        # the proposals in IKE_AUTH are for the CHILD_SA
        when=lambda s: _failed(s, _NO_PROPOSAL_CHOSEN) and s.last_type == _IKE_AUTH,
        sentence="The responder, which had accepted a proposal for the IKE SA, ended IKE_AUTH with NO_PROPOSAL_CHOSEN: it "
        "refused every proposal for the CHILD_SA{child_of}, and did not set up the IKE SA without one.",
        remedy="Compare the ESP proposals and the traffic selectors of both configurations. In IKE_AUTH, ESP proposals "
        "have no key exchange. The responder's log has the reason.",
    ),
    Rule(
        code="no-proposal-chosen",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 2409, 5.5",
        subject=Subject.REFUSAL,
        # phase 1 has ended, so its proposal was accepted
        when=lambda s: _failed(s, _IKEV1_NO_PROPOSAL_CHOSEN) and s.last_type == _QUICK_MODE,
        sentence="Phase 1 of IKEv1 was completed, and quick mode ended with NO-PROPOSAL-CHOSEN: no proposal for the IPsec SA "
        "was accepted.",
        remedy="Compare the ESP proposals of both configurations: encryption, integrity, the key exchange method (PFS "
        "group), and tunnel or transport mode. The responder's log has the reason.",
    ),
    Rule(
        code="no-proposal-chosen",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.7 and 3.10.1",
        subject=Subject.REFUSAL,
        when=lambda s: _failed(s, _NO_PROPOSAL_CHOSEN, _IKEV1_NO_PROPOSAL_CHOSEN),
        sentence="The responder refused every proposal for the IKE SA with {reason}{offered}.{accepted}",
        remedy="Compare the proposals of both configurations transform by transform: encryption, integrity, PRF, key "
        "exchange and each additional key exchange (ADDKE). The responder's log names those that it accepts. strongSwan "
        "answers so, too, if it has no connection for the addresses or the version of IKE.",
    ),
    Rule(
        code="addke-not-offered",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 9370, 2.2.1",
        subject=Subject.RESPONSE,
        when=lambda s: (
            _refused_ike_proposals(s)
            and _announces(s.initiator_supports, _INTERMEDIATE_EXCHANGE_SUPPORTED)
            and s.offered is not None
            and not _offers_addke(s)
        ),
        sentence="The initiator announces IKE_INTERMEDIATE, but none of its proposals has an additional key exchange: "
        "a responder that requires one, such as ML-KEM, refuses them all.",
        remedy="If the responder requires a post-quantum key exchange, add it to the initiator's proposals "
        "(strongSwan: ke1_mlkem768).",
        also=True,
    ),
    Rule(
        code="intermediate-not-supported",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 3.3.6; RFC 9370, 2.2.1",
        subject=Subject.RESPONSE,
        when=lambda s: _refused_ike_proposals(s) and _needs_addke(s),
        sentence="Every proposal has an additional key exchange (ADDKE): a responder that does not know it refuses them "
        "all, even those with the alternative NONE.",
        remedy="Update the responder, or enable the method there, or "
        "let the initiator offer a second proposal without ADDKE.",
        also=True,
    ),
    Rule(
        code="addke-left-out",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 9370, 2.2.2; RFC 7296, 2.2",
        subject=Subject.REQUEST,
        when=lambda s: _stopped(s) and s.outcome != "cut" and _left_out_addke(s),
        sentence=_ADDKE_LEFT_OUT + ".",
        remedy="An initiator must make each negotiated key exchange before IKE_AUTH, in the order of the transform types: "
        "report this to its vendor. Until then, let it offer fewer additional key exchanges.",
    ),
    Rule(
        code="aaa-rejected",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.16; RFC 3748, 4.2; RFC 2865, 4.3",
        subject=Subject.RESPONSE,
        when=lambda s: (
            s.outcome == "failed"
            and (
                s.reason in (ACCESS_REJECT, EAP_FAILURE, XAUTH_FAILURE)
                or s.aaa_rejected
                or s.decrypted.eap_failed is not None
            )
        ),
        sentence="The authentication of the initiator's user was rejected ({rejection}).",
        remedy="Check user name, password or certificate, and the EAP methods that both allow. The log of the AAA "
        "server has the reason.",
    ),
    Rule(
        code="certificate-not-valid",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 5280, 6.1.3; RFC 7296, 2.21.2",
        subject=Subject.RESPONSE,
        when=lambda s: _auth_failed(s) and s.decrypted.certificate_problem is not None,
        sentence="The authentication failed ({reason}), and {certificate_problem}.",
        remedy="Renew the certificate, or set the clock of the host that is wrong.",
    ),
    Rule(
        code="identity-mismatch",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.15 and 3.5",
        subject=Subject.RESPONSE,
        when=lambda s: (
            _auth_failed(s)
            and s.decrypted.rejected_by == "initiator"
            and s.decrypted.wanted_identity != s.decrypted.responder_identity
        ),
        sentence='The initiator wanted the responder "{wanted_identity}", which authenticated as '
        '"{responder_identity}", and refused it ({reason}).',
        remedy="Set the same identity on both sides: the remote identity of the initiator's configuration has to be the "
        "local identity of the responder's, in the same form (FQDN, address, distinguished name).",
    ),
    Rule(
        code="auth-failed",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.21.2",
        subject=Subject.RESPONSE,
        when=lambda s: _auth_failed(s) and s.decrypted.rejected_by == "initiator",
        sentence="The initiator refused the responder's authentication with {reason}{identities}.",
        remedy="Check on the initiator: the expected identity of the responder, the trusted CA of its certificate, its "
        "validity and revocation, or the pre-shared key. The initiator's log has the reason.",
    ),
    Rule(
        code="auth-failed",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.21.1 and 2.21.2",
        subject=Subject.RESPONSE,
        # identities and credentials are in IKE_AUTH
        when=lambda s: _auth_failed(s) and s.last_type == _IKE_SA_INIT,
        sentence="The responder answered IKE_SA_INIT with {reason}, before the initiator sent an identity or credentials: "
        "consistent with a responder that has no connection for this address.",
        remedy="Check that a connection of the responder allows the addresses of this packet as the initiator's and its "
        "own, and the version of IKE. The responder's log has the reason. Credentials are not the cause.",
    ),
    Rule(
        code="auth-failed",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 9242, 3.4; RFC 9867",
        subject=Subject.RESPONSE,
        when=lambda s: _auth_failed_in_intermediate(s) and _announced_intermediate_ppk(s),
        sentence="The responder answered IKE_INTERMEDIATE with {reason}, before the initiator sent an identity or "
        "credentials: consistent with a post-quantum pre-shared key (PPK) that the responder requires, and that the "
        "initiator did not name or of which it has another value.",
        remedy="Compare the PPKs of both sides and their identities (PPK_ID). The responder's log has the reason. Other "
        "credentials are not the cause.",
    ),
    Rule(
        code="auth-failed",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 2409, 5",
        subject=Subject.REFUSAL,
        when=lambda s: _auth_failed(s) and s.protocol == "IKEv1" and s.answered == 0 and s.responses == 0,
        sentence="The responder answered the first message of {last_type} with {reason}, before the initiator proved its "
        "identity: consistent with a responder that has no connection for this address, identity or mode.",
        remedy="Check that a connection of the responder allows the addresses of this packet, the initiator's identity, "
        "IKEv1, and this mode (main or aggressive) with this kind of authentication. The responder's log has the reason. "
        "Keys and certificates are not the cause.",
    ),
    Rule(
        code="auth-failed",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 2409, 5.4",
        subject=Subject.REFUSAL,
        when=lambda s: _failed(s, _IKEV1_PAYLOAD_MALFORMED, _IKEV1_INVALID_PAYLOAD_TYPE) and _begins_to_encrypt(s),
        sentence="The first encrypted message of IKEv1's main mode was refused with {reason}: consistent with different "
        "pre-shared keys, because the responder cannot decrypt the message then.",
        remedy="Compare the pre-shared keys of both sides, and the addresses that they belong to. The responder's log has "
        "an error about the message's payloads.",
    ),
    Rule(
        code="auth-failed",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 2409, 5.4",
        subject=Subject.REFUSAL,
        when=lambda s: (
            _failed(s, _IKEV1_INVALID_HASH_INFORMATION)
            and s.last_type in (_MAIN_MODE, _AGGRESSIVE_MODE)
            and _has_psk(s)
        ),
        sentence="{last_type} of IKEv1 ended with INVALID-HASH-INFORMATION: consistent with different pre-shared keys, on "
        "which the HASH payload depends.",
        remedy="Compare the pre-shared keys of both sides, and the identities or addresses that they belong to. The log of "
        "the side that sent the notify has an error about the hash.",
    ),
    Rule(
        code="auth-failed",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.21.2; RFC 8784, 3",
        subject=Subject.REFUSAL,
        when=lambda s: (
            # a PPK in IKE_INTERMEDIATE is confirmed before IKE_AUTH
            _auth_failed(s)
            and not _auth_failed_in_intermediate(s)
            and _announces(s.initiator_supports, _USE_PPK)
            and _announces(s.responder_supports, _USE_PPK)
        ),
        sentence="The responder refused the initiator's authentication with {reason}{identities}. Both sides announced a "
        "post-quantum pre-shared key (USE_PPK), on which AUTH depends, too.",
        remedy="Compare the PPKs of both sides and their identities (PPK_ID). Then compare the identities of both sides (IDi, "
        "IDr) and their credentials: the pre-shared key, or the certificate, its validity, its chain and the trusted CAs. "
        "The responder's log has the reason.",
    ),
    Rule(
        code="auth-failed",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.21.2",
        subject=Subject.REFUSAL,
        when=lambda s: _auth_failed(s) and not _auth_failed_in_intermediate(s),
        sentence="The responder refused the initiator's authentication with {reason}{identities}.",
        remedy="Compare both sides' identities (IDi, IDr) and credentials: the pre-shared key, or the certificate, its "
        "validity, its chain and the trusted CAs. The responder's log has the reason.",
    ),
    Rule(
        code="aaa-silent",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 2865, 2.4; RFC 5080, 2.2.1",
        subject=Subject.REQUEST,
        when=lambda s: _failed(s, AAA_SILENT),
        sentence="The AAA server {aaa_address} answered none of the {aaa_request_messages:,} RADIUS requests of the "
        "responder, which then ended {last_type}.",
        remedy=_AAA_REMEDY,
    ),
    Rule(
        code="aaa-silent",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 2865, 2.4; RFC 5080, 2.2.1",
        subject=Subject.REQUEST,
        when=lambda s: (
            s.outcome in ("unanswered", "half-open")
            and bool(s.aaa_retransmitted_messages)
            and not s.aaa_response_messages
        ),
        sentence="The {last_type} request was sent {sent} and never answered, and the AAA server {aaa_address} "
        "answered none of the {aaa_request_messages:,} RADIUS requests of the responder.",
        remedy=_AAA_REMEDY,
    ),
    Rule(
        code="redirected",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 5685, 3",
        subject=Subject.RESPONSE,
        when=lambda s: _failed(s, _REDIRECT),
        sentence="The responder redirected the initiator to another gateway with REDIRECT, and the capture has no set-up "
        "with that one.",
        remedy="The REDIRECT of this packet names the other gateway. Capture the packets to it as well, and check that "
        "the initiator reaches it and follows redirects.",
    ),
    Rule(
        code="ticket-refused",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 5723, 4.3",
        subject=Subject.RESPONSE,
        when=lambda s: _failed(s, _TICKET_NACK),
        sentence="The responder did not accept the ticket of the session that the initiator wanted to resume "
        "(TICKET_NACK).",
        remedy="The initiator then has to set up a new IKE SA, with IKE_SA_INIT. If each resumption is refused, compare "
        "the lifetime of tickets with the time until they are used, and check that all gateways of a cluster have the "
        "same key for them.",
    ),
    Rule(
        code="version-refused",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.5",
        subject=Subject.REFUSAL,
        when=lambda s: _failed(s, _INVALID_MAJOR_VERSION, _IKEV1_INVALID_MAJOR_VERSION),
        sentence="The responder does not accept the version of IKE of the {last_type} request ({reason}).",
        remedy="Set the same version on both sides (strongSwan: version; libreswan: ikev2). The header of this packet has "
        "a version that the responder speaks.",
    ),
    Rule(
        code="ts-unacceptable",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 2409, 5.5",
        subject=Subject.REFUSAL,
        when=lambda s: _failed(s, _IKEV1_INVALID_ID_INFORMATION) and s.last_type == _QUICK_MODE,
        sentence="Phase 1 of IKEv1 was completed, and quick mode ended with INVALID-ID-INFORMATION: the networks of the IPsec "
        "SA, which quick mode sends as identities, were not accepted.",
        remedy="The networks of both configurations have to be the same, with the sides exchanged: local networks of the "
        "initiator are remote ones of the responder. IKEv1 does not narrow them.",
    ),
    Rule(
        code="error-notify",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 3.10.1",
        subject=Subject.REFUSAL,
        when=lambda s: s.outcome == "failed" and s.reason is not None,
        sentence="The handshake was ended in {last_type} by the error notify {reason}.",
        remedy="Look up the notify in RFC 7296, 3.10.1, and the time in the log of the side that sent it.",
    ),
    Rule(
        code="ts-unacceptable",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.9 and 3.10.1",
        subject=Subject.RESPONSE,
        when=lambda s: s.child_error == _TS_UNACCEPTABLE,
        sentence="The IKE SA was established without a CHILD_SA: the responder accepts none of the requested traffic "
        "selectors{between} (TS_UNACCEPTABLE).",
        remedy="The networks of both configurations have to overlap, with the sides exchanged: local networks of the "
        "initiator are remote ones of the responder. For a virtual address, the initiator has to request one.",
    ),
    Rule(
        code="no-proposal-chosen",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.7 and 3.10.1",
        subject=Subject.RESPONSE,
        when=lambda s: s.child_error == _NO_PROPOSAL_CHOSEN,
        sentence="The IKE SA was established without a CHILD_SA: the responder refused every proposal for it with "
        "NO_PROPOSAL_CHOSEN{child_of}.",
        remedy="Compare the ESP proposals of both configurations: encryption, integrity, extended sequence numbers. In "
        "IKE_AUTH they have no key exchange. A responder whose kernel cannot install the CHILD_SA answers so, too.",
    ),
    Rule(
        code="redirected",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 5685, 6",
        subject=Subject.RESPONSE,
        when=lambda s: s.child_error == _REDIRECT,
        sentence="The IKE SA was established without a CHILD_SA: the responder redirected the initiator to another "
        "gateway{gateway} with REDIRECT in IKE_AUTH.",
        remedy="Nothing is wrong if the set-up with the other gateway succeeded, which is a handshake of its own. "
        "Otherwise check that the initiator reaches that gateway and follows redirects.",
    ),
    Rule(
        code="childless",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.21.2 and 3.10.1",
        subject=Subject.RESPONSE,
        when=lambda s: s.child_error is not None,
        sentence="The IKE SA was established without a CHILD_SA, which the responder refused with {child_error}.",
        remedy="No traffic can pass. Look up the notify in RFC 7296, 3.10.1; the responder's log has the reason. "
        "Addresses may be exhausted (INTERNAL_ADDRESS_FAILURE), or a required configuration payload may be missing "
        "(FAILED_CP_REQUIRED).",
    ),
    Rule(
        code="redirected",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 5685, 6",
        subject=Subject.RESPONSE,
        when=lambda s: (
            s.outcome == "completed"
            and s.auth_exchanges == 1
            and s.redirected
            and _has_at_most(s.response_room, _CHILD_ROOM - 1)
        ),
        sentence="The encrypted IKE_AUTH response of {response_ike_bytes} bytes has no room for a CHILD_SA, and the "
        "initiator then set up an IKE SA with another gateway, to which {responder_address} had redirected it: consistent "
        "with REDIRECT in the response.",
        remedy="Nothing is wrong if the set-up with the other gateway succeeded, which is a handshake of its own. Give the "
        "keys (--keys with a log of the daemon) to read the response.",
    ),
    Rule(
        code="auth-failed",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.21.2",
        subject=Subject.RESPONSE,
        when=lambda s: (
            s.outcome == "completed" and s.auth_exchanges == 1 and _has_at_most(s.response_room, s.auth_room - 1)
        ),
        sentence="IKE_AUTH was refused: its encrypted response of {response_ike_bytes} bytes has no room for an identity "
        "and an AUTH payload, but for a notify: consistent with AUTHENTICATION_FAILED.",
        remedy="Give the keys (--keys with a log of the daemon) to read the notify. Compare both sides' identities and "
        "credentials: the pre-shared key, or the certificate, its validity, its chain and the trusted CAs. Some responders "
        "(OpenIKED) end IKE_AUTH likewise if they refuse the CHILD_SA: compare the ESP proposals, too.",
    ),
    Rule(
        code="aaa-rejected",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.16; RFC 3748, 4.2",
        subject=Subject.RESPONSE,
        # an EAP-Success, which is as short as an EAP-Failure, is followed by another IKE_AUTH request
        when=lambda s: (
            s.outcome == "completed"
            and s.auth_exchanges > 1
            and s.next_message_id == s.last_message_id + 1
            and _has_at_most(s.response_room, s.auth_payload_room - 1)
        ),
        sentence="The last of {auth_exchanges} IKE_AUTH responses has {response_ike_bytes} encrypted bytes, no room for "
        "an AUTH payload, and the next request of the initiator was not IKE_AUTH: consistent with an EAP failure, or "
        "with an initiator that gave up.",
        remedy="Give the keys (--keys with a log of the daemon) to read the messages. Check user name, password or "
        "certificate, and the EAP methods that both allow. The logs of the responder and of the AAA server have the "
        "reason.",
    ),
    Rule(
        code="childless",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 1.2 and 2.21.2; RFC 6023",
        subject=Subject.RESPONSE,
        when=lambda s: (
            s.outcome == "completed"
            and s.auth_exchanges == 1
            and s.request_bytes > s.response_bytes + _CHILD_BYTES
            and _has_at_most(s.response_room, _CHILD_ROOM - 1)
        ),
        sentence="The encrypted IKE_AUTH response of {response_ike_bytes} bytes has room for an identity and an AUTH "
        "payload, but not for a CHILD_SA as well: consistent with an IKE SA whose CHILD_SA was refused.",
        remedy="Give the keys (--keys with a log of the daemon) to read the reason. Compare the ESP proposals and the "
        "traffic selectors of both configurations.",
    ),
    Rule(
        code="cookie-loop",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.6; RFC 8019, 7",
        subject=Subject.RESPONSE,
        when=lambda s: _stopped(s) and s.cookies >= _MANY_ROUND_TRIPS,
        sentence="The responder asked for a cookie again and again and never accepted the one that it got: "
        "{cookies} times in a row.",
        remedy="The initiator must return the cookie unchanged, from the same address and port, with the same nonce "
        "and SPI. Look for a NAT or a load balancer that changes the address or sends requests to several gateways.",
    ),
    Rule(
        code="invalid-ke-loop",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 1.2 and 2.7",
        subject=Subject.RESPONSE,
        when=lambda s: _stopped(s) and s.refused_methods >= 2,
        sentence="The responder refused the key exchange method of the IKE_SA_INIT request with INVALID_KE_PAYLOAD and "
        "asked for another one{wants_method}, {refused_methods} times.",
        remedy="The initiator does not send the method that the responder asks for. Set one key exchange method "
        "that both support as the first one on both sides.",
    ),
    Rule(
        code="unprotected-response",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 1.5 and 2.4",
        subject=Subject.RESPONSE,
        when=lambda s: s.outcome == "unanswered" and s.unprotected,
        sentence="The {last_type} request, which was sent {sent}, got only unencrypted responses. The initiator must not "
        "rely on them, because anyone can send them.",
        remedy="Look at the notify in this packet. INVALID_IKE_SPI means that its sender does not know the IKE SA: it "
        "has restarted, or the request reached another gateway of a cluster.",
    ),
    Rule(
        code="packet-too-big",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 1191, 4; RFC 4443, 3.2; RFC 7383, 2.5.2",
        subject=Subject.REJECTED_REQUEST,
        # after the error, a host may send IP fragments that are small enough: then the rules about these apply
        when=lambda s: (
            _without_response(s) and _has_errors(s.request_errors, IcmpProblem.TOO_BIG) and not s.request_ip_fragmented
        ),
        sentence="The {last_type} request was sent {sent} and never answered, and {request_icmp}, about an IP packet of "
        "{request_icmp_bytes:,} bytes: consistent with {request_path_mtu}, which the initiator's packets exceed.",
        remedy=_TOO_BIG_REMEDY,
    ),
    Rule(
        code="packet-too-big",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 1191, 4; RFC 4443, 3.2; RFC 7383, 2.5.2",
        subject=Subject.REJECTED_RESPONSE,
        when=lambda s: (
            _without_received_response(s)
            and _has_errors(s.response_errors, IcmpProblem.TOO_BIG)
            and not s.response_ip_fragmented
        ),
        sentence="The responder answered the {last_type} request, but the initiator sent it {sent}, as if no answer had "
        "arrived, and {response_icmp}, about an IP packet of {response_icmp_bytes:,} bytes: consistent with "
        "{response_path_mtu}, which the responder's packets exceed.",
        remedy=_TOO_BIG_REMEDY,
    ),
    Rule(
        code="reassembly-timeout",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 792; RFC 4443, 3.3; RFC 7383, 1",
        subject=Subject.REJECTED_REQUEST,
        when=lambda s: _without_response(s) and _has_errors(s.request_errors, IcmpProblem.REASSEMBLY),
        sentence="The {last_type} request was sent {sent} and never answered, and {request_icmp}: consistent with a path "
        "that drops some of its IP fragments.",
        remedy="Use IKE fragmentation on both sides (RFC 7383; strongSwan: fragmentation = yes) with a fragment size "
        "below the path MTU, or let firewalls and NATs pass IP fragments. IKE_SA_INIT cannot be fragmented by IKE: "
        "move large key exchange methods to IKE_INTERMEDIATE (RFC 9370).",
    ),
    Rule(
        code="reassembly-timeout",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 792; RFC 4443, 3.3; RFC 7383, 1",
        subject=Subject.REJECTED_RESPONSE,
        when=lambda s: _without_received_response(s) and _has_errors(s.response_errors, IcmpProblem.REASSEMBLY),
        sentence="The responder answered the {last_type} request, but the initiator sent it {sent}, as if no answer had "
        "arrived, and {response_icmp}: consistent with a path that drops some IP fragments of the response.",
        remedy="Use IKE fragmentation on both sides (RFC 7383; strongSwan: fragmentation = yes) with a fragment size "
        "below the path MTU, or let firewalls and NATs pass IP fragments.",
    ),
    Rule(
        code="port-unreachable",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 1122, 3.2.2.1; RFC 4443, 3.1",
        subject=Subject.REJECTED_REQUEST,
        when=lambda s: _without_response(s) and _has_errors(s.request_errors, IcmpProblem.PORT),
        sentence="The {last_type} request was sent {sent} and never answered, and {request_icmp}: consistent with a host "
        "where nothing listens on UDP port {request_icmp_port}, or a firewall that rejects the packets.",
        remedy="Check that an IKE daemon runs on {responder_address} and listens on UDP port {request_icmp_port} of this "
        "address, and that no firewall rejects the port. An error from another address comes from a firewall or router "
        "in the path.",
    ),
    Rule(
        code="admin-prohibited",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 1812, 5.2.7.1; RFC 4443, 3.1",
        subject=Subject.REJECTED_REQUEST,
        when=lambda s: _without_response(s) and _has_errors(s.request_errors, IcmpProblem.PROHIBITED),
        sentence="The {last_type} request was sent {sent} and never answered, and {request_icmp}: consistent with a "
        "firewall that rejects the packets.",
        remedy="Let UDP ports 500 and 4500 pass in both directions on {request_icmp_sender} and other firewalls in the "
        "path. Its log may name the rule that rejects the packets.",
    ),
    Rule(
        code="host-unreachable",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 792; RFC 1812, 5.2.7.1; RFC 4443, 3.1 and 3.3",
        subject=Subject.REJECTED_REQUEST,
        when=lambda s: _without_response(s) and _has_errors(s.request_errors, IcmpProblem.UNREACHABLE),
        sentence="The {last_type} request was sent {sent} and never answered, and {request_icmp}: consistent with a "
        "missing or looping route, or a host that is down.",
        remedy="Check the address {responder_address}, that this host is up, and the routes of {request_icmp_sender}, "
        "which could not deliver the packets.",
    ),
    Rule(
        code="quick-mode-refused",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 2409, 5.5; RFC 2408, 4.8",
        subject=Subject.REQUEST,
        when=lambda s: _answered_by_informational(s) and s.last_type == _QUICK_MODE,
        sentence="The quick mode of the {last_by} was sent {sent} and got no response, but {informational_messages} of "
        "the {request_receiver} followed: consistent with an error notify that refuses the IPsec SA, whose networks or "
        "proposals were not accepted.",
        remedy="Give the keys (--keys with a log of the daemon) to read the notify. Compare the networks and the ESP "
        "proposals of both configurations, with the key exchange method (PFS group). The log of the side that refused "
        "has the reason; some initiators ignore the notify and repeat the quick mode.",
    ),
    Rule(
        code="auth-failed",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 2408, 4.8",
        subject=Subject.REQUEST,
        when=lambda s: _answered_by_informational(s) and s.last_type == _TRANSACTION and s.last_by == "responder",
        sentence="The last Transaction request of the responder was sent {sent} and got no response, but "
        "{informational_messages} of the initiator followed: consistent with a refused user name or password (XAuth), "
        "after which the initiator deletes the IKE SA.",
        remedy="Check user name and password (XAuth) on both sides. Their logs have the reason.",
    ),
    Rule(
        code="fragment-lost-each-time",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7383, 2.6",
        subject=Subject.RESPONSE,
        when=lambda s: _without_received_response(s) and s.response_missing is not None and s.responses > 1,
        sentence="The {last_type} response never became complete: none of its {responses:,} transmissions has "
        "{response_missing}.",
        remedy="Something between the responder and the capture point drops this packet each time: a firewall or "
        "intrusion prevention system that inspects it, or a path MTU that it exceeds. Try a smaller fragment size.",
    ),
    Rule(
        code="fragment-lost-each-time",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7383, 2.6",
        subject=Subject.REQUEST,
        when=lambda s: _without_response(s) and s.request_missing is not None and bool(s.again),
        sentence="The {last_type} request, which was sent {sent}, never became complete: no transmission has "
        "{request_missing}.",
        remedy="Something between the initiator and the capture point drops this packet each time: a firewall or "
        "intrusion prevention system that inspects it, or a path MTU that it exceeds. Try a smaller fragment size.",
    ),
    Rule(
        code="intermediate-not-supported",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 9242, 3.1",
        subject=Subject.REQUEST,
        # without a choice of the responder, the capture lacks the response that may have announced it, or its end; a
        # second IKE_INTERMEDIATE follows one that was answered
        when=lambda s: (
            _without_response(s)
            and s.last_type == _IKE_INTERMEDIATE
            and s.last_message_id == 1
            and s.key_exchange is not None
            and _responder_announces_none(s, _INTERMEDIATE_EXCHANGE_SUPPORTED)
        ),
        sentence="The IKE_INTERMEDIATE request was sent {sent} and never answered, and the responder had not announced "
        "INTERMEDIATE_EXCHANGE_SUPPORTED in IKE_SA_INIT: consistent with a responder that does not support the exchange.",
        remedy="An initiator must not use IKE_INTERMEDIATE without the announcement of the responder. Update the "
        "responder, or enable the exchange there; if it chose an additional key exchange without the announcement, "
        "report that to its vendor.",
    ),
    Rule(
        code="path-drops-fragments",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7383, 1; RFC 8900, 3",
        subject=Subject.REQUEST,
        when=lambda s: _without_response(s) and s.request_ip_fragmented,
        sentence="The {last_type} request ({request_bytes:,} bytes in IP fragments) was sent {sent} and never "
        "answered{but_smaller}: consistent with a path that drops IP fragments{behind_responder}.",
        remedy="Use IKE fragmentation on both sides (RFC 7383; strongSwan: fragmentation = yes) with a fragment size "
        "below the path MTU, or let firewalls and NATs pass IP fragments. IKE_SA_INIT cannot be fragmented by IKE: "
        "move large key exchange methods to IKE_INTERMEDIATE (RFC 9370).",
    ),
    Rule(
        code="path-drops-fragments",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7383, 1; RFC 8900, 3",
        subject=Subject.RESPONSE,
        when=lambda s: _without_received_response(s) and s.response_ip_fragmented,
        sentence="The responder answered the {last_type} request ({response_bytes:,} bytes in IP fragments), but the "
        "initiator sent the request {sent}, as if no answer had arrived: consistent with a path that drops IP "
        "fragments{behind_initiator}.",
        remedy="Use IKE fragmentation on both sides (RFC 7383; strongSwan: fragmentation = yes) with a fragment size "
        "below the path MTU, or let firewalls and NATs pass IP fragments.",
    ),
    Rule(
        code="large-packets-lost",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7383, 2.5.2; RFC 4821, 1",
        subject=Subject.REQUEST,
        when=lambda s: _without_response(s) and s.answered > 0 and _is_large(s.request_bytes, s.request_passed_bytes),
        sentence="Only small requests were answered: the {last_type} request (packets of up to {request_bytes:,} "
        "bytes) was sent {sent} and never answered, while requests of up to {request_passed_bytes:,} bytes were: "
        "consistent with a path that drops large packets{behind_responder}.",
        remedy="The path may carry only smaller packets than the hosts believe (path MTU) and drop the others, often "
        "without an ICMP message. Try a smaller IKE fragment size, such as 576 or 1,000 bytes (strongSwan: "
        "fragment_size), and test the path with ping -M do -s SIZE.",
    ),
    Rule(
        code="large-packets-lost",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7383, 2.5.2; RFC 4821, 1",
        subject=Subject.RESPONSE,
        when=lambda s: (
            _without_received_response(s) and s.answered > 0 and _is_large(s.response_bytes, s.response_passed_bytes)
        ),
        sentence="Only small responses seem to arrive: the responder answered {last_type} with packets of up to "
        "{response_bytes:,} bytes, but the initiator sent its request {sent}, as if no answer had arrived. Responses of "
        "up to {response_passed_bytes:,} bytes did arrive: consistent with a path that drops large "
        "packets{behind_initiator}.",
        remedy="The path may carry only smaller packets than the hosts believe (path MTU) and drop the others, often "
        "without an ICMP message. Try a smaller IKE fragment size, such as 576 or 1,000 bytes (strongSwan: "
        "fragment_size), and test the path with ping -M do -s SIZE.",
    ),
    Rule(
        code="udp-4500-blocked",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.23; RFC 3948, 2",
        subject=Subject.REQUEST,
        # a responder that cannot decrypt the request may send an error notify, from UDP port 500, for each one
        when=lambda s: (
            _without_response(s)
            and s.on_4500
            and not s.passed_4500
            and s.answered > 0
            and s.after_setup_responder_messages == 0
        ),
        sentence="The handshake stops where it changes to UDP port 4500: the {last_type} request was sent {sent} on that "
        "port and never answered, and the responder sent nothing from it in the whole capture: consistent with "
        "a firewall that blocks the port{behind_responder}.",
        remedy="Let UDP port 4500 pass in both directions, on firewalls and NATs, and check that the responder listens "
        "on it. A responder that restarted after IKE_SA_INIT does not know the IKE SA, and may ignore the request without "
        "a message in its log (strongSwan).",
        also=True,
    ),
    Rule(
        code="one-way",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.1",
        subject=Subject.RESPONSE,
        when=_without_received_response,
        sentence="The responder answered the {last_type} request, but the initiator sent it {sent}, as if no answer "
        "had arrived: consistent with packets that pass in one direction only, and are lost{behind_initiator} in the "
        "other.",
        remedy="Check the way back: the responder's route and source address, firewall state, NAT, and filters for the "
        "source port. Capture on the initiator's side to see whether the responses arrive there.",
    ),
    Rule(
        code="responder-silent",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.1 and 2.4",
        subject=Subject.REQUEST,
        when=lambda s: _without_response(s) and s.answered == 0,
        sentence="No IKE response of {responder_address} is in the capture: the {last_type} request was sent {sent}.",
        remedy="Check the address, that an IKE daemon listens on UDP port {responder_port}, and that firewalls pass it "
        "in both directions; an ICMP error in the capture comes from the host that refuses the packets. Some responders "
        "do not answer addresses that they have no configuration for.",
    ),
    Rule(
        code="auth-failed",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 2409, 5.4",
        subject=Subject.REQUEST,
        when=lambda s: _without_response(s) and _begins_to_encrypt(s),
        sentence="The responder stopped answering at the first encrypted message of IKEv1's main mode, which was sent "
        "{sent}: consistent with different pre-shared keys, because it cannot decrypt the message then.",
        remedy="Compare the pre-shared keys of both sides, and the addresses that they belong to. The responder's log "
        "has an error about the message's payloads.",
    ),
    Rule(
        code="request-unanswered",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.1 and 2.4",
        subject=Subject.REQUEST,
        when=lambda s: _without_response(s) and s.again == 0,
        sentence="The {last_type} request has no response in the capture, after {answered_exchanges}, and was sent once, "
        "although {a_last_by} repeats a request until it is answered: consistent with a response that the capture "
        "lost, or {a_last_by} that was stopped.{skipped_ids}",
        remedy="Check whether the capture lost packets: the capturing program reports those that it dropped, and a "
        "mirror port drops some under load. A response with other SPIs is listed as a handshake of its own. Then look for "
        "this time in the logs of both sides.",
    ),
    Rule(
        code="request-unanswered",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.1 and 2.4",
        subject=Subject.REQUEST,
        when=lambda s: _without_response(s) and s.again is not None,
        sentence="The {request_receiver} stopped answering: the {last_type} request was sent {sent} without any "
        "response, after {answered_exchanges}.{skipped_ids}",
        remedy="Look for this time in the {request_receiver}'s log: it may have dropped the request (as one that it "
        "cannot decrypt), waited for another system, or not received it.",
    ),
    Rule(
        code="request-unanswered",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.1 and 2.4",
        subject=Subject.REQUEST,
        when=_without_response,
        sentence="The {last_type} request, which was sent {sent}, has no response in the capture, after "
        "{answered_exchanges}: consistent with a {request_receiver} that stopped answering. The snapshot length truncates "
        "the IKE fragments of the request before their numbers, so that its transmissions cannot be counted.",
        remedy="Capture whole packets (tcpdump -s 0). Look for this time in the {request_receiver}'s log: it may have "
        "dropped the request (as one that it cannot decrypt), waited for another system, or not received it.",
    ),
    Rule(
        code="cookie-not-returned",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.6",
        subject=Subject.RESPONSE,
        when=lambda s: s.outcome == "half-open" and s.reason == _COOKIE,
        sentence="The responder asked for a cookie, and the initiator did not send its request again with it.",
        remedy="This is what scanners and floods with forged addresses look like. If the initiator is real, check that "
        "the response reaches it.",
    ),
    Rule(
        code="invalid-ke-abandoned",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 1.2",
        subject=Subject.RESPONSE,
        when=lambda s: s.outcome == "half-open" and s.reason == _INVALID_KE_PAYLOAD,
        sentence="The responder asked for another key exchange method{wants_method}, and the initiator did not send this "
        "request again with it.",
        remedy="Look at the next handshake of the initiator: some begin again with another SPI, which counts as a "
        "handshake of its own. If there is none, the initiator may not support or allow that method. Set a method that both "
        "support as the first one.",
    ),
    Rule(
        code="port-4500-missing",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.23",
        subject=Subject.RESPONSE,
        # with a NAT, all that continue use port 4500: if no message has it, it was most likely not captured
        when=lambda s: (
            s.outcome == "half-open"
            and s.last_type == _IKE_SA_INIT
            and s.nat in ("initiator", "responder", "both")
            and not s.has_port_4500
        ),
        sentence="The set-up stops after IKE_SA_INIT, where NAT detection found a NAT, so that the initiator continues on "
        "UDP port 4500. The capture has no IKE message on that port: consistent with a capture filter that leaves it out.",
        remedy='Capture both ports, as with the filter "port 500 or port 4500". If the capture has all packets of both '
        "ports, the initiator did not continue: look for this time in its log. It may have refused the response, given "
        "up, or not received it.",
    ),
    Rule(
        code="ppk-not-supported",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 8784, 3",
        subject=Subject.RESPONSE,
        when=lambda s: s.outcome == "half-open" and s.last_type == _IKE_SA_INIT and _declined_ppk(s),
        sentence="The initiator offered a post-quantum pre-shared key (PPK), which the responder did not accept, and did "
        "not continue the set-up: consistent with an initiator that requires the PPK.",
        remedy="Configure the PPK on the responder, or make it optional on the initiator (strongSwan: ppk_required; "
        "libreswan: ppk). If it is optional already, check that the capture has UDP ports 500 and 4500, and look for this "
        "time in the initiator's log.",
        also=True,
    ),
    Rule(
        code="initiator-silent",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.1; RFC 9867",
        subject=Subject.RESPONSE,
        when=lambda s: s.outcome == "half-open" and s.last_type == _IKE_INTERMEDIATE and _announced_intermediate_ppk(s),
        sentence="The initiator did not continue the set-up after the response to {last_type} {last_message_id}, "
        "although the capture goes on. Both sides announced a post-quantum pre-shared key (PPK) for this exchange: consistent "
        "with PPKs that differ, or with an initiator that refused the response for another reason, gave up, or did not "
        "receive it.",
        remedy="Compare the PPKs of both sides and their identities (PPK_ID), and look for this time in the initiator's log. "
        "Give the keys (--keys with a log of the daemon) to read the response.",
    ),
    Rule(
        code="initiator-silent",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.1",
        subject=Subject.RESPONSE,
        when=lambda s: s.outcome == "half-open",
        sentence="The initiator did not continue the set-up after the response to {last_type} {last_message_id}, "
        "although the capture goes on: consistent with one that refused the response, gave up, or did not receive it.",
        remedy="Check first that the capture has UDP ports 500 and 4500: many initiators change to 4500 after "
        "IKE_SA_INIT, and messages there without the non-ESP marker (RFC 3948, 2.2) count as ESP. Then look for this "
        "time in the initiator's log: it may have refused the response (and then deleted the IKE SA), given up, or not "
        "received it. If the capture was taken at the responder, its next request may also have been lost on the way, as "
        "large packets are on a path that drops them.",
    ),
    Rule(
        code="pfs-mismatch",
        effect=Effect.REFUSED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 1.2 and 1.3.1; RFC 9370, 2.2.4",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: (
            _refused(s, _NO_PROPOSAL_CHOSEN)
            and _refused_child(s)
            and s.refused is not None
            and s.refused.differs_in_key_exchange
        ),
        sentence="The {refused_by} refused {refused_for} with NO_PROPOSAL_CHOSEN{refused_times}{refused_proposals}. In "
        "IKE_AUTH, where a CHILD_SA has no key exchange of its own, both sides agreed on the other algorithms: consistent "
        "with different key exchange methods (PFS groups).",
        remedy="Set the same key exchange method (PFS or DH group), and the same additional ones (ADDKE), for CHILD_SAs on "
        "both sides, or none on both (strongSwan: esp_proposals; libreswan: pfs and esp). Until then, a CHILD_SA works "
        "until its lifetime ends.",
    ),
    Rule(
        code="pfs-mismatch",
        effect=Effect.REFUSED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 1.3",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: _refused(s, _INVALID_KE_PAYLOAD),
        sentence="The {refused_by} asked for another key exchange method{refused_wants} in {refused_for} with "
        "INVALID_KE_PAYLOAD{refused_times}, and accepted no such request afterwards.",
        remedy="The side that asked for the SA may not support or allow that method. Set a method (PFS or DH group) that "
        "both support as the first one.",
    ),
    Rule(
        code="quick-mode-refused",
        effect=Effect.REFUSED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 2409, 5.5",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: _refused_quick_mode(s) and _refused(s, _IKEV1_INVALID_ID_INFORMATION),
        sentence="The {refused_by} refused {refused_message} with INVALID-ID-INFORMATION{refused_times}: the "
        "networks of the IPsec SA, which quick mode sends as identities, were not accepted{refused_between}.",
        remedy="The networks of both configurations have to be the same, with the sides exchanged: local networks of one "
        "side are remote ones of the other. IKEv1 does not narrow them, and has a quick mode for each pair of networks. "
        "The IPsec SAs of other quick modes are not affected.",
    ),
    Rule(
        code="quick-mode-refused",
        effect=Effect.REFUSED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 2409, 5.5",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: _refused_quick_mode(s) and _refused(s, _IKEV1_NO_PROPOSAL_CHOSEN),
        sentence="The {refused_by} refused {refused_message} with NO-PROPOSAL-CHOSEN{refused_times}: no "
        "proposal for the IPsec SA was accepted{refused_between}.",
        remedy="Compare the ESP proposals of both configurations for these networks: encryption, integrity, the key "
        "exchange method (PFS group), and tunnel or transport mode. In rekeying, either side may be the one that proposes. "
        "The log of the side that refused has the reason.",
    ),
    Rule(
        code="quick-mode-refused",
        effect=Effect.REFUSED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 2409, 5.5; RFC 2408, 3.14.1",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: _succeeded(s) and _refused_quick_mode(s),
        sentence="A quick mode of the {refused_sender} {refused_end}, and then the {refused_by} sent "
        "{refused_notify}{refused_times}: consistent with a refused IPsec SA{refused_between}.",
        remedy="Look up the notify in RFC 2408, 3.14.1, and the time in the log of the side that sent it.",
    ),
    Rule(
        code="create-child-refused",
        effect=Effect.REFUSED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 9370, 2.2.4; RFC 7296, 1.3",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: (
            _succeeded(s)
            and s.refused is not None
            and s.refused.type == _IKE_FOLLOWUP_KE
            and s.refused.notify is not None
        ),
        sentence="The {refused_by} refused {refused_for} with {refused_notify}{refused_times}.",
        remedy="STATE_NOT_FOUND means that this side does not know, or no longer, the CREATE_CHILD_SA exchange that the "
        "request belongs to: the time between them may be too long. The log of the side that refused has the reason.",
    ),
    Rule(
        code="create-child-refused",
        effect=Effect.REFUSED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 1.3.2 and 2.7",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: _refused(s, _NO_PROPOSAL_CHOSEN) and _refused_ike_sa(s),
        sentence="The {refused_by} refused {refused_for} with NO_PROPOSAL_CHOSEN{refused_times}{refused_proposals}.",
        remedy="Compare the IKE proposals of both configurations, with additional key exchanges (ADDKE): in rekeying, "
        "either side may be the one that proposes. The log of the side that refused has the reason.",
    ),
    Rule(
        code="create-child-refused",
        effect=Effect.REFUSED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 1.3.1 and 2.7",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: _refused(s, _NO_PROPOSAL_CHOSEN) and _refused_child(s),
        sentence="The {refused_by} refused {refused_for} with NO_PROPOSAL_CHOSEN{refused_times}{refused_proposals}.",
        remedy="Compare the ESP proposals of both configurations: encryption, integrity, extended sequence numbers, and "
        "the key exchange method (PFS group), which a CHILD_SA has in CREATE_CHILD_SA only. The log of the side that "
        "refused has the reason.",
    ),
    Rule(
        code="create-child-refused",
        effect=Effect.REFUSED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.9 and 3.10.1",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: _refused(s, _TS_UNACCEPTABLE),
        sentence="The {refused_by} refused {refused_for} with TS_UNACCEPTABLE{refused_times}: it accepts none of the "
        "requested traffic selectors{refused_between}.",
        remedy="The networks of both configurations have to overlap, with the sides exchanged: local networks of one side "
        "are remote ones of the other. Other CHILD_SAs of the IKE SA are not affected.",
    ),
    Rule(
        code="create-child-refused",
        effect=Effect.REFUSED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.25",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: _refused(s, _TEMPORARY_FAILURE),
        sentence="The {refused_by} refused {refused_for} with TEMPORARY_FAILURE{refused_times}, and accepted no such request "
        "afterwards.",
        remedy="A side answers so while it rekeys or closes the SA itself, which ends soon if nothing is wrong. Look in its "
        "log for an exchange of its own that does not end, and give both sides different lifetimes, so that they do not "
        "rekey at the same time.",
    ),
    Rule(
        code="create-child-refused",
        effect=Effect.REFUSED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 1.3",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: _refused(s, _NO_ADDITIONAL_SAS),
        sentence="The {refused_by} refused {refused_for} with NO_ADDITIONAL_SAS{refused_times}: it accepts no more SAs in "
        "this IKE SA.",
        remedy="Some hosts accept one CHILD_SA alone and no rekeying. Let the other side set up a new IKE SA in time "
        "(strongSwan: reauth_time), or raise the limit of the side that refused.",
    ),
    Rule(
        code="create-child-refused",
        effect=Effect.REFUSED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.25",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: _refused(s, _CHILD_SA_NOT_FOUND),
        sentence="The {refused_by} refused {refused_for} with CHILD_SA_NOT_FOUND{refused_times}: it does not know the "
        "CHILD_SA.",
        remedy="Nothing is wrong if it had just deleted this CHILD_SA. Otherwise the two sides disagree about the CHILD_SAs "
        "that exist, and traffic in the unknown one is lost: look for its SPI in the logs of both sides.",
    ),
    Rule(
        code="create-child-refused",
        effect=Effect.REFUSED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 1.3 and 3.10.1",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: _succeeded(s) and s.refused is not None and s.refused.notify is not None,
        sentence="The {refused_by} refused {refused_for} with {refused_notify}{refused_times}.",
        remedy="Look up the notify in RFC 7296, 3.10.1, and the time in the log of the side that refused.",
    ),
    Rule(
        code="create-child-refused",
        effect=Effect.REFUSED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 1.3; RFC 9370, 2.2.4",
        subject=Subject.LATER_REFUSAL,
        when=lambda s: _succeeded(s) and s.refused is not None,
        sentence="The encrypted {refused_type} response of the {refused_by} has {refused_response_bytes} bytes, room for a "
        "notify, but not for what a successful one has: consistent with a refused rekeying or CHILD_SA.",
        remedy="Give the keys (--keys with a log of the daemon) to read the notify. If the first CHILD_SA works, and its "
        "rekeying is refused, compare the key exchange methods (PFS groups) of the ESP proposals: in IKE_AUTH they have "
        "none.",
    ),
    Rule(
        code="unprotected-response",
        effect=Effect.DISCONNECTED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 1.5 and 2.4",
        subject=Subject.LATER_REQUEST,
        when=lambda s: _succeeded(s) and s.later_unprotected is True,
        sentence="The connection was set up, and later the {later_type} request of the {later_by} was sent {later_sent} "
        "and got only unencrypted responses: consistent with a host that has restarted and no longer knows the IKE "
        "SA.",
        remedy="Look at the notify in this packet. INVALID_IKE_SPI means that its sender does not know the IKE SA: it "
        "has restarted, or the request reached another gateway of a cluster.",
    ),
    Rule(
        code="nat-keepalive-missing",
        effect=Effect.DISCONNECTED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 3948, 4; RFC 7296, 2.23",
        subject=Subject.LATER_REQUEST,
        when=lambda s: (
            _lost_peer(s)
            and s.later_by == "responder"
            and s.nat in ("initiator", "both")
            and s.later_idle_ns is not None
            and s.later_idle_ns >= _NAT_TIMEOUT_NS
        ),
        sentence="The responder's {later_type} request was sent {later_sent} and never answered. The initiator is behind "
        "a NAT and had sent nothing for {later_idle_s} s before: consistent with a NAT that forgot the connection.",
        remedy="Let the initiator send NAT keepalives more often than the NAT forgets UDP, such as every 20 s "
        "(strongSwan: keep_alive), or check for dead peers from the initiator's side (DPD).",
    ),
    Rule(
        code="packet-too-big",
        effect=Effect.DISCONNECTED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 1191, 4; RFC 4443, 3.2; RFC 7383, 2.5.2",
        subject=Subject.REJECTED_LATER_REQUEST,
        # after the error, a host may send IP fragments that are small enough
        when=lambda s: (
            _lost_peer(s) and _has_errors(s.later_errors, IcmpProblem.TOO_BIG) and s.later_ip_fragmented is False
        ),
        sentence=_LOST_LATER
        + ", about an IP packet of {later_icmp_bytes:,} bytes: consistent with {later_path_mtu}, which "
        "this request exceeds.",
        remedy=_TOO_BIG_REMEDY,
    ),
    Rule(
        code="port-unreachable",
        effect=Effect.DISCONNECTED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 1122, 3.2.2.1; RFC 4443, 3.1",
        subject=Subject.REJECTED_LATER_REQUEST,
        when=lambda s: _lost_peer(s) and _has_errors(s.later_errors, IcmpProblem.PORT),
        sentence=_LOST_LATER
        + ": consistent with an IKE daemon that has stopped, or a firewall or NAT that no longer lets "
        "the packets pass.",
        remedy="Check that the IKE daemon of the other side runs and listens on UDP port {later_icmp_port}, and look for this "
        "time in its log. An error from another address comes from a firewall or router in the path; a NAT answers with "
        "its own address if it has forgotten the connection.",
    ),
    Rule(
        code="admin-prohibited",
        effect=Effect.DISCONNECTED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 1812, 5.2.7.1; RFC 4443, 3.1",
        subject=Subject.REJECTED_LATER_REQUEST,
        when=lambda s: _lost_peer(s) and _has_errors(s.later_errors, IcmpProblem.PROHIBITED),
        sentence=_LOST_LATER
        + ": consistent with a firewall that rejects the packets, although it let those of the set-up "
        "pass.",
        remedy="Look for changes of {later_icmp_sender} and other firewalls in the path at this time, and let UDP ports 500 "
        "and 4500 pass in both directions, also after a time without packets.",
    ),
    Rule(
        code="host-unreachable",
        effect=Effect.DISCONNECTED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 792; RFC 1812, 5.2.7.1; RFC 4443, 3.1 and 3.3",
        subject=Subject.REJECTED_LATER_REQUEST,
        when=lambda s: _lost_peer(s) and _has_errors(s.later_errors, IcmpProblem.UNREACHABLE),
        sentence=_LOST_LATER
        + ": consistent with a host that is down or has left this address, or with a route that is gone.",
        remedy="Check that the host of the other side is up and still has this address, and the routes of "
        "{later_icmp_sender}, which could not deliver the packets.",
    ),
    Rule(
        code="peer-lost",
        effect=Effect.DISCONNECTED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.4",
        subject=Subject.LATER_REQUEST,
        when=_lost_peer,
        sentence="The connection was set up and lost later: the {later_type} request of the {later_by} was sent "
        "{later_sent} and never answered.",
        remedy="Look for this time in the log of the other side: it may have restarted, deleted the IKE SA, changed its "
        "address or port (NAT), or lost its network. An ICMP error in the capture comes from the host that refuses the "
        "packets: after port unreachable of the other side, its host is up, and its IKE daemon does not run.",
    ),
    Rule(
        code="retransmission-storm",
        effect=Effect.SLOWED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.1 and 2.4",
        subject=Subject.REPEATED_REQUEST,
        when=lambda s: s.repeated_sent is not None and s.repeated_sent >= _STORM,
        sentence="Retransmission storm: one message of the set-up was sent {repeated_sent:,} times, and "
        "{retransmitted_bytes:,} bytes of the set-up are retransmissions (blow-up {blowup:.1f}).",
        remedy="The timer is far too short, or it does not back off: RFC 7296, 2.4, wants it to grow exponentially. Set "
        "a first timer above the round-trip time, and a base of at least 1.8.",
    ),
    Rule(
        code="rtt-exceeds-timer",
        effect=Effect.SLOWED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.1 and 2.4; RFC 6298, 2",
        subject=Subject.REPEATED_REQUEST,
        when=lambda s: (
            s.path_rtt_source in ("given", "manifest")
            and s.timer_ns is not None
            and s.path_rtt_ns is not None
            and s.timer_ns < s.path_rtt_ns
        ),
        sentence="The retransmission timer ({timer_ms:,.0f} ms) is shorter than the round trip of the path "
        "({path_rtt_ms:,.0f} ms): requests are repeated although nothing was lost.",
        remedy="Set the first retransmission timer above the round-trip time (strongSwan: retransmit_timeout; libreswan: "
        "retransmit-interval).",
    ),
    Rule(
        code="rtt-exceeds-timer",
        effect=Effect.SLOWED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.1 and 2.4; RFC 6298, 2",
        subject=Subject.REPEATED_REQUEST,
        when=lambda s: (
            s.uncertain is not None
            and s.timer_ns is not None
            and s.timer_ns >= _SHORTEST_TIMER_NS
            and (s.least_gap_ns is None or s.least_gap_ns * _SMALL_PART >= s.timer_ns)
        ),
        sentence="Most requests between these hosts were repeated, and each repeat was answered: consistent with a round "
        "trip that is longer than the retransmission timer ({timer_ms:,.0f} ms), so that nothing was lost.",
        remedy="Set the first retransmission timer above the round-trip time (strongSwan: retransmit_timeout; libreswan: "
        "retransmit-interval). Give --vantage and --rtt for exact times.",
    ),
    Rule(
        code="intermediate-unfragmented",
        effect=Effect.WEAKENED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 9242, 1; RFC 7383, 1",
        subject=Subject.LARGE_MESSAGE,
        when=lambda s: s.large_bytes is not None,
        sentence="IKE_INTERMEDIATE was sent without IKE fragmentation: {large_bytes:,} bytes in IP fragments, "
        "which many networks drop.",
        remedy="Enable IKE fragmentation on both sides (RFC 7383; strongSwan: fragmentation = yes). Both have to announce "
        "IKEV2_FRAGMENTATION_SUPPORTED.",
    ),
    Rule(
        code="intermediate-not-supported",
        effect=Effect.WEAKENED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 9242, 3.1; RFC 9370, 2.2.1",
        subject=Subject.INIT_RESPONSE,
        when=lambda s: _lost_addke(s) and _responder_announces_none(s, _INTERMEDIATE_EXCHANGE_SUPPORTED),
        sentence="The initiator offered an additional key exchange, and the IKE SA has none ({key_exchange} alone). The "
        "responder did not announce IKE_INTERMEDIATE: consistent with one that does not support it, or that allows none of "
        "the offered methods.",
        remedy="If the additional key exchange is for protection against quantum computers, compare the methods that both "
        "sides allow, or update the responder, and let the initiator require one. A responder that supports "
        "IKE_INTERMEDIATE may announce it only if it chose an additional key exchange (strongSwan).",
    ),
    Rule(
        code="addke-left-out",
        effect=Effect.WEAKENED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 9370, 2.2.2; RFC 7296, 2.2",
        subject=Subject.REQUEST,
        when=lambda s: _succeeded(s) and _left_out_addke(s),
        sentence=_ADDKE_LEFT_OUT + ", and the responder accepted that: the keys of the IKE SA do not depend on all of "
        "them.",
        remedy="Each negotiated key exchange must be made before IKE_AUTH, and a responder must not accept less: report "
        "this to the vendors of both sides.",
    ),
    Rule(
        code="addke-not-chosen",
        effect=Effect.WEAKENED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 9370, 2.2.1",
        subject=Subject.INIT_RESPONSE,
        when=_lost_addke,
        sentence="The initiator offered an additional key exchange, and the responder chose a proposal without: the IKE "
        "SA has {key_exchange} alone.",
        remedy="If the additional key exchange is for protection against quantum computers, enable its method on the "
        "responder, and let the initiator require it.",
    ),
    Rule(
        code="ppk-not-supported",
        effect=Effect.WEAKENED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 8784, 3",
        subject=Subject.INIT_RESPONSE,
        when=lambda s: _succeeded(s) and s.encryption is not None and _declined_ppk(s),
        sentence="The initiator offered a post-quantum pre-shared key (PPK), which the responder did not accept: the "
        "keys of the IKE SA do not depend on one.",
        remedy="If the PPK is for protection against quantum computers, configure it on the responder, and let the "
        "initiator require it (strongSwan: ppk_required; libreswan: ppk).",
    ),
)
