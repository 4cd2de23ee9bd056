"""Sends one ICMP echo request: `python -m ikeanalyze.lab.network.ping SOURCE DESTINATION SECONDS`.

Replaces `ping`, which not every machine has. The exit status is 0 if a reply arrived.
"""

import os
import socket
import struct
import sys
import time
from typing import Final

_REQUEST: Final = 8
_REPLY: Final = 0


def internet_checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of octets."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def encode_echo_request(identifier: int, number: int) -> bytes:
    """Encode an echo request (RFC 792)."""
    rest = struct.pack("!HH", identifier, number) + b"ikeanalyze lab.."
    empty = struct.pack("!BBH", _REQUEST, 0, 0)
    return struct.pack("!BBH", _REQUEST, 0, internet_checksum(empty + rest)) + rest


def send_echo(source: str, destination: str, seconds: float) -> bool:
    """Send a request; return whether the reply arrived within `seconds`."""
    identifier = os.getpid() & 0xFFFF
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        sock.bind((source, 0))
        sock.sendto(encode_echo_request(identifier, 1), (destination, 0))
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            sock.settimeout(left)
            try:
                packet, (address, _) = sock.recvfrom(2048)
            except TimeoutError:
                return False
            body = packet[(packet[0] & 15) * 4 :]
            if address == destination and body[0] == _REPLY and body[4:6] == struct.pack("!H", identifier):
                return True
    return False


if __name__ == "__main__":
    sys.exit(0 if send_echo(sys.argv[1], sys.argv[2], float(sys.argv[3])) else 1)
