"""Parses the packets in the log of `freeradius -X`, independently of the capture, for comparison."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_PACKET: Final = re.compile(
    r"\((\d+)\) (?:Received|Sent) (Access-\w+) Id (\d+) from (\S+):(\d+) to (\S+):(\d+)(?: via \S+)? length (\d+)"
)
#: A retransmitted request whose response is sent again; the log has no other line about either.
_AGAIN: Final = re.compile(r"\((\d+)\) Sending duplicate reply to client ")


@dataclass(frozen=True, slots=True)
class LoggedRadiusPacket:
    """One RADIUS packet."""

    code: str  # "Access-Request", "Access-Challenge"...
    identifier: int
    source: str
    source_port: int
    destination: str
    destination_port: int
    length: int  # of the RADIUS packet, without UDP header (RFC 2865, 3)


def parse_freeradius_log(lines: Iterable[str]) -> list[LoggedRadiusPacket]:
    """Return the packets in the order in which the server processed them."""
    packets: list[LoggedRadiusPacket] = []
    by_number: dict[str, list[LoggedRadiusPacket]] = {}  # a request and its response, by the server's number
    for line in lines:
        if packet_line := _PACKET.search(line):
            number, code, identifier, source, port, destination, other, length = packet_line.groups()
            packet = LoggedRadiusPacket(code, int(identifier), source, int(port), destination, int(other), int(length))
            by_number.setdefault(number, []).append(packet)
            packets.append(packet)
        elif again := _AGAIN.search(line):
            packets += by_number.get(again[1], [])
    return packets
