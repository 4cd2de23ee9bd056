"""The table of rules, in order of precedence.

Of each effect (stopped, slowed, weakened), the first rule that applies gives the diagnosis, so a rule can rely on the
ones before it. Messages that name the problem come first, then patterns of packets, from the most to the least specific
one. A rule does not claim more than its packets show: where something else could look the same, its confidence is
"consistent with".
"""

from typing import Final

import polars as pl

from ikeanalyze.analysis.handshakes.diagnosis.rule import Confidence, Effect, Rule, Subject

_col = pl.col

#: Every host accepts IP packets of 576 bytes (RFC 1122, 3.3.2), so that paths for smaller ones are no explanation.
_SMALL_BYTES: Final = 600
#: Requests with INVALID_KE_PAYLOAD or COOKIE in the response: one is normal, and another one after both.
_MANY_ROUND_TRIPS: Final = 3

_UNANSWERED: Final = _col("outcome") == "unanswered"
_HALF_OPEN: Final = _col("outcome") == "half-open"
_NO_RESPONSE: Final = _UNANSWERED & (_col("responses") == 0)
_NOT_RECEIVED: Final = _UNANSWERED & (_col("responses") > 0)
_NOT_SET_UP: Final = _col("outcome").is_in(["failed", "unanswered", "half-open", "cut"])


def _reason(*names: str) -> pl.Expr:
    """A failed handshake with one of these reasons."""
    return (_col("outcome") == "failed") & _col("reason").is_in(names)


def _count(notify: str) -> pl.Expr:
    """How many requests the responder refused with this notify; the last one may have had no further request."""
    return _col("extra_round_trips").list.count_matches(notify) + (_col("reason") == notify).fill_null(False)


def _is_large(kind: str) -> pl.Expr:
    """The request or response is larger than any that arrived in its direction, and than what every path carries."""
    size = _col(f"{kind}_bytes")
    return (size > _SMALL_BYTES) & (size > _col(f"{kind}_passed_bytes").fill_null(0))


RULES: Final = (
    Rule(
        code="no-proposal-chosen",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.7 and 3.10.1",
        subject=Subject.RESPONSE,
        when=_reason("NO_PROPOSAL_CHOSEN", "NO-PROPOSAL-CHOSEN"),
        sentence="The responder refused every proposal for the IKE SA with {reason}: {offered}.",
        remedy="Compare the proposals of both configurations transform by transform: encryption, integrity, PRF, key "
        "exchange and each additional key exchange (ADDKE). The responder's log names those that it accepts.",
    ),
    Rule(
        code="auth-failed",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.21.2",
        subject=Subject.RESPONSE,
        when=_reason("AUTHENTICATION_FAILED", "AUTHENTICATION-FAILED"),
        sentence="The authentication in {last_type} failed: {reason}.",
        remedy="Compare both sides' identities (IDi, IDr) and credentials: the pre-shared key, or the certificate, its "
        "validity, its chain and the trusted CAs. The log of the side that refused has the reason.",
    ),
    Rule(
        code="aaa-rejected",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.16; RFC 3748, 4.2; RFC 2865, 4.3",
        subject=Subject.RESPONSE,
        when=_reason("Access-Reject", "EAP failure", "XAUTH_STATUS failure"),
        sentence="The authentication of the initiator's user was rejected ({reason}).",
        remedy="Check user name, password or certificate, and the EAP methods that both allow. The log of the AAA "
        "server has the reason.",
    ),
    Rule(
        code="aaa-silent",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 2865, 2.4; RFC 5080, 2.2.1",
        subject=Subject.REQUEST,
        when=_reason("AAA server silent")
        | (_NOT_SET_UP & (_col("aaa_request_messages") > 1) & (_col("aaa_response_messages").fill_null(0) == 0)),
        sentence="The AAA server {aaa_address} answered none of the {aaa_request_messages:,} RADIUS requests that the "
        "responder sent, so that {last_type} {last_message_id} could not go on.",
        remedy="Check that the AAA server runs, that its address and port are right, that it knows the responder as a "
        "client (an unknown client or a wrong shared secret is ignored without an answer), and the firewall between.",
    ),
    Rule(
        code="error-notify",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 3.10.1",
        subject=Subject.RESPONSE,
        when=(_col("outcome") == "failed") & _col("reason").is_not_null(),
        sentence="The handshake was ended in {last_type} by {reason}.",
        remedy="Look up the notify in RFC 7296, 3.10.1, and the time in the log of the side that sent it.",
    ),
    Rule(
        code="cookie-loop",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.6; RFC 8019, 7",
        subject=Subject.RESPONSE,
        when=_NOT_SET_UP & (_count("COOKIE") >= _MANY_ROUND_TRIPS),
        sentence="The responder asked for a cookie again and again and never accepted the one that it got: "
        "{round_trips} times in a row.",
        remedy="The initiator must return the cookie unchanged, from the same address and port, with the same nonce "
        "and SPI. Look for a NAT or a load balancer that changes the address or sends requests to several gateways.",
    ),
    Rule(
        code="invalid-ke-loop",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 1.2 and 2.7",
        subject=Subject.RESPONSE,
        when=_NOT_SET_UP & (_count("INVALID_KE_PAYLOAD") >= 2),
        sentence="The responder refused the key exchange method of each IKE_SA_INIT request with INVALID_KE_PAYLOAD: "
        "{round_trips} times in a row.",
        remedy="The initiator does not send the method that the responder asks for. Set one key exchange method "
        "that both support as the first one on both sides.",
    ),
    Rule(
        code="fragment-lost-each-time",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7383, 2.6",
        subject=Subject.RESPONSE,
        when=_NOT_RECEIVED & _col("response_missing").is_not_null() & (_col("responses") > 1),
        sentence="{response_missing} of the {last_type} response never arrived: it is in none of the {responses} "
        "transmissions, although the other fragments are, so that the response was never complete.",
        remedy="Something between the responder and the capture point drops this packet each time: a firewall or "
        "intrusion prevention system that inspects it, or a path MTU that it exceeds. Try a smaller fragment size.",
    ),
    Rule(
        code="fragment-lost-each-time",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7383, 2.6",
        subject=Subject.REQUEST,
        when=_NO_RESPONSE & _col("request_missing").is_not_null() & (_col("again") > 0),
        sentence="{request_missing} of the {last_type} request never arrived: it is in none of its transmissions "
        "({sent}), although the other fragments are, so that the responder could not answer.",
        remedy="Something between the initiator and the capture point drops this packet each time: a firewall or "
        "intrusion prevention system that inspects it, or a path MTU that it exceeds. Try a smaller fragment size.",
    ),
    Rule(
        code="path-drops-fragments",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7383, 1; RFC 8900, 3",
        subject=Subject.REQUEST,
        when=_NO_RESPONSE & _col("request_ip_fragmented"),
        sentence="The {last_type} request ({request_bytes:,} bytes in IP fragments) was sent {sent} and never "
        "answered{but_smaller}: consistent with a path that drops IP fragments.",
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
        when=_NOT_RECEIVED & _col("response_ip_fragmented"),
        sentence="The responder answered the {last_type} request ({response_bytes:,} bytes in IP fragments), but the "
        "initiator sent the request {sent}, as if no answer had arrived: consistent with a path that drops IP "
        "fragments.",
        remedy="Use IKE fragmentation on both sides (RFC 7383; strongSwan: fragmentation = yes) with a fragment size "
        "below the path MTU, or let firewalls and NATs pass IP fragments.",
    ),
    Rule(
        code="large-packets-lost",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7383, 2.5.2; RFC 4821, 1",
        subject=Subject.REQUEST,
        when=_NO_RESPONSE & _is_large("request") & (_col("answered") > 0),
        sentence="Small packets pass, large ones do not: the {last_type} request (packets of up to {request_bytes:,} "
        "bytes) was sent {sent} and never answered, but requests of up to {request_passed_bytes:,} bytes were.",
        remedy="The path may carry only smaller packets than the hosts believe (path MTU) and drop the others without "
        "an ICMP message. Try a smaller IKE fragment size, as 576 or 1,000 bytes (strongSwan: fragment_size), and test "
        "the path with ping -M do -s SIZE.",
    ),
    Rule(
        code="large-packets-lost",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7383, 2.5.2; RFC 4821, 1",
        subject=Subject.RESPONSE,
        when=_NOT_RECEIVED & _is_large("response") & (_col("answered") > 0),
        sentence="Small packets pass, large ones do not: the responder answered {last_type} with packets of up to "
        "{response_bytes:,} bytes, but the initiator sent its request {sent}, as if no answer had arrived. Responses of "
        "up to {response_passed_bytes:,} bytes did arrive.",
        remedy="The path may carry only smaller packets than the hosts believe (path MTU) and drop the others without "
        "an ICMP message. Try a smaller IKE fragment size, as 576 or 1,000 bytes (strongSwan: fragment_size), and test "
        "the path with ping -M do -s SIZE.",
    ),
    Rule(
        code="udp-4500-blocked",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.23; RFC 3948, 2",
        subject=Subject.REQUEST,
        when=_NO_RESPONSE & _col("on_4500") & ~_col("passed_4500") & (_col("answered") > 0),
        sentence="The handshake stops where it changes to UDP port 4500: the {last_type} request was sent {sent} on that "
        "port and never answered, and the responder sent nothing from it in the whole capture.",
        remedy="Let UDP port 4500 pass in both directions, on firewalls and NATs, and check that the responder listens "
        "on it.",
        also=True,
    ),
    Rule(
        code="one-way",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.1",
        subject=Subject.RESPONSE,
        when=_NOT_RECEIVED,
        sentence="The responder answered the {last_type} request, but the initiator sent it {sent}, as if no answer "
        "had arrived: packets pass in one direction only.",
        remedy="Check the way back: the responder's route and source address, firewall state, NAT, and filters for the "
        "source port. Capture on the initiator's side to see whether the responses arrive there.",
    ),
    Rule(
        code="responder-silent",
        effect=Effect.STOPPED,
        confidence=Confidence.CONSISTENT,
        rfc="RFC 7296, 2.1 and 2.4",
        subject=Subject.REQUEST,
        when=_NO_RESPONSE & (_col("answered") == 0),
        sentence="{responder_address} answered nothing: the {last_type} request was sent {sent}, and no response is in "
        "the capture.",
        remedy="Check the address, that an IKE daemon listens on UDP port {responder_port}, and that firewalls pass it "
        "in both directions. Some responders do not answer addresses that they have no configuration for.",
    ),
    Rule(
        code="request-unanswered",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.1 and 2.4",
        subject=Subject.REQUEST,
        when=_NO_RESPONSE,
        sentence="The responder stopped answering: the {last_type} request was sent {sent} without any response, after "
        "{answered} answered exchanges.",
        remedy="Look for this time in the responder's log: it may have dropped the request (as one that it cannot "
        "decrypt), waited for another system, or not received it.",
    ),
    Rule(
        code="cookie-not-returned",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.6",
        subject=Subject.RESPONSE,
        when=_HALF_OPEN & (_col("reason") == "COOKIE"),
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
        when=_HALF_OPEN & (_col("reason") == "INVALID_KE_PAYLOAD"),
        sentence="The responder asked for another key exchange method, and the initiator did not try again with it.",
        remedy="The initiator may not support or allow that method. Set a method that both support as the first one.",
    ),
    Rule(
        code="initiator-silent",
        effect=Effect.STOPPED,
        confidence=Confidence.CERTAIN,
        rfc="RFC 7296, 2.1",
        subject=Subject.RESPONSE,
        when=_HALF_OPEN,
        sentence="The initiator went silent: it did not continue after the response to {last_type} "
        "{last_message_id}, although the capture goes on.",
        remedy="Look for this time in the initiator's log: it may have refused the response, given up, or not received "
        "it. If the capture was taken at the responder, its next request may also have been lost on the way, as large "
        "packets are on a path that drops them.",
    ),
)
