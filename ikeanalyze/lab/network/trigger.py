"""Sends one UDP datagram for a trap policy: `python -m ikeanalyze.lab.network.trigger SOURCE DESTINATION`.

Standard output gets the time at which it was sent, nanoseconds of the monotonic clock, which all processes of a machine
share.
"""

import socket
import sys
import time
from typing import Final

#: Port of the discard protocol (RFC 863).
_DISCARD: Final = 9


def send_trigger(source: str, destination: str) -> int:
    """Send the datagram; return when, in nanoseconds of the monotonic clock."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((source, 0))
        sent_ns = time.monotonic_ns()
        sock.sendto(b"ikeanalyze lab", (destination, _DISCARD))
    return sent_ns


if __name__ == "__main__":
    print(send_trigger(sys.argv[1], sys.argv[2]))
