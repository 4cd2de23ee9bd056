"""Reads the test vectors of messages.toml and duplicates.toml, and makes captures of cases."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from random import Random
from zlib import crc32

from tests.craft import MS, SECOND, Trace, ike, link
from tests.craft.handshake import NAMES
from tests.craft.ip import ipv4
from tests.craft.transport import udp

#: Payloads without encryption: INVALID_IKE_SPI, and INVALID_SPI of an ESP packet (RFC 7296, section 1.5), QCD_TOKEN
#: (RFC 6290, section 4.3), DELETE, and none.
CLEAR = {
    "clear": [ike.notify(4)],
    "clear_zero": [ike.notify(4)],  # with responder SPI 0
    "clear_token": [ike.notify(4), ike.notify(16419, bytes(32))],
    "clear_delete": [ike.delete()],
    "clear_empty": [],
    "invalid_spi": [ike.notify(11, b"\1\2\3\4", protocol=3)],
}
#: An MTU at which messages of a case are sent in two IP fragments.
IN_TWO_PARTS = 108
EXCHANGE_TYPES = {name: number for number, name in NAMES.items()} | {"MAIN_MODE": 2, "240": 240}


@dataclass(frozen=True)
class Vector:
    """A datagram of a case, and its expected classification."""

    time_ns: int
    from_initiator: bool
    exchange_type: str
    message_id: int
    response: bool
    fragment: int
    total: int
    content: str
    body: int  # from 1
    transmission: int  # from 1
    first_copy: bool
    lost: bool  # the capture has only the first of its two IP fragments

    @property
    def slot(self):
        return self.exchange_type, self.message_id, self.response, self.from_initiator

    @property
    def digest(self):
        """Equal for equal bytes."""
        return crc32(f"{self.content} {self.fragment}/{self.total}".encode())


@dataclass(frozen=True)
class Exchange:
    """An expected exchange; times in ms."""

    by_initiator: bool
    exchange_type: str
    message_id: int
    attempt: int
    rtt: float | None
    wait: float | None


@dataclass(frozen=True)
class ExpectedHandshake:
    """An expected handshake; the set-up time in ms."""

    outcome: str
    setup: float | None = None
    uncertain: bool = False
    reason: str | None = None


@dataclass(frozen=True)
class Case:
    name: str
    ikev1: bool
    datagrams: tuple[Vector, ...]
    exchanges: tuple[Exchange, ...]
    handshake: ExpectedHandshake | None
    ttl: tuple[int, int]  # of the initiator's and of the responder's packets

    def __str__(self):
        return self.name

    @property
    def slots(self):
        """The datagrams of each slot, in order of time."""
        ordered = sorted(self.datagrams, key=lambda datagram: datagram.slot)
        return [list(group) for _, group in groupby(ordered, key=lambda datagram: datagram.slot)]


def _read_datagram(line: str) -> Vector:
    time, sender, exchange_type, message_id, kind, fragment, content, expected, *words = line.split()
    number, _, total = ("0/0" if fragment == "-" else fragment).partition("/")
    body, _, transmission = expected.partition(".")
    assert sender in ("initiator", "responder"), line
    assert kind in ("request", "response"), line
    assert words in ([], ["again"], ["lost"], ["again", "lost"]), line
    return Vector(
        time_ns=round(float(time) * MS),
        from_initiator=sender == "initiator",
        exchange_type=exchange_type,
        message_id=int(message_id),
        response=kind == "response",
        fragment=int(number),
        total=int(total),
        content=content,
        body=int(body),
        transmission=int(transmission),
        first_copy="again" not in words,
        lost="lost" in words,
    )


def _read_exchange(line: str) -> Exchange:
    asked, exchange_type, message_id, attempt, _, rtt, _, wait = line.split()
    times = (None if text == "-" else float(text) for text in (rtt, wait))
    return Exchange(asked == "initiator", exchange_type, int(message_id), int(attempt), *times)


@cache
def read_cases() -> list[Case]:
    table = tomllib.loads(Path(__file__).with_name("messages.toml").read_text())
    return [
        Case(
            name=case["name"],
            ikev1=case.get("ikev1", False),
            datagrams=tuple(_read_datagram(line) for line in case["datagrams"].strip().splitlines()),
            exchanges=tuple(_read_exchange(line) for line in case.get("exchanges", [])),
            handshake=ExpectedHandshake(**case["handshake"]) if "handshake" in case else None,
            ttl=tuple(case.get("ttl", (64, 64))),
        )
        for case in table["case"]
    ]


def make_datagram(vector: Vector, number: int) -> bytes:
    """An IKEv2 message, or a fragment of one, of the IKE SA with this number."""
    spi_i, spi_r = (role + number.to_bytes(4, "big") for role in (b"init", b"resp"))
    kind = EXCHANGE_TYPES[vector.exchange_type]
    flags = ike.RESPONSE * vector.response | ike.INITIATOR * vector.from_initiator
    noise = Random(vector.digest)
    if kind == ike.IKE_SA_INIT:
        refuses = vector.content.startswith("refuse")
        cookie = ike.notify(ike.COOKIE, noise.randbytes(16))
        # requests of one initiator keep their nonce
        payloads = (
            [cookie]
            if refuses
            else [ike.sa([ike.CLASSIC]), ike.nonce(bytes(32)), ike.notify(40960, noise.randbytes(8))]
        )
        answered = vector.response and not refuses
        return ike.message(spi_i, spi_r if answered else bytes(8), kind, flags, vector.message_id, payloads)
    if vector.content in CLEAR:
        spi_r = bytes(8) if vector.content == "clear_zero" else spi_r
        return ike.message(spi_i, spi_r, kind, flags, vector.message_id, CLEAR[vector.content])
    if not vector.fragment:
        return ike.encrypted(spi_i, spi_r, kind, flags, vector.message_id, ike.ID_I, noise.randbytes(80))
    bodies = [noise.randbytes(80)] * vector.fragment
    return ike.skf(spi_i, spi_r, kind, flags, vector.message_id, ike.ID_I, bodies, vector.total)[-1]


def make_capture(cases: Sequence[Case], path: Path) -> Path:
    """A capture of cases one after another, each with its own SPIs and initiator; it goes on for a minute."""
    trace = Trace()
    for number, case in enumerate(cases):
        start, initiator = number * 1000 * SECOND, f"198.51.100.{number + 1}"
        for vector in case.datagrams:
            ends = (initiator, trace.responder) if vector.from_initiator else (trace.responder, initiator)
            trace.mtu = IN_TWO_PARTS if vector.lost else 1500
            packets = trace.send(
                start + vector.time_ns,
                make_datagram(vector, number),
                source=ends[0],
                destination=ends[1],
                ttl=case.ttl[not vector.from_initiator],
            )
            trace.drop(packets[1:])
            trace.mtu = 1500
        trace.send(start + case.datagrams[-1].time_ns + 60 * SECOND, b"other traffic", sport=53, dport=53)
    return trace.write(path)


@dataclass(frozen=True)
class CapturedPacket:
    """A packet of a case of duplicates.toml."""

    time_ns: int
    from_initiator: bool
    response: bool
    content: str
    ident: int
    ttl: int
    copy: bool


@dataclass(frozen=True)
class DuplicatesCase:
    name: str
    packets: tuple[CapturedPacket, ...]

    def __str__(self):
        return self.name


def _read_packet(line: str) -> CapturedPacket:
    time, sender, kind, content, ident, ttl, expected = line.split()
    assert sender in ("initiator", "responder"), line
    assert kind in ("request", "response"), line
    assert expected in ("first", "copy"), line
    return CapturedPacket(
        time_ns=round(float(time) * MS),
        from_initiator=sender == "initiator",
        response=kind == "response",
        content=content,
        ident=0 if ident == "-" else int(ident),
        ttl=int(ttl),
        copy=expected == "copy",
    )


@cache
def read_duplicates() -> list[DuplicatesCase]:
    table = tomllib.loads(Path(__file__).with_name("duplicates.toml").read_text())
    return [
        DuplicatesCase(case["name"], tuple(_read_packet(line) for line in case["packets"].strip().splitlines()))
        for case in table["case"]
    ]


def make_duplicates_capture(cases: Sequence[DuplicatesCase], path: Path) -> Path:
    """A capture of cases one after another, each with its own SPIs and initiator."""
    trace = Trace()
    for number, case in enumerate(cases):
        spi_i, spi_r = (role + number.to_bytes(4, "big") for role in (b"init", b"resp"))
        hosts = f"198.51.100.{number + 1}", trace.responder
        for packet in case.packets:
            flags = ike.RESPONSE * packet.response | ike.INITIATOR * packet.from_initiator
            noise = Random(crc32(packet.content.encode())).randbytes(80)
            data = ike.encrypted(spi_i, spi_r, ike.INFORMATIONAL, flags, 2, ike.NOTIFY, noise)
            source, destination = hosts if packet.from_initiator else hosts[::-1]
            datagram = udp(data, 500, 500, source, destination)
            frame = link.ethernet(ipv4(datagram, source, destination, ttl=packet.ttl, ident=packet.ident))
            trace.add(number * 1000 * SECOND + packet.time_ns, frame)
    return trace.write(path)
