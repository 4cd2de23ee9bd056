"""IKE_AUTH from the initiator's side: one exchange, or with EAP as many as it takes (RFC 7296, sections 1.2, 2.15 and 2.16)."""

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from ikeanalyze.crypto.auth import signed_octets
from ikeanalyze.replay.answers import get_notify_name
from ikeanalyze.replay.authentication import (
    InitiatorAuth,
    choose_auth,
    choose_identity,
    make_auth_payload,
    make_shared_key_auth,
    verify_expected_identity,
    verify_responder,
    verify_shared_key_auth,
)
from ikeanalyze.replay.credentials import Credentials, parse_identity
from ikeanalyze.replay.eap import EapPeer
from ikeanalyze.replay.negotiation import InitAcceptance, get_first_error, list_error_notifies
from ikeanalyze.replay.protection import IkeSaKeys
from ikeanalyze.replay.requests import build_auth_payloads
from ikeanalyze.replay.shape import HandshakeShape
from ikeanalyze.replay.states import InitiatorEvent
from ikeanalyze.replay.steps import RefusedError
from ikeanalyze.wire.ikev2.auth_methods import get_authentication_name
from ikeanalyze.wire.ikev2.encode import Payload as Body
from ikeanalyze.wire.ikev2.encode import encode_authentication, encode_identification
from ikeanalyze.wire.ikev2.message import parse_notify
from ikeanalyze.wire.ikev2.payloads import Authentication, parse_authentication, parse_certificate, parse_identification
from ikeanalyze.wire.payload_chain import Payload
from ikeanalyze.wire.registries.ikev2 import NotifyType, PayloadType

_SPI: Final = 4  # bytes, of a CHILD_SA
#: Errors by which a responder says that it has no IKE SA, whatever stands beside them (RFC 7296, section 2.21.2).
_NO_IKE_SA: Final = frozenset(
    {NotifyType.AUTHENTICATION_FAILED, NotifyType.INVALID_SYNTAX, NotifyType.UNSUPPORTED_CRITICAL_PAYLOAD}
)
_Value = TypeVar("_Value")


class IkeAuthExchange:
    """The proofs of both sides, from the first IKE_AUTH request to the last response."""

    own_method: str | None  # how we proved who we are, how the responder did; None: not yet
    peer_method: str | None
    child_error: str | None  # why there is no first CHILD_SA; None: there is one, or none was asked for
    done: bool  # both sides are authenticated
    refused: bool  # we refuse a responder that may think that the IKE SA stands

    def __init__(
        self,
        shape: HandshakeShape,
        credentials: Credentials,
        address: str,
        randomness: Callable[[int], bytes],
        time: dt.datetime | None = None,
    ) -> None:
        """`address`: our own, which is our identity if nothing else is known. `time`: by which certificates have to be valid; None: now.

        Raises `CannotReplayError`.
        """
        self._kind = choose_auth(shape, credentials)
        self._shape = shape
        self._credentials = credentials
        self._address = address
        self._randomness = randomness
        self._time = time
        self._eap: EapPeer | None = None
        self._eap_done = False
        self._octets_i = self._octets_r = b""
        self.own_method = self.peer_method = self.child_error = None
        self.done = self.refused = False

    def begin(
        self,
        protection: IkeSaKeys,
        accepted: InitAcceptance,
        init: tuple[bytes, bytes],
        nonce: bytes,
        message_id: int,
    ) -> list[Body]:
        """Payloads of the first IKE_AUTH request.

        `init`: the last IKE_SA_INIT request and its response. `nonce`: ours. `message_id`: of this request. Raises
        `RefusedError` if the responder does not take what we can sign.
        """
        self._protection = protection
        self._peer_octets_of = init[1], nonce, protection.combined_int_auth(message_id)
        identity = choose_identity(self._kind, self._shape, self._credentials, parse_identity(self._address))
        _, body = encode_identification(PayloadType.IDI, identity.type, identity.data)
        self._octets_i = signed_octets(
            protection.prf, init[0], accepted.nonce, protection.keys.sk_pi, body, self._peer_octets_of[2]
        )
        authentication = None
        if self._kind is not InitiatorAuth.EAP:
            authentication = make_auth_payload(
                self._kind, self._credentials, protection.prf, self._octets_i, accepted.hash_algorithms
            )
            self.own_method = get_authentication_name(authentication)
        spi = b"\1" + self._randomness(_SPI - 1)  # values up to 255 are reserved (RFC 4303, section 2.1)
        return build_auth_payloads(self._shape, self._credentials, identity, authentication, spi)

    def take(self, payloads: Sequence[Payload]) -> tuple[InitiatorEvent, list[Body]]:
        """The next response: what it means, and the payloads of the next request; none when all is proven.

        Raises `RefusedError`, and `WireError` for payloads that cannot be read.
        """
        response = _Response(payloads)
        if response.ended is not None:
            raise RefusedError(response.ended)
        try:
            if self._eap is None:
                return self._first(response)
            if self._eap_done:
                return self._last(response, self._eap)
            return self._round(response, self._eap)
        except RefusedError:
            self.refused = response.authentication is not None
            raise

    def _first(self, response: "_Response") -> tuple[InitiatorEvent, list[Body]]:
        """With the responder's identity, and its own proof. Without one there has to be EAP that gives one (RFC 5998)."""
        response.require(response.identity_body is not None, "the responder does not say who it is")
        assert response.identity_body is not None
        identity = parse_identification(response.identity_body)
        verify_expected_identity(self._credentials, identity)
        protection = self._protection
        init, nonce, combined = self._peer_octets_of
        self._octets_r = signed_octets(
            protection.prf, init, nonce, protection.keys.sk_pr, response.identity_body, combined
        )
        if response.authentication is not None:
            self.peer_method = verify_responder(
                response.authentication,
                response.all(PayloadType.CERT, parse_certificate),
                identity,
                self._credentials,
                protection.prf,
                self._octets_r,
                self._time,
            )
        if self._kind is InitiatorAuth.EAP:
            user, password = self._credentials.eap_identity, self._credentials.eap_password
            self._eap = EapPeer(user or "", password or "", self._shape.eap, self._randomness)
            return self._round(response, self._eap)
        response.require(response.authentication is not None, "the responder does not authenticate itself")
        return self._proven(response)

    def _round(self, response: "_Response", eap: EapPeer) -> tuple[InitiatorEvent, list[Body]]:
        response.require(response.eap is not None, "the responder does not begin or go on with EAP")
        assert response.eap is not None
        try:
            answer = eap.respond(response.eap)
        except RefusedError as problem:
            raise RefusedError(response.error or str(problem)) from None
        if answer is not None:
            return InitiatorEvent.EAP_REQUEST, [(PayloadType.EAP, answer)]
        if self.peer_method is None and eap.key is None:
            raise RefusedError(f"the responder has not authenticated itself, and {eap.method} makes no key")
        self._eap_done = True
        self.own_method = eap.method
        secret = eap.key or self._protection.keys.sk_pi
        own = make_shared_key_auth(self._protection.prf, secret, self._octets_i)
        return InitiatorEvent.EAP_SUCCESS, [encode_authentication(own.method, own.data)]

    def _last(self, response: "_Response", eap: EapPeer) -> tuple[InitiatorEvent, list[Body]]:
        """The responder's proof that it knows what came of EAP."""
        authentication = response.authentication
        response.require(authentication is not None, "the responder sends no AUTH after EAP")
        assert authentication is not None
        secret = eap.key or self._protection.keys.sk_pr
        verify_shared_key_auth(self._protection.prf, secret, self._octets_r, authentication)
        self.peer_method = self.peer_method or eap.method
        return self._proven(response)

    def _proven(self, response: "_Response") -> tuple[InitiatorEvent, list[Body]]:
        if NotifyType.ANOTHER_AUTH_FOLLOWS in response.notifies:
            raise RefusedError("the responder wants to authenticate more than once (RFC 4739)")
        self.done = True
        self.child_error = response.error
        if response.error is None and self._shape.esp_proposals and not response.child:
            self.child_error = "the response has neither an SA payload nor an error"
        return InitiatorEvent.AUTHENTICATED, []


class _Response:
    """An IKE_AUTH response, taken apart. Raises `WireError` where that fails."""

    def __init__(self, payloads: Sequence[Payload]) -> None:
        self._payloads = payloads
        self.identity_body = self._first(PayloadType.IDR)
        self.eap = self._first(PayloadType.EAP)
        auth = self._first(PayloadType.AUTH)
        self.authentication: Authentication | None = None if auth is None else parse_authentication(auth)
        self.notifies = [notify.type for notify in self.all(PayloadType.NOTIFY, parse_notify)]
        self.error = get_first_error(payloads)
        self.ended = next((get_notify_name(kind) for kind in list_error_notifies(payloads) if kind in _NO_IKE_SA), None)
        self.child = self._first(PayloadType.SA) is not None

    def all(self, kind: PayloadType, parse: Callable[[bytes], _Value]) -> list[_Value]:
        """The payloads of a type, read."""
        return [parse(payload.body) for payload in self._payloads if payload.type == kind]

    def require(self, there: bool, lacking: str) -> None:
        """Refuse a response that lacks something, with its error notify as the reason if it has one."""
        if not there:
            raise RefusedError(self.error or lacking)

    def _first(self, kind: PayloadType) -> bytes | None:
        return next((payload.body for payload in self._payloads if payload.type == kind), None)
