"""Recorded captures inside of tunnels and other link layers."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import dpkt

from tests.craft import Packet, pcap
from tests.craft.tunnel import Encapsulation

IP_TYPES = (b"\x08\x00", b"\x86\xdd")


def read_packets(path: Path) -> list[Packet]:
    """The IP packets of an Ethernet capture, with times in microseconds."""
    with path.open("rb") as file:
        packets = [Packet(round(when * 10**6) * 1000, data) for when, data in dpkt.pcap.UniversalReader(file)]
    return [packet for packet in packets if packet.data[12:14] in IP_TYPES]


def wrap_packets(packets: Sequence[Packet], encapsulation: Encapsulation) -> Iterator[Packet]:
    for packet in packets:
        yield Packet(packet.time_ns, encapsulation.wrap(packet.data))


def write_wrapped(path: Path, source: Path, encapsulation: Encapsulation) -> Path:
    """Write a capture with all its packets wrapped."""
    path.write_bytes(pcap(wrap_packets(read_packets(source), encapsulation), linktype=encapsulation.linktype))
    return path
