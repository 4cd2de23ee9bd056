"""UDP payloads out of IP packets, by scapy's own reassembly."""

from scapy.layers.inet import IP, UDP, defragment
from scapy.layers.inet6 import IPv6ExtHdrFragment, defragment6


class Reassembled:
    """Takes packets in order; fragments come one behind another."""

    def __init__(self) -> None:
        self.parts: list = []

    def add_fragment(self, packet) -> bytes | None:
        six = not isinstance(packet, IP)
        fragment = packet.getlayer(IPv6ExtHdrFragment) if six else packet
        if (six and fragment is None) or (not six and not packet.frag and not packet.flags.MF):
            return bytes(packet[UDP].payload)
        self.parts.append(packet)
        if fragment.m if six else packet.flags.MF:
            return None
        parts, self.parts = self.parts, []
        whole = defragment6(parts) if six else defragment(parts)[0]
        return bytes(UDP(bytes(whole.payload)).payload)
