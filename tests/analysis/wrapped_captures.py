"""Recorded captures inside of tunnels and other link layers."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import dpkt

from tests.craft import Packet, pcap
from tests.craft.tunnel import Encapsulation


def read_packets(path: Path) -> list[Packet]:
    """The packets of an Ethernet capture."""
    with path.open("rb") as file:
        return [Packet(round(when * 10**6) * 1000, data) for when, data in dpkt.pcap.UniversalReader(file)]


def wrap_packets(packets: Sequence[Packet], encapsulation: Encapsulation) -> Iterator[Packet]:
    for packet in packets:
        yield Packet(packet.time_ns, encapsulation.wrap(packet.data))


def write_wrapped(path: Path, source: Path, encapsulation: Encapsulation) -> Path:
    """Write a capture with all its packets wrapped."""
    path.write_bytes(pcap(wrap_packets(read_packets(source), encapsulation), linktype=encapsulation.linktype))
    return path
