"""Answers the requests of an EAP server with EAP-MD5, EAP-MSCHAPv2 or EAP-AKA.

RFC 3748, section 5.4; draft-kamath-pppext-eap-mschapv2; `aka_peer` for EAP-AKA.
No I/O: `EapPeer` takes packets and returns packets.
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import Final

from ikeanalyze.crypto import mschapv2
from ikeanalyze.crypto.aka.milenage import Milenage
from ikeanalyze.replay.initiator.aka_peer import AkaPeer
from ikeanalyze.replay.initiator.interface import RefusedError
from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.eap.packet import parse_eap_header
from ikeanalyze.wire.ikev2.encode import encode_eap
from ikeanalyze.wire.registries.eap import EapCode, EapType

#: Supported methods, with their names in the report.
METHODS: Final = {kind: kind.label for kind in (EapType.MD5, EapType.MSCHAPV2, EapType.AKA)}

_HEADER_BYTES: Final = 4  # code, identifier, length: of EAP packets, and again of the EAP-MSCHAPv2 data in them
_CHALLENGE_BYTES: Final = 16
_CHALLENGE_CODE, _RESPONSE_CODE, _SUCCESS_CODE, _FAILURE_CODE = 1, 2, 3, 4  # op codes of EAP-MSCHAPv2
_RESERVED: Final = bytes(8)
_NO_FLAGS: Final = b"\0"
_NO_METHOD: Final = b"\0"  # in a Nak: no alternative (RFC 3748, section 5.3.1)
_PROOF_CHARS: Final = 42  # "S=" and 40 hex digits


class EapPeer:
    """One EAP conversation. `method` and `key` are its results after EAP success."""

    def __init__(
        self,
        identity: str,
        password: str | None,
        only: str | None,
        randomness: Callable[[int], bytes],
        *,
        milenage: Milenage | None = None,
    ) -> None:
        """Accept the methods for which there is a secret.

        `password`: for EAP-MD5 and EAP-MSCHAPv2. `only`: the only method to accept, by name; None: any. `randomness`:
        returns N random bytes. `milenage`: for EAP-AKA.
        """
        self._identity, self._password = identity, password or ""
        self._aka = AkaPeer(identity, milenage) if milenage is not None else None
        possible = {EapType.AKA: milenage is not None}
        self._allowed = {
            kind: name
            for kind, name in METHODS.items()
            if only in (None, name) and possible.get(kind, password is not None)
        }
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
            if not self._is_finished():
                raise RefusedError("EAP success before the method finished")
            return None
        if header.code == EapCode.FAILURE:
            aka_problem = self._aka.problem if self._aka is not None else None
            raise RefusedError(aka_problem or "EAP failure")
        if header.code != EapCode.REQUEST or header.type is None:
            raise RefusedError("an EAP packet that is not a request")
        data = packet[_HEADER_BYTES + 1 : header.length]
        eap_type, answer = self._answer(header.type if not header.vendor else EapType.EXPANDED, header.identifier, data)
        return encode_eap(EapCode.RESPONSE, header.identifier, eap_type, answer)

    def _is_finished(self) -> bool:
        """Whether a method has finished, and the server has proven that it knows our secret if the method has that."""
        if self.method == EapType.AKA.label:
            return self.key is not None
        return self.method is not None and (self._proof is None or self._proven)

    def _answer(self, eap_type: int, identifier: int, data: bytes) -> tuple[int, bytes]:
        """Return the type and data of the response to a request."""
        if eap_type == EapType.IDENTITY:
            return eap_type, self._identity.encode()
        if eap_type == EapType.NOTIFICATION:
            return eap_type, b""
        if eap_type not in self._allowed:
            return EapType.NAK, bytes(sorted(self._allowed, reverse=True)) or _NO_METHOD
        self.method = METHODS[EapType(eap_type)]
        try:
            if eap_type == EapType.MD5:
                return eap_type, self._answer_md5(identifier, data)
            if eap_type == EapType.AKA and self._aka is not None:
                answer = self._aka.respond(identifier, data)
                self.key = self._aka.key
                return eap_type, answer
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
