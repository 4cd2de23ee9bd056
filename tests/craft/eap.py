"""EAP packets (RFC 3748), as RADIUS carries them in the clear."""

import struct

REQUEST, RESPONSE, SUCCESS, FAILURE = 1, 2, 3, 4
IDENTITY, NAK, MD5, TLS, TTLS, PEAP, MSCHAPV2 = 1, 3, 4, 13, 21, 25, 26


def eap(code: int, identifier: int, kind: int | None = None, data: bytes = b"") -> bytes:
    """`kind`: the type of a request or response; success and failure have none."""
    body = b"" if kind is None else bytes([kind]) + data
    return struct.pack(">BBH", code, identifier, 4 + len(body)) + body
