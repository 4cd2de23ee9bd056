"""The frames of generated captures: their fixed and their random bytes.

A pattern is a list of bytes, which are fixed, and of numbers of random bytes. A template is the pattern of a complete
pcap record as arrays, with the offsets of the fields that change from frame to frame.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Pattern = list[bytes | int]
Link = Literal["ipv4", "ipv4 vlan", "ipv6"]
Traffic = Literal["ike", "esp", "keepalive"]

RECORD_HEADER = 16
LINKS: tuple[Link, ...] = ("ipv4", "ipv4 vlan", "ipv6")

MACS = bytes.fromhex("020000000002020000000001")
SA_INIT, AUTH, INTERMEDIATE = 34, 35, 43
NAMES = {SA_INIT: "IKE_SA_INIT", INTERMEDIATE: "IKE_INTERMEDIATE", AUTH: "IKE_AUTH"}

#: IP packets of fragmented messages are no larger than this (RFC 7383).
FRAGMENT_MTU = 1184


@dataclass(frozen=True, slots=True)
class Template:
    traffic: Traffic
    exchange: int  # exchange type; 0: not IKE
    last: bool  # last or only frame of its message
    from_initiator: bool
    natt: bool  # on port 4500
    udp: bool
    spi_r: bool  # the responder's SPI is known
    data: npt.NDArray[np.uint8]  # a complete record
    #: Offsets of bytes that are not random: first the headers, without a gap up to `headers`.
    fixed: npt.NDArray[np.int64]
    headers: int
    ip: int  # offset of the IP header
    version: int  # of IP
    body: int  # offset of the IKE message, ESP packet or keepalive


def length(pattern: Pattern) -> int:
    return sum(part if isinstance(part, int) else len(part) for part in pattern)


def template(
    link: Link,
    payload: Pattern,
    *,
    traffic: Traffic = "ike",
    exchange: int = 0,
    last: bool = True,
    from_initiator: bool,
    natt: bool = True,
    udp: bool = True,
    spi_r: bool = True,
) -> Template:
    """The record of a frame with an IKE message, an ESP packet or a keepalive."""
    version = 6 if link == "ipv6" else 4
    tag = b"\x81\0\0\x64" if link == "ipv4 vlan" else b""
    marker = bytes(4) if natt and traffic == "ike" else b""
    size = (8 if udp else 0) + len(marker) + length(payload)
    protocol = 17 if udp else 50
    macs = MACS if from_initiator else MACS[6:] + MACS[:6]
    if version == 4:
        network = struct.pack(">BBHHHBBH8x", 0x45, 0, 20 + size, 0, 0x4000, 61, protocol, 0)
    else:
        network = struct.pack(">IHBB32x", 6 << 28, size, protocol, 61)
    front = bytes(RECORD_HEADER) + macs + tag + (b"\x86\xdd" if version == 6 else b"\x08\0")
    transport = struct.pack(">4xHH", size, 0) if udp else b""
    whole: Pattern = [front + network + transport + marker, *payload]
    data = np.frombuffer(b"".join(bytes(p) if isinstance(p, int) else p for p in whole), np.uint8)
    known = np.concatenate([np.full(p, False) if isinstance(p, int) else np.full(len(p), True) for p in whole])
    fixed = np.flatnonzero(known)
    body = len(front) + len(network) + len(transport) + len(marker)
    headers = body + {"ike": 28, "esp": 8, "keepalive": 1}[traffic]
    return Template(
        traffic=traffic,
        exchange=exchange,
        last=last,
        from_initiator=from_initiator,
        natt=natt,
        udp=udp,
        spi_r=spi_r,
        data=data,
        fixed=fixed,
        headers=headers,
        ip=len(front),
        version=version,
        body=body,
    )


# ---- IKEv2


def header(first: int, exchange: int, from_initiator: bool, message_id: int, size: int) -> bytes:
    """An IKE header with zeros for both SPIs."""
    flags = 0x08 if from_initiator else 0x20
    return bytes(16) + struct.pack(">BBBBII", first, 0x20, exchange, flags, message_id, 28 + size)


def transform(kind: int, number: int, key_bits: int = 0) -> bytes:
    attribute = struct.pack(">HH", 0x800E, key_bits) if key_bits else b""
    return struct.pack(">BxHBxH", 3, 8 + len(attribute), kind, number) + attribute


def security_association(proposals: Sequence[Sequence[bytes]]) -> bytes:
    parts = []
    for number, transforms in enumerate(proposals, 1):
        body = b"".join(transforms[:-1]) + b"\0" + transforms[-1][1:]
        more = 2 if number < len(proposals) else 0
        parts.append(struct.pack(">BxHBBBB", more, 8 + len(body), number, 1, 0, len(transforms)) + body)
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Profile:
    """A configuration of IKE SAs; all offer ML-KEM-768 as the first additional key exchange."""

    proposals: tuple[tuple[bytes, ...], ...]
    group: int
    public_bytes: int
    auth_bytes: tuple[int, int]  # payloads in IKE_AUTH, request and response


GCM, CBC = transform(1, 20, 256), transform(1, 12, 256)
PRF_256, PRF_512, SHA_256 = transform(2, 5), transform(2, 7), transform(3, 12)
X25519, P_256, MODP_3072 = transform(4, 31), transform(4, 19), transform(4, 15)
ML_KEM_768, ML_KEM_512 = transform(6, 36), transform(6, 35)

PROFILES = (
    Profile(((GCM, PRF_512, X25519, ML_KEM_768),), 31, 32, (3180, 3200)),
    Profile(((CBC, SHA_256, PRF_256, P_256, ML_KEM_768), (GCM, PRF_256, P_256, ML_KEM_768)), 19, 64, (3100, 3210)),
    Profile(((GCM, PRF_512, PRF_256, MODP_3072, X25519, ML_KEM_768, ML_KEM_512),), 15, 384, (3205, 3150)),
)


def init(profile: Profile, from_initiator: bool) -> Pattern:
    """IKE_SA_INIT: SA, KE, nonce, NAT detection, supported extensions."""
    offers = profile.proposals
    if not from_initiator:
        first_of_kind = {offer[4]: offer for offer in reversed(offers[0])}
        offers = (tuple(first_of_kind[kind] for kind in sorted(first_of_kind)),)
    payloads: list[tuple[int, Pattern]] = [
        (33, [security_association(offers)]),
        (34, [struct.pack(">HH", profile.group, 0), profile.public_bytes]),
        (40, [32]),
        (41, [struct.pack(">BBH", 0, 0, 16388), 20]),
        (41, [struct.pack(">BBH", 0, 0, 16389), 20]),
        (41, [struct.pack(">BBH", 0, 0, 16430)]),
        (41, [struct.pack(">BBHHHH", 0, 0, 16431, 2, 3, 4)]),
        (41, [struct.pack(">BBH", 0, 0, 16438)]),
    ]
    body: Pattern = []
    kinds_after = [*(kind for kind, _ in payloads[1:]), 0]
    for (_, parts), after in zip(payloads, kinds_after, strict=True):
        body += [struct.pack(">BxH", after, 4 + length(parts)), *parts]
    return [header(33, SA_INIT, from_initiator, 0, length(body)), *body]


def fragments(exchange: int, message_id: int, from_initiator: bool, first: int, size: int, ip: int) -> list[Pattern]:
    """SKF payloads for `size` bytes of payloads; `ip`: bytes of the IP header. Lengths are AES-GCM's."""
    overhead = 8 + 1 + 16  # IV, pad length, ICV
    room = FRAGMENT_MTU - ip - 8 - 4 - 28 - 8 - overhead
    parts = [min(room, size - at) for at in range(0, size, room)]
    result: list[Pattern] = []
    for number, part in enumerate(parts, 1):
        length_of = 8 + overhead + part
        payload = struct.pack(">BxHHH", first if number == 1 else 0, length_of, number, len(parts))
        head = header(53, exchange, from_initiator, message_id, length_of)
        result.append([head + payload, overhead + part])
    return result


def handshake(profile: Profile, link: Link) -> list[list[list[Template]]]:
    """The frames of one transmission, for each exchange, request and response."""
    ip = 40 if link == "ipv6" else 20
    sizes = {INTERMEDIATE: (1192, 1096), AUTH: profile.auth_bytes}
    inner = {INTERMEDIATE: (34, 34), AUTH: (35, 36)}
    result = [
        [
            [
                template(
                    link,
                    init(profile, request),
                    exchange=SA_INIT,
                    from_initiator=request,
                    natt=False,
                    spi_r=not request,
                )
            ]
            for request in (True, False)
        ]
    ]
    for message_id, exchange in enumerate((INTERMEDIATE, AUTH), 1):
        sides = []
        for side, request in enumerate((True, False)):
            patterns = fragments(exchange, message_id, request, inner[exchange][side], sizes[exchange][side], ip)
            sides.append(
                [
                    template(
                        link,
                        pattern,
                        exchange=exchange,
                        last=number == len(patterns),
                        from_initiator=request,
                    )
                    for number, pattern in enumerate(patterns, 1)
                ]
            )
        result.append(sides)
    return result


# ---- the rest


def esp(link: Link, size: int, *, from_initiator: bool, udp: bool) -> Template:
    """`size`: of the frame on an IPv4 link with UDP."""
    return template(link, [bytes(8), size - 14 - 20 - 8 - 8], traffic="esp", from_initiator=from_initiator, udp=udp)


def keepalive(link: Link) -> Template:
    return template(link, [b"\xff"], traffic="keepalive", from_initiator=True)
