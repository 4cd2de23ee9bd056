"""Captures of every kind, by a seed: recorded ones and floods, in other link layers and tunnels, and damaged."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

from fuzz.mutators.captures import mutate_capture, shorten_capture
from ikeanalyze.capture.reader import open_capture
from tests.craft import Interface, Packet, ip_fragments, link, pcap, pcapng
from tests.craft.tunnel import IP_IN_IP, LINKS, TUNNELS, Encapsulation, packet_of
from tests.floods.generate import FLOODS
from tests.paths import CAPTURES, DATA, LAB_CAPTURES

#: Bytes of a capture that is mutated; what is longer takes longer, and rarely has more.
MAX_BYTES = 24_000
#: Packets of a flood.
FLOOD_PACKETS = 60
VLANS = ((0x8100, 7), (0x88A8, 8), (0x9100, 9), (0x9200, 10), (0x9300, 11))
#: Bytes before the packet in cooked captures.
COOKED = {link.SLL: 16, link.SLL2: 20}


@dataclass(frozen=True, slots=True)
class LinkedPacket:
    """A packet, and the link type of its frame."""

    packet: Packet
    linktype: int


def recorded() -> list[Path]:
    """The captures of the repository."""
    return sorted(path for folder in (CAPTURES, LAB_CAPTURES, DATA) for path in folder.glob("*.pcap*"))


@cache
def recorded_packets(path: Path) -> tuple[Packet, ...]:
    """The packets of a capture as Ethernet frames."""
    packets = []
    with open_capture(path) as reader:
        for batch in reader.iterate_batches():
            for row in range(len(batch)):
                at, kind = int(batch.offset[row]), reader.interfaces[int(batch.interface[row])].link_type
                data = batch.buffer[at : at + int(batch.captured[row])].tobytes()
                frame = link.ethernet(data[COOKED[kind] :]) if kind in COOKED else data
                packets.append(Packet(int(batch.time_ns[row]), frame))
    return tuple(packets)


@cache
def flood(name: str) -> bytes:
    return shorten_capture(FLOODS[name].generate(FLOOD_PACKETS), MAX_BYTES)


@cache
def _start_of(path: Path) -> bytes:
    return shorten_capture(path.read_bytes(), MAX_BYTES)


def generate(rng: Random) -> bytes:
    """A capture file, in most cases mutated."""
    match rng.randrange(6):
        case 0:
            data = _start_of(rng.choice(recorded()))
        case 1:
            data = flood(rng.choice(sorted(FLOODS)))
        case _:
            data = _write(_reframe(rng), rng)
    for _ in range(rng.choice((0, 1, 1, 2, 8))):
        data = mutate_capture(data, rng)
    return data


def _reframe(rng: Random) -> list[LinkedPacket]:
    """Packets of recorded captures in other link layers and tunnels."""
    result = []
    wrap = rng.choice(WRAPS)
    change = rng.choice((0, 0.02, 0.3))
    for _ in range(rng.choice((1, 1, 2))):
        source = recorded_packets(rng.choice(recorded()))
        first = rng.choice((0, rng.randrange(len(source) + 1)))
        for packet in source[first : first + rng.choice((12, 40))]:
            if rng.random() < change:
                wrap = rng.choice(WRAPS)
            result += [
                LinkedPacket(_snap(replace(packet, data=framed.data), rng), framed.linktype)
                for framed in wrap(packet.data, rng)
            ]
    return result


def _snap(packet: Packet, rng: Random) -> Packet:
    """A packet of which, now and then, only the beginning is captured, or that has padding."""
    match rng.randrange(30):
        case 0:
            return replace(packet, data=packet.data[: rng.randrange(len(packet.data) + 1)], length=len(packet.data))
        case 1:
            return replace(packet, data=packet.data + bytes(rng.randrange(20)))
        case _:
            return packet


def _write(packets: list[LinkedPacket], rng: Random) -> bytes:
    """A file of either format; pcap with the packets of one link type only."""
    order = rng.choice(("<", ">"))
    linktypes = sorted({packet.linktype for packet in packets}) or [link.ETHERNET]
    if rng.random() < 0.5:
        linktype = rng.choice(linktypes)
        return pcap(
            [packet.packet for packet in packets if packet.linktype == linktype],
            byteorder=order,
            nanoseconds=rng.random() < 0.5,
            linktype=linktype,
            snaplen=rng.choice((262144, 262144, 60, 96, 1000)),
        )
    return pcapng(
        [replace(packet.packet, interface=linktypes.index(packet.linktype)) for packet in packets],
        byteorder=order,
        interfaces=[Interface(linktype, rng.choice((9, 6, None, 128 + 20))) for linktype in linktypes],
        block=rng.choice(("EPB", "EPB", "EPB", "SPB", "PB")),
        unknown=rng.random() < 0.2,
        sections=rng.choice((1, 1, 3)),
    )


@dataclass(frozen=True, slots=True)
class Framed:
    """A frame, and its link type."""

    data: bytes
    linktype: int = link.ETHERNET


Wrap = Callable[[bytes, Random], list[Framed]]


def _tagged(frame: bytes, rng: Random) -> list[Framed]:
    tags = [rng.choice(VLANS) for _ in range(rng.choice((1, 1, 2, 3)))]
    return [Framed(link.ethernet(packet_of(frame), vlans=tags))]


def _fragmented(frame: bytes, rng: Random) -> list[Framed]:
    packet = packet_of(frame)
    mtu = rng.choice((200, 576, 1280))
    is_ip = packet[:1] and packet[0] >> 4 in (4, 6) and len(packet) > mtu
    parts = ip_fragments(packet, mtu, rng.randrange(1, 60000)) if is_ip else [packet]
    if rng.random() < 0.1:
        parts.pop(rng.randrange(len(parts)))
    return [Framed(link.ethernet(part)) for part in parts]


def _over(encapsulation: Encapsulation) -> Wrap:
    return lambda frame, _: [Framed(encapsulation.wrap(frame), encapsulation.linktype)]


def _as(linktype: int) -> Wrap:
    return lambda frame, _: [Framed(link.FRAMERS[linktype](packet_of(frame)), linktype)]


def _make_wraps() -> Iterator[Wrap]:
    """Plain link layers are more frequent than tunnels, since the core reads them."""
    for _ in range(8):
        yield from (lambda frame, _: [Framed(frame)], _tagged)
        yield from (_as(linktype) for linktype in (link.SLL, link.SLL2, link.RAW))
    yield from (_as(linktype) for linktype in link.FRAMERS)
    yield lambda frame, _: [Framed(packet_of(frame), 12)]
    yield lambda frame, _: [Framed(link.pppoe(packet_of(frame)))]
    yield lambda frame, _: [Framed(frame, 147)]  # a link type that is not decoded
    yield from [_fragmented] * 4
    for encapsulations in (TUNNELS, IP_IN_IP, LINKS):
        yield from map(_over, encapsulations.values())


WRAPS = list(_make_wraps())
