"""Parses the RADIUS packets in the log of `hostapd -dd`, independently of the capture, for comparison."""

import re
from collections.abc import Iterable
from typing import Final

from ikeanalyze.lab.logs.freeradius import LoggedRadiusPacket

_RECEIVED: Final = re.compile(r"RADIUS SRV: Received \d+ bytes from (\S+):(\d+)")
_SENT: Final = re.compile(r"RADIUS SRV: (?:Reply|Resending reply) to (\S+):(\d+)")
_MESSAGE: Final = re.compile(r"RADIUS message: code=\d+ \((Access-\w+)\) identifier=(\d+) length=(\d+)")
_PORT: Final = 1812


def parse_hostapd_log(lines: Iterable[str], address: str) -> list[LoggedRadiusPacket]:
    """Return the packets in the order in which the server processed them. `address`: the server's, not in the log."""
    packets: list[LoggedRadiusPacket] = []
    client = "", 0
    sent = False
    for line in lines:
        if direction := _RECEIVED.search(line) or _SENT.search(line):
            client, sent = (direction[1], int(direction[2])), direction.re is _SENT
        elif message := _MESSAGE.search(line):
            source, destination = ((address, _PORT), client) if sent else (client, (address, _PORT))
            packets.append(LoggedRadiusPacket(message[1], int(message[2]), *source, *destination, int(message[3])))
    return packets
