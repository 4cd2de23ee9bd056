"""IP fragments of the target's to whole datagrams (RFC 791, 3.2; RFC 8200, 4.5), bounded in memory and work.

A datagram is put together when all of it is there, each byte once. Fragments that overlap make it worthless (RFC 5722).
"""

from dataclasses import dataclass, field
from typing import Any, Final

#: Datagrams that may wait for fragments, and fragments that one may have.
MOST_WAITING: Final = 16
MOST_FRAGMENTS: Final = 64
_LONGEST: Final = 65_535


@dataclass(slots=True)
class _Waiting:
    parts: dict[int, bytes] = field(default_factory=dict)  # by offset
    held: int = 0  # bytes
    frames: int = 0  # bytes of the IP packets
    size: int | None = None  # bytes of the whole; None: the last fragment is not there


@dataclass(frozen=True, slots=True)
class ReassembledDatagram:
    """A datagram that was put together."""

    data: bytes = field(repr=False)  # what IP carried: UDP header and payload
    size: int  # bytes of the IP packets that it came in


class FragmentReassembler:
    """Takes fragments as scapy packets in whatever order."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[Any, ...], _Waiting] = {}

    def take(self, packet: Any, size: int) -> ReassembledDatagram | None:
        """The datagram that this fragment, an IP packet of so many bytes, completes; None: it completes none."""
        key, offset, last, data = _read(packet)
        waiting = self._waiting.pop(key, None) or _Waiting()
        end = offset + len(data)
        wrong = not data or end > _LONGEST or len(waiting.parts) >= MOST_FRAGMENTS
        if wrong or any(at < end and offset < at + len(part) for at, part in waiting.parts.items()):
            return None  # with it goes all that was there
        waiting.parts[offset] = data
        waiting.held += len(data)
        waiting.frames += size
        if last:
            waiting.size = end
        if waiting.held == waiting.size:
            return ReassembledDatagram(b"".join(part for _, part in sorted(waiting.parts.items())), waiting.frames)
        while len(self._waiting) >= MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[key] = waiting
        return None


def _read(packet: Any) -> tuple[tuple[Any, ...], int, bool, bytes]:
    """Which datagram a fragment belongs to, where in it, whether it is its end, and its bytes."""
    # here, because scapy is optional, and slow to import
    from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment

    if isinstance(packet, IPv6):
        header = packet[IPv6ExtHdrFragment]
        # extension headers before it are of the packet, not of the datagram
        size = packet.plen - (len(packet.payload) - len(header))
        data = bytes(header)[8 : max(size, 8)]
        return (packet.src, packet.dst, header.id), header.offset * 8, not header.m, data
    data = bytes(packet.payload)[: max(packet.len - packet.ihl * 4, 0)]
    return (packet.src, packet.dst, packet.proto, packet.id), packet.frag * 8, not packet.flags.MF, data
