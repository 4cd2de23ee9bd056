"""Messages out of the recorded captures, read with dpkt and nothing of ours."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import dpkt

from tests.paths import CAPTURES

NAMES = ("eap-md5-radius", "invalid-ke", "loss20-classic", "pq-mlkem768-psk", "psk-classic")
_RADIUS_PORT = 1812


def truth(name: str) -> dict[str, Any]:
    """What the daemons said about the capture."""
    value: dict[str, Any] = json.loads((CAPTURES / f"{name}.truth.json").read_text())
    return value


def _datagrams(name: str) -> Iterator[tuple[int, int, int, bytes]]:
    """Ports, the UDP header's length and the payload."""
    (path,) = CAPTURES.glob(f"{name}.pcap*")
    with path.open("rb") as file:
        reader = dpkt.pcapng.Reader(file) if path.suffix == ".pcapng" else dpkt.pcap.Reader(file)
        for _, frame in reader:
            packet = dpkt.ethernet.Ethernet(frame).data
            if isinstance(packet, dpkt.ip.IP) and isinstance(packet.data, dpkt.udp.UDP):
                udp = packet.data
                yield udp.sport, udp.dport, udp.ulen, bytes(udp.data)


@cache
def ike_messages(name: str) -> tuple[bytes, ...]:
    """IKE messages and fragments in order, without the non-ESP marker."""
    result = []
    for source, destination, _, data in _datagrams(name):
        if 500 in (source, destination):
            result.append(data)
        elif 4500 in (source, destination) and data.startswith(bytes(4)):
            result.append(data[4:])
    return tuple(result)


@cache
def radius_packets(name: str) -> tuple[tuple[int, bytes], ...]:
    """The UDP header's length and the RADIUS packet, in order."""
    return tuple(
        (size, data) for source, destination, size, data in _datagrams(name) if _RADIUS_PORT in (source, destination)
    )
