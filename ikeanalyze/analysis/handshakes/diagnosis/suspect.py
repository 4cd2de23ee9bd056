"""A handshake that the rules of the diagnosis look at: its row of the handshakes table, and facts about its packets."""

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from ikeanalyze.analysis.handshakes.outcome import OutcomeName
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

_COOKIE: Final = NotifyType.COOKIE.label
_INVALID_KE_PAYLOAD: Final = NotifyType.INVALID_KE_PAYLOAD.label


class IcmpFacts(Struct, frozen=True):
    """Facts about the ICMP errors of the most frequent problem, for the request or the response of an exchange."""

    problem: str  # an `IcmpProblem`
    description: str  # '192.0.2.2 (the destination) returned the ICMP error "port unreachable" (packet 2)'
    sender: str  # of the first error
    bytes: int  # of the largest quoted IP packet
    port: int  # UDP port that the quoted datagram was sent to
    path_mtu: str  # "a path MTU of 1,400 bytes": the smallest one that errors name
    frames: Sequence[int]  # numbers of the first packets with these errors


class DecryptedFacts(Struct, frozen=True):
    """Facts from decrypted payloads; None: there is no such payload, or it was not decrypted."""

    initiator_identity: str | None = None  # IDi
    wanted_identity: str | None = None  # IDr of the request: the responder that the initiator wants
    responder_identity: str | None = None  # IDr of the response
    rejected_by: Literal["initiator", "responder"] | None = None  # who sent AUTHENTICATION_FAILED
    refusing_exchange: int | None = None  # row of the exchange of IKEv1 with an error notify
    eap_failed: str | None = None  # "EAP failure"
    certificate_problem: str | None = None  # "the responder's certificate CN=gw.example expired on 2026-01-31, ..."
    selectors: str | None = None  # requested for the CHILD_SA: "10.1.0.0/16 to 10.2.0.0/16"
    child_offered: str | None = None  # proposals for the CHILD_SA
    redirect_gateway: str | None = None  # to which a REDIRECT of the responder leads: address or name


class RefusedRequest(Struct, frozen=True):
    """A CREATE_CHILD_SA or IKE_FOLLOWUP_KE request after the set-up, or a quick mode of IKEv1, that was refused.

    No later one made up for it.

    See `refused_requests` and `refused_quick_modes`. None: it was not decrypted, or there is none.
    """

    exchange: int  # row of the exchange
    type: str
    sender: str  # "initiator" or "responder" of the IKE SA
    by: str  # who refused it
    count: int  # such refusals with the same notify
    refusing_exchange: int | None = None  # row of the Informational exchange that refused it; None: the response did
    response_bytes: int | None = None  # length of the IKE message
    notify: str | None = None  # error notify
    purpose: str | None = None  # a `refused_requests.Purpose`
    wanted_method: str | None = None  # that INVALID_KE_PAYLOAD asks for
    offered: str | None = None  # proposals
    selectors: str | None = None  # requested for the CHILD_SA or IPsec SA: "10.1.0.0/16 to 10.2.0.0/16"
    #: A proposal for the CHILD_SA differs from the one that IKE_AUTH agreed on in nothing but key exchanges.
    differs_in_key_exchange: bool = False


NOTHING_DECRYPTED: Final = DecryptedFacts()


class Suspect(Struct, frozen=True):
    """A handshake that a rule may concern. None: not known, or there is none.

    "Last" is the last exchange of its set-up, and "later" the last exchange after the set-up.
    """

    # of the handshakes table (see `layouts.HANDSHAKES`)
    protocol: Literal["IKEv2", "IKEv1", "HIP"]
    responder_address: str
    responder_port: int | None
    nat: Literal["none", "initiator", "responder", "both"] | None
    outcome: OutcomeName | None
    reason: str | None
    auth_initiator: str | None
    encryption: str | None
    prf: str | None
    integrity: str | None
    key_exchange: str | None
    additional_key_exchanges: Sequence[Any] | None
    offered: Sequence[str] | None
    initiator_supports: Sequence[str] | None
    responder_supports: Sequence[str] | None
    initiator_init_truncated: bool | None
    responder_init_truncated: bool | None
    aaa_address: str | None
    aaa_request_messages: int | None
    aaa_response_messages: int | None
    aaa_retransmitted_messages: int | None
    after_setup_initiator_messages: int
    after_setup_responder_messages: int
    vantage: str
    path_rtt_ns: int | None
    path_rtt_source: str | None
    uncertain: str | None
    retransmitted_bytes: int
    blowup: float | None
    extra_round_trips: Sequence[str]
    child_error: str | None

    # of the last exchange
    last_type: str | None
    last_by: Literal["initiator", "responder"]  # who sent its request: of XAuth (IKEv1), the responder
    last_message_id: int
    message_id_before: int | None  # of the exchange before it
    sent: str  # how often its request was sent: "once", "4 times in 12.1 s", "at least once"
    again: int | None  # retransmissions of its request
    on_4500: bool  # it uses UDP port 4500
    unprotected: bool  # it has responses, and none is encrypted
    responses: int  # transmissions of its response
    request_bytes: int  # of the largest datagram on the wire, with all its IP fragments; 0: no request
    response_bytes: int
    request_ip_fragmented: bool
    response_ip_fragmented: bool
    request_missing: str | None  # "fragment 2 of 2": IKE fragments that are in no transmission
    response_missing: str | None
    request_passed_bytes: int | None  # largest datagram of the same direction that arrived before
    response_passed_bytes: int | None
    response_ike_bytes: int | None  # length of the IKE message, if it is a short IKE_AUTH response
    ignored: int | None  # transmissions of its request after the first one of its response
    answered: int  # exchanges before the last one
    auth_exchanges: int  # IKE_AUTH exchanges; several are EAP
    passed_sent: int | None  # transmissions of the one of the requests before that was sent most often
    informationals: int  # Informational messages of IKEv1 that the receiver of its request sent after that began

    # of other exchanges of the set-up
    first_auth_id: int | None  # least message ID of an IKE_AUTH exchange
    repeated_sent: int | None  # transmissions of the request of the set-up that was sent most often
    #: Median of the times between the first two transmissions of each repeated request; None: none was repeated.
    timer_ns: int | None
    #: Least time from the last response to a repeated request to the next request; None: there is none.
    least_gap_ns: int | None
    slow_rtt_ns: int | None  # greatest round-trip time of an exchange without retransmissions
    large_bytes: int | None  # largest IKE_INTERMEDIATE message without IKE fragmentation, in IP fragments

    # of the exchanges after the set-up
    next_message_id: int | None  # least message ID of a request of the initiator

    # of the last exchange after the set-up
    later_type: str | None
    later_by: Literal["initiator", "responder"] | None  # who sent its request
    later_sent: str | None
    later_again: int | None
    later_ended: bool | None
    later_unprotected: bool | None
    later_heard: bool | None  # its receiver sent something after its first transmission
    later_ip_fragmented: bool | None
    later_idle_ns: int | None  # from the last message of its receiver before it to its first transmission

    # of other exchanges after the set-up
    refused: RefusedRequest | None

    # of the capture
    step_back_ns: int  # by which time stamps go back between two of its packets; 0: they do not
    aaa_rejected: bool  # the AAA server sent an Access-Reject
    accepted: str | None  # the proposal that the responder accepted first, in any handshake of the capture
    wanted_method: str | None  # key exchange method of the last INVALID_KE_PAYLOAD
    passed_4500: bool  # the responder sent something from port 4500, in any handshake of the capture
    has_port_4500: bool  # the capture has an IKE message on UDP port 4500
    redirected: bool  # the initiator then told another gateway that this responder had redirected it

    request_errors: IcmpFacts | None
    response_errors: IcmpFacts | None
    later_errors: IcmpFacts | None  # about the request of the last exchange after the set-up
    decrypted: DecryptedFacts

    @property
    def cookies(self) -> int:
        """How many of the last IKE_SA_INIT requests in a row the responder refused with COOKIE.

        One that refuses the key exchange method has accepted the cookie before (RFC 7296, 2.6.1).
        """
        refusals = self._list_refusals()
        return next((place for place, notify in enumerate(reversed(refusals)) if notify != _COOKIE), len(refusals))

    @property
    def refused_methods(self) -> int:
        """How many IKE_SA_INIT requests the responder refused with INVALID_KE_PAYLOAD."""
        return self._list_refusals().count(_INVALID_KE_PAYLOAD)

    def _list_refusals(self) -> list[str]:
        """The notifies that asked for another request, in order; the last one may have had no further request."""
        return [*self.extra_round_trips, *([self.reason] if self.reason in (_COOKIE, _INVALID_KE_PAYLOAD) else [])]

    @property
    def response_room(self) -> int | None:
        """Bytes for payloads and padding in the last response, if it is short: without headers, IV, pad length, ICV."""
        if self.response_ike_bytes is None:
            return None
        return get_message_room(self.response_ike_bytes, self.encryption, self.integrity)

    @property
    def auth_room(self) -> int:
        """Least bytes of an identity and an AUTH payload in a response: two payload headers with 4 more bytes each, and
        the output of the PRF.

        Identities may be empty (RFC 7619, 2.2). AUTH of pre-shared keys, of the key of an EAP method and of NULL
        authentication is the output of the PRF (RFC 7296, 2.15 and 2.16; RFC 7619, 2.1). Signatures have 64 bytes or
        more, as many as the longest output of a PRF (apart from DSS with SHA-1, which RFC 8247, 3.1, advises against).
        """
        return 8 + self.auth_payload_room

    @property
    def auth_payload_room(self) -> int:
        """Least bytes of an AUTH payload: see `auth_room`."""
        return 8 + get_prf_bytes(self.prf)


#: Bytes of the output of the PRFs whose names do not tell them; others are AES with blocks of 16 bytes.
_PRF_BYTES: Final = {"HMAC-MD5": 16, "HMAC-SHA1": 20, "HMAC-TIGER": 24}


def get_prf_bytes(prf: str | None) -> int:
    """Bytes of the output of a PRF by its name, such as HMAC-SHA2-256; of an unknown one those of the shortest."""
    bits = None if prf is None else re.search(r"^HMAC-.*-(\d+)$", prf)
    return _PRF_BYTES.get(prf or "", 16) if bits is None else int(bits[1]) // 8


def get_message_room(ike_bytes: int, encryption: str | None, integrity: str | None) -> int | None:
    """Bytes for payloads and padding in an encrypted message: without headers, IV, pad length, ICV; None: unknown."""
    tag = get_tag_bytes(encryption, integrity)
    if tag is None:
        return None
    vector = 16 if encryption is not None and "CBC" in encryption else 8
    return ike_bytes - (28 + 4 + 1) - vector - tag


def get_tag_bytes(encryption: str | None, integrity: str | None) -> int | None:
    """Bytes of the ICV of encrypted messages, by the names of the algorithms: AES-GCM-16-256, HMAC-SHA2-256-128."""
    if encryption is not None:
        combined = re.search(r"-(?:GCM|CCM)-(\d+)", encryption)
        if combined:
            return int(combined[1])
        if encryption.startswith("CHACHA20"):
            return 16
    bits = None if integrity is None else re.search(r"-(\d+)$", integrity)
    return None if bits is None else int(bits[1]) // 8
