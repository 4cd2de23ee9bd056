"""EAP as the peer, with EAP-MD5 (RFC 3748, section 5.4) and EAP-MSCHAPv2 (draft-kamath-pppext-eap-mschapv2): packets in, packets out."""

import hashlib
import hmac
from collections.abc import Callable
from typing import Final

from ikeanalyze.crypto import mschapv2
from ikeanalyze.replay.initiator.interface import RefusedError
from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.eap.packet import parse_eap_header
from ikeanalyze.wire.ikev2.encode import encode_eap
from ikeanalyze.wire.registries.eap import EapCode, EapType

#: Names of what can be done, as the report has them.
METHODS: Final = {EapType.MD5: EapType.MD5.label, EapType.MSCHAPV2: EapType.MSCHAPV2.label}

_HEADER: Final = 4
_CHALLENGE: Final = 16
_CHALLENGES, _SUCCESS, _FAILURE = 1, 3, 4  # op codes of EAP-MSCHAPv2, a response is 2
_RESPONSE: Final = 2
_NT_RESPONSE: Final = 24
_RESERVED: Final = bytes(8)
_PROOF: Final = 42  # characters of S= and 40 hex digits


class EapPeer:
    """One conversation. `method` and `key` tell what it came to, once the server has said success."""

    __slots__ = (
        "_identity",
        "_only",
        "_password",
        "_proof",
        "_proven",
        "_randomness",
        "key",
        "method",
    )

    method: str | None  # the method that ran last: EAP-MSCHAPv2; None: none yet
    key: bytes | None  # MSK; None: the method makes none

    def __init__(self, identity: str, password: str, only: str | None, randomness: Callable[[int], bytes]) -> None:
        """`only`: the one method to be run, by name; None: whichever the server asks for and we can do."""
        self._identity = identity
        self._password = password
        self._only = only
        self._randomness = randomness
        self._proof: str | None = None  # what the server of EAP-MSCHAPv2 has to show
        self._proven = False
        self.method = None
        self.key = None

    def respond(self, packet: bytes) -> bytes | None:
        """The response to a packet; None: it was success, and there is none.

        Raises `RefusedError`, and `keys.mschapv2.Md4MissingError` where EAP-MSCHAPv2 lacks its library.
        """
        view = parse_eap_header(packet)
        if view is None or view.length > len(packet) or view.length < _HEADER:
            raise RefusedError("an EAP packet that cannot be read")
        if view.code == EapCode.SUCCESS:
            if self.method is None or (self._proof is not None and not self._proven):
                raise RefusedError("EAP success without its method having come to its end")
            return None
        if view.code == EapCode.FAILURE:
            raise RefusedError("EAP failure")
        if view.code != EapCode.REQUEST or view.type is None:
            raise RefusedError("an EAP packet that is no request")
        data = packet[_HEADER + 1 : view.length]
        answer = self._answer(view.type if not view.vendor else EapType.EXPANDED, view.identifier, data)
        return encode_eap(EapCode.RESPONSE, view.identifier, *answer)

    def _answer(self, kind: int, identifier: int, data: bytes) -> tuple[int, bytes]:
        """Type and data of the response."""
        if kind == EapType.IDENTITY:
            return kind, self._identity.encode()
        if kind == EapType.NOTIFICATION:
            return kind, b""
        wanted = {number for number, name in METHODS.items() if self._only in (None, name)}
        if kind not in wanted:
            return EapType.NAK, bytes(sorted(wanted, reverse=True)) or b"\0"
        self.method = METHODS[EapType(kind)]
        try:
            if kind == EapType.MD5:
                return kind, self._md5(identifier, data)
            return kind, self._mschapv2(data)
        except WireError as problem:
            raise RefusedError(f"a request of {self.method} that cannot be read: {problem}") from None

    def _md5(self, identifier: int, data: bytes) -> bytes:
        """CHAP's (RFC 1994, section 4.1): it proves nothing of the server and makes no key."""
        cursor = Cursor(data)
        challenge = cursor.get_bytes(cursor.get_uint8())
        value = hashlib.md5(bytes([identifier]) + self._password.encode() + challenge, usedforsecurity=False).digest()
        self._proof = self.key = None
        return bytes([len(value)]) + value  # without a name, as strongSwan: the identity was said

    def _mschapv2(self, data: bytes) -> bytes:
        cursor = Cursor(data)
        code, identifier = cursor.get_uint8(), cursor.get_uint8()
        cursor.skip(2)  # the length once more
        if code == _CHALLENGES:
            challenge = cursor.get_bytes(cursor.get_uint8())
            if len(challenge) != _CHALLENGE:
                raise RefusedError(f"a challenge of {len(challenge)} bytes instead of {_CHALLENGE}")
            return self._response(identifier, challenge)
        if code == _SUCCESS:
            shown = cursor.get_remaining()[:_PROOF]
            if self._proof is None or not hmac.compare_digest(shown.upper(), self._proof.encode()):
                raise RefusedError("the server of EAP-MSCHAPv2 does not know the password")
            self._proven = True
            return bytes([_SUCCESS])
        if code == _FAILURE:
            # what the server says about a retry is for people: another password is not at hand
            return bytes([_FAILURE])
        raise RefusedError(f"a request of EAP-MSCHAPv2 with the unknown code {code}")

    def _response(self, identifier: int, challenge: bytes) -> bytes:
        """The response to a challenge; what the server has to show afterwards, and the key, go with it."""
        own = self._randomness(_CHALLENGE)
        user, password = self._identity, self._password
        value = mschapv2.nt_response(challenge, own, user, password)
        self._proof = mschapv2.authenticator_response(challenge, own, user, password, value)
        self._proven = False
        self.key = mschapv2.master_session_key(password, value)
        body = own + _RESERVED + value + b"\0"
        name = user.encode()
        size = _HEADER + 1 + len(body) + len(name)
        return bytes([_RESPONSE, identifier]) + size.to_bytes(2) + bytes([len(body)]) + body + name
