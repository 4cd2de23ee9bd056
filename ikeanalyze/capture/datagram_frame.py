"""A UDP datagram as the IP packet that it crosses a network in, where nobody saw the packet itself (RFC 791, 8200, 768)."""

from dataclasses import dataclass

import dpkt

#: Hops that hosts give their packets by default.
DEFAULT_TTL = 64


@dataclass(frozen=True, slots=True)
class UdpEndpoint:
    """Where a datagram comes from or goes to."""

    address: bytes  # 4 or 16 bytes
    port: int


def build_datagram_frame(
    source: UdpEndpoint,
    destination: UdpEndpoint,
    payload: bytes,
    *,
    ttl: int | None = None,
    identification: int = 0,
) -> bytes:
    """An IP packet without link header, with right lengths and checksums; in one piece whatever its size.

    `ttl`: TTL or hop limit; None: not known, so the usual one. `identification` is IPv4's.
    """
    udp = dpkt.udp.UDP(sport=source.port, dport=destination.port, ulen=8 + len(payload), data=payload)
    hops = DEFAULT_TTL if ttl is None else ttl
    if len(source.address) == 4:
        packet = dpkt.ip.IP(
            src=source.address, dst=destination.address, p=dpkt.ip.IP_PROTO_UDP, ttl=hops, id=identification
        )
        packet.data = udp
        packet.len = 28 + len(payload)
    else:
        packet = dpkt.ip6.IP6(
            src=source.address,
            dst=destination.address,
            nxt=dpkt.ip.IP_PROTO_UDP,
            hlim=hops,
            plen=8 + len(payload),
        )
        packet.data = udp
        packet.extension_hdrs = {}
    return bytes(packet)
