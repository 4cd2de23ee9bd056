"""EAP packets (RFC 3748), as RADIUS carries them in the clear."""

import struct

REQUEST, RESPONSE, SUCCESS, FAILURE = 1, 2, 3, 4
IDENTITY, NAK, MD5, TLS, TTLS, PEAP, AKA, MSCHAPV2, AKA_PRIME = 1, 3, 4, 13, 21, 25, 23, 26, 50

# subtypes and attributes of EAP-AKA (RFC 4187, section 11)
AKA_CHALLENGE, AKA_IDENTITY = 1, 5
AT_RAND, AT_AUTN, AT_RES, AT_MAC, AT_ANY_ID_REQ, AT_IDENTITY = 1, 2, 3, 11, 13, 14


def eap(code: int, identifier: int, kind: int | None = None, data: bytes = b"") -> bytes:
    """`kind`: the type of a request or response; success and failure have none."""
    body = b"" if kind is None else bytes([kind]) + data
    return struct.pack(">BBH", code, identifier, 4 + len(body)) + body


def aka(code: int, identifier: int, subtype: int, *attributes: tuple[int, bytes], kind: int = AKA) -> bytes:
    """EAP-AKA (RFC 4187, section 8.1); an attribute's value is padded so that it fills a multiple of 4 bytes."""
    body = bytes([subtype, 0, 0])
    for number, value in attributes:
        units = -(-(2 + len(value)) // 4)
        body += bytes([number, units]) + value + bytes(4 * units - 2 - len(value))
    return eap(code, identifier, kind, body)
