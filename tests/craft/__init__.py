"""The tests' own packet builder: captures of whatever shape, byte by byte, with nothing of ikeanalyze in it.

From the wire up: `link` (Ethernet, SLL, PPP, ...), `ip`, `transport` (UDP, TCP, ICMP, ESP), `ike`, `ikev1`,
`eap`, `radius`; `handshake` makes the messages of a whole IKE SA, `trace` gives them times and frames,
`pcap_file` and `pcapng_file` make files of frames. A test that builds its input with the code under test
would test nothing.
"""

from . import eap, ike, ikev1, ip, link, pcapng_file, radius, transport
from .handshake import Handshake, Message, redirected
from .ip import ip_fragments, ipv4, ipv6
from .packet import MS, SECOND, Packet
from .pcap_file import pcap
from .pcapng_file import Interface, pcapng
from .trace import Trace
from .transport import tcp, tcp_packet, udp, udp_packet

__all__ = [
    "MS",
    "SECOND",
    "Handshake",
    "Interface",
    "Message",
    "Packet",
    "Trace",
    "eap",
    "ike",
    "ikev1",
    "ip",
    "ip_fragments",
    "ipv4",
    "ipv6",
    "link",
    "pcap",
    "pcapng",
    "pcapng_file",
    "radius",
    "redirected",
    "tcp",
    "tcp_packet",
    "transport",
    "udp",
    "udp_packet",
]
