"""IKEv2 messages (RFC 7296), fragments of them (RFC 7383) and what they hold.

A payload is a pair (type, body); `message` and `chain` add the generic payload headers and link them.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from random import Random

# exchange types
IKE_SA_INIT, IKE_AUTH, CREATE_CHILD_SA, INFORMATIONAL = 34, 35, 36, 37
IKE_SESSION_RESUME, IKE_INTERMEDIATE, IKE_FOLLOWUP_KE = 38, 43, 44

# flags
RESPONSE, HIGHER_VERSION, INITIATOR = 0x20, 0x10, 0x08

# payload types
SA, KE, ID_I, ID_R, CERT, CERTREQ, AUTH, NONCE, NOTIFY, DELETE = 33, 34, 35, 36, 37, 38, 39, 40, 41, 42
VENDOR_ID, TS_I, TS_R, SK, CONFIGURATION, EAP, SKF = 43, 44, 45, 46, 47, 48, 53

# transform types (6 to 12: additional key exchanges of RFC 9370)
ENCR, PRF, INTEG, DH, ESN = 1, 2, 3, 4, 5
ADDKE1, ADDKE2, ADDKE3, ADDKE4, ADDKE5, ADDKE6, ADDKE7 = range(6, 13)

# some transform IDs
ENCR_AES_CBC, ENCR_AES_GCM_16, PRF_HMAC_SHA2_256, AUTH_HMAC_SHA2_256_128 = 12, 20, 5, 12
MODP_2048, ECP_256, CURVE25519, ML_KEM_512, ML_KEM_768, ML_KEM_1024 = 14, 19, 31, 35, 36, 37

# notify message types
INVALID_SYNTAX, NO_PROPOSAL_CHOSEN, INVALID_KE_PAYLOAD, AUTHENTICATION_FAILED = 7, 14, 17, 24
NAT_DETECTION_SOURCE_IP, NAT_DETECTION_DESTINATION_IP, COOKIE = 16388, 16389, 16390
REDIRECT_SUPPORTED, REDIRECT, REDIRECTED_FROM, FRAGMENTATION_SUPPORTED = 16406, 16407, 16408, 16430
SIGNATURE_HASH_ALGORITHMS, USE_PPK, INTERMEDIATE_EXCHANGE_SUPPORTED = 16431, 16435, 16438
ADDITIONAL_KEY_EXCHANGE = 16441

#: Bytes of a KE payload's data by method: (initiator, responder).
KE_BYTES = {
    MODP_2048: (256, 256),
    ECP_256: (64, 64),
    CURVE25519: (32, 32),
    ML_KEM_512: (800, 768),
    ML_KEM_768: (1184, 1088),
    ML_KEM_1024: (1568, 1568),
}

Payload = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Transform:
    kind: int
    number: int
    key_bits: int | None = None  # attribute Key Length
    attributes: bytes = b""  # more, as bytes


@dataclass(frozen=True, slots=True)
class Proposal:
    transforms: Sequence[Transform]
    protocol: int = 1  # IKE; 2 AH, 3 ESP
    spi: bytes = b""
    number: int | None = None  # None: counted from 1


#: AES-128-CBC, HMAC-SHA2-256, ECP-256.
CLASSIC = Proposal(
    [
        Transform(ENCR, ENCR_AES_CBC, 128),
        Transform(INTEG, AUTH_HMAC_SHA2_256_128),
        Transform(PRF, PRF_HMAC_SHA2_256),
        Transform(DH, ECP_256),
    ]
)
#: AES-256-GCM, Curve25519, then ML-KEM-768 as the first additional key exchange.
HYBRID = Proposal(
    [
        Transform(ENCR, ENCR_AES_GCM_16, 256),
        Transform(PRF, PRF_HMAC_SHA2_256),
        Transform(DH, CURVE25519),
        Transform(ADDKE1, ML_KEM_768),
    ]
)


def ike_header(
    spi_i: bytes,
    spi_r: bytes,
    next_payload: int,
    exchange_type: int,
    flags: int,
    message_id: int,
    length: int,
    version: int = 0x20,
) -> bytes:
    """28 bytes. `length`: of the whole message."""
    head = struct.pack(">BBBBII", next_payload, version, exchange_type, flags, message_id, length)
    return spi_i + spi_r + head


def chain(payloads: Iterable[Payload]) -> tuple[int, bytes]:
    """Type of the first payload, and all of them as bytes."""
    listed = list(payloads)
    following = [*(kind for kind, _ in listed), 0]
    joined = b"".join(
        struct.pack(">BBH", after, 0, 4 + len(body)) + body
        for (_, body), after in zip(listed, following[1:], strict=True)
    )
    return following[0], joined


def message(
    spi_i: bytes,
    spi_r: bytes,
    exchange_type: int,
    flags: int,
    message_id: int,
    payloads: Iterable[Payload],
) -> bytes:
    """A message in the clear."""
    first, body = chain(payloads)
    return ike_header(spi_i, spi_r, first, exchange_type, flags, message_id, 28 + len(body)) + body


def sa(proposals: Sequence[Proposal]) -> Payload:
    parts = []
    for index, proposal in enumerate(proposals, 1):
        transforms = b""
        for count, transform in enumerate(proposal.transforms, 1):
            attributes = transform.attributes
            if transform.key_bits is not None:
                attributes += struct.pack(">HH", 0x8000 | 14, transform.key_bits)
            more = 3 if count < len(proposal.transforms) else 0
            transforms += struct.pack(">BxHBxH", more, 8 + len(attributes), transform.kind, transform.number)
            transforms += attributes
        parts.append(
            struct.pack(
                ">BxHBBBB",
                2 if index < len(proposals) else 0,
                8 + len(proposal.spi) + len(transforms),
                index if proposal.number is None else proposal.number,
                proposal.protocol,
                len(proposal.spi),
                len(proposal.transforms),
            )
            + proposal.spi
            + transforms
        )
    return SA, b"".join(parts)


def ke(method: int, data: bytes) -> Payload:
    return KE, struct.pack(">HH", method, 0) + data


def nonce(data: bytes) -> Payload:
    return NONCE, data


def notify(kind: int, data: bytes = b"", protocol: int = 0, spi: bytes = b"") -> Payload:
    return NOTIFY, struct.pack(">BBH", protocol, len(spi), kind) + spi + data


def delete(protocol: int = 1, spis: Sequence[bytes] = ()) -> Payload:
    size = len(spis[0]) if spis else 0
    return DELETE, struct.pack(">BBH", protocol, size, len(spis)) + b"".join(spis)


def identification(kind: int, data: bytes, id_type: int = 2) -> Payload:
    """`kind`: ID_I or ID_R; `id_type`: 2 is FQDN."""
    return kind, bytes([id_type, 0, 0, 0]) + data


def auth(method: int, data: bytes) -> Payload:
    """`method`: 1 RSA, 2 shared key, 14 digital signature (RFC 7427)."""
    return AUTH, bytes([method, 0, 0, 0]) + data


def nat_hash(spi_i: bytes, spi_r: bytes, address: str, port: int) -> bytes:
    """Data of NAT_DETECTION_*_IP (RFC 7296, section 2.23)."""
    return hashlib.sha1(spi_i + spi_r + ip_address(address).packed + struct.pack(">H", port)).digest()


def encrypted(
    spi_i: bytes, spi_r: bytes, exchange_type: int, flags: int, message_id: int, first: int, body: bytes
) -> bytes:
    """A message of one SK payload. `first`: type of the first payload inside; `body`: IV, ciphertext, ICV."""
    length = 28 + 4 + len(body)
    header = ike_header(spi_i, spi_r, SK, exchange_type, flags, message_id, length)
    return header + struct.pack(">BBH", first, 0, 4 + len(body)) + body


def skf(
    spi_i: bytes,
    spi_r: bytes,
    exchange_type: int,
    flags: int,
    message_id: int,
    first: int,
    bodies: Sequence[bytes],
    total: int | None = None,
) -> list[bytes]:
    """The fragments of one message: each a message of one SKF payload (RFC 7383, section 2.5)."""
    count = len(bodies) if total is None else total
    result = []
    for number, body in enumerate(bodies, 1):
        header = ike_header(spi_i, spi_r, SKF, exchange_type, flags, message_id, 28 + 8 + len(body))
        inner = first if number == 1 else 0
        result.append(header + struct.pack(">BBHHH", inner, 0, 8 + len(body), number, count) + body)
    return result


@dataclass(slots=True)
class Encryptor:
    """Gives the bodies of SK and SKF payloads: random bytes, as many as a cipher with these lengths gives."""

    rng: Random
    iv: int = 8
    icv: int = 16
    block: int = 1

    def body(self, size: int) -> bytes:
        """IV, ciphertext of `size` bytes of payloads with padding, ICV."""
        padding = -(size + 1) % self.block + 1
        return self.rng.randbytes(self.iv + size + padding + self.icv)

    def bodies(self, size: int, fragments: int) -> list[bytes]:
        """`size` bytes of payloads in so many fragments, all but the last of one length."""
        step = -(-size // fragments)
        return [self.body(min(step, size - at)) for at in range(0, step * fragments, step)]
