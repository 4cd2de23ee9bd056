"""Answers the requests of an EAP server with EAP-MD5 or EAP-MSCHAPv2.

RFC 3748, section 5.4; draft-kamath-pppext-eap-mschapv2. No I/O: `EapPeer` takes packets and returns packets.
"""

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

#: Supported methods, with their names in the report.
METHODS: Final = {EapType.MD5: EapType.MD5.label, EapType.MSCHAPV2: EapType.MSCHAPV2.label}

_HEADER_BYTES: Final = 4  # code, identifier, length: of EAP packets, and again of the EAP-MSCHAPv2 data in them
_CHALLENGE_BYTES: Final = 16
_CHALLENGE_CODE, _RESPONSE_CODE, _SUCCESS_CODE, _FAILURE_CODE = 1, 2, 3, 4  # op codes of EAP-MSCHAPv2
_RESERVED: Final = bytes(8)
_NO_FLAGS: Final = b"\0"
_NO_METHOD: Final = b"\0"  # in a Nak: no alternative (RFC 3748, section 5.3.1)
_PROOF_CHARS: Final = 42  # "S=" and 40 hex digits


class EapPeer:
    """One EAP conversation. `method` and `key` are its results after EAP success."""

    def __init__(self, identity: str, password: str, only: str | None, randomness: Callable[[int], bytes]) -> None:
        """`only`: the only method to accept, by name; None: any. `randomness`: returns N random bytes."""
        self._identity, self._password = identity, password
        self._only = only
        self._randomness = randomness
        self._proof: str | None = None  # authenticator response that the server must send
        self._proven = False  # the server has sent it
        self.method: str | None = None  # the latest method, such as EAP-MSCHAPv2; None: none yet
        self.key: bytes | None = None  # MSK; None: the method does not derive a key

    def respond(self, packet: bytes) -> bytes | None:
        """Return the response to a packet; None after EAP success.

        Raises:
            RefusedError: the packet is invalid, or authentication failed.
            Md4MissingError: the library that EAP-MSCHAPv2 needs is not installed.
        """
        header = parse_eap_header(packet)
        if header is None or header.length > len(packet) or header.length < _HEADER_BYTES:
            raise RefusedError("invalid EAP packet")
        if header.code == EapCode.SUCCESS:
            if self.method is None or (self._proof is not None and not self._proven):
                raise RefusedError("EAP success before the method finished")
            return None
        if header.code == EapCode.FAILURE:
            raise RefusedError("EAP failure")
        if header.code != EapCode.REQUEST or header.type is None:
            raise RefusedError("an EAP packet that is not a request")
        data = packet[_HEADER_BYTES + 1 : header.length]
        eap_type, answer = self._answer(header.type if not header.vendor else EapType.EXPANDED, header.identifier, data)
        return encode_eap(EapCode.RESPONSE, header.identifier, eap_type, answer)

    def _answer(self, eap_type: int, identifier: int, data: bytes) -> tuple[int, bytes]:
        """Return the type and data of the response to a request."""
        if eap_type == EapType.IDENTITY:
            return eap_type, self._identity.encode()
        if eap_type == EapType.NOTIFICATION:
            return eap_type, b""
        allowed = {number for number, name in METHODS.items() if self._only in (None, name)}
        if eap_type not in allowed:
            return EapType.NAK, bytes(sorted(allowed, reverse=True)) or _NO_METHOD
        self.method = METHODS[EapType(eap_type)]
        try:
            if eap_type == EapType.MD5:
                return eap_type, self._answer_md5(identifier, data)
            return eap_type, self._answer_mschapv2(data)
        except WireError as error:
            raise RefusedError(f"invalid {self.method} request: {error}") from None

    def _answer_md5(self, identifier: int, data: bytes) -> bytes:
        """Answer as in CHAP (RFC 1994, section 4.1), which does not authenticate the server or derive a key."""
        cursor = Cursor(data)
        challenge = cursor.read_bytes(cursor.read_uint8())
        value = hashlib.md5(bytes([identifier]) + self._password.encode() + challenge, usedforsecurity=False).digest()
        self._proof = self.key = None
        return bytes([len(value)]) + value  # without a name, as strongSwan sends it: the server has the identity

    def _answer_mschapv2(self, data: bytes) -> bytes:
        """Return the data of the response to a challenge, to success or to failure."""
        cursor = Cursor(data)
        code, identifier = cursor.read_uint8(), cursor.read_uint8()
        cursor.skip(2)  # the length, which the EAP header implies
        if code == _CHALLENGE_CODE:
            challenge = cursor.read_bytes(cursor.read_uint8())
            if len(challenge) != _CHALLENGE_BYTES:
                raise RefusedError(f"a challenge of {len(challenge)} bytes instead of {_CHALLENGE_BYTES}")
            return self._answer_challenge(identifier, challenge)
        if code == _SUCCESS_CODE:
            received = cursor.read_remaining()[:_PROOF_CHARS]
            if self._proof is None or not hmac.compare_digest(received.upper(), self._proof.encode()):
                raise RefusedError("the server of EAP-MSCHAPv2 does not know the password")
            self._proven = True
            return bytes([_SUCCESS_CODE])
        if code == _FAILURE_CODE:
            # no retry: no other password is available
            return bytes([_FAILURE_CODE])
        raise RefusedError(f"an EAP-MSCHAPv2 request with the unknown code {code}")

    def _answer_challenge(self, identifier: int, challenge: bytes) -> bytes:
        """Answer a challenge, and set the key and the proof that the server must send next."""
        peer_challenge = self._randomness(_CHALLENGE_BYTES)
        user, password = self._identity, self._password
        value = mschapv2.nt_response(challenge, peer_challenge, user, password)
        self._proof = mschapv2.authenticator_response(challenge, peer_challenge, user, password, value)
        self._proven = False
        self.key = mschapv2.master_session_key(password, value)
        body = peer_challenge + _RESERVED + value + _NO_FLAGS
        name = user.encode()
        size = _HEADER_BYTES + 1 + len(body) + len(name)
        return bytes([_RESPONSE_CODE, identifier]) + size.to_bytes(2) + bytes([len(body)]) + body + name
