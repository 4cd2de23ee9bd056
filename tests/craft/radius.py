"""RADIUS packets (RFC 2865) with EAP in them (RFC 3579); authenticators are right for the secret."""

import hashlib
import hmac
import struct
from collections.abc import Sequence
from random import Random

ACCESS_REQUEST, ACCESS_ACCEPT, ACCESS_REJECT, ACCESS_CHALLENGE = 1, 2, 3, 11

USER_NAME, NAS_IP_ADDRESS, NAS_PORT, STATE, CALLED_STATION_ID, CALLING_STATION_ID = 1, 4, 5, 24, 30, 31
NAS_IDENTIFIER, NAS_PORT_TYPE, EAP_MESSAGE, MESSAGE_AUTHENTICATOR = 32, 61, 79, 80

SECRET = b"testing123"

Attribute = tuple[int, bytes]


def eap_message(packet: bytes) -> list[Attribute]:
    """As many EAP-Message attributes as it needs."""
    return [(EAP_MESSAGE, packet[at : at + 253]) for at in range(0, len(packet), 253)]


def _build(code: int, identifier: int, authenticator: bytes, attributes: Sequence[Attribute]) -> bytes:
    body = b"".join(bytes([kind, 2 + len(value)]) + value for kind, value in attributes)
    return struct.pack(">BBH", code, identifier, 20 + len(body)) + authenticator + body


def _signed(packet: bytes, secret: bytes) -> bytes:
    """With the Message-Authenticator filled in, which must be the last attribute."""
    return packet[:-16] + hmac.digest(secret, packet, "md5")


def access_request(
    identifier: int,
    eap: bytes,
    rng: Random,
    *,
    state: bytes | None = None,
    user: bytes = b"user@example.org",
    more: Sequence[Attribute] = (),
    secret: bytes = SECRET,
) -> bytes:
    listed: list[Attribute] = [(USER_NAME, user), (NAS_IDENTIFIER, b"gateway"), *more, *eap_message(eap)]
    if state is not None:
        listed.append((STATE, state))
    listed.append((MESSAGE_AUTHENTICATOR, bytes(16)))
    return _signed(_build(ACCESS_REQUEST, identifier, rng.randbytes(16), listed), secret)


def answer(
    request: bytes,
    code: int,
    eap: bytes,
    *,
    state: bytes | None = None,
    more: Sequence[Attribute] = (),
    secret: bytes = SECRET,
) -> bytes:
    """The response to `request`: Access-Challenge, -Accept or -Reject by `code`."""
    listed = [*more, *eap_message(eap)]
    if state is not None:
        listed.append((STATE, state))
    listed.append((MESSAGE_AUTHENTICATOR, bytes(16)))
    packet = _signed(_build(code, request[1], request[4:20], listed), secret)
    return packet[:4] + hashlib.md5(packet + secret).digest() + packet[20:]


def challenge(request: bytes, eap: bytes, state: bytes, *, secret: bytes = SECRET) -> bytes:
    return answer(request, ACCESS_CHALLENGE, eap, state=state, secret=secret)


def accept(request: bytes, eap: bytes, *, more: Sequence[Attribute] = (), secret: bytes = SECRET) -> bytes:
    return answer(request, ACCESS_ACCEPT, eap, more=more, secret=secret)


def reject(request: bytes, eap: bytes, *, secret: bytes = SECRET) -> bytes:
    return answer(request, ACCESS_REJECT, eap, secret=secret)
