"""Protocol numbers, ports and header sizes shared by the files of this package."""

from typing import Final

ETHERTYPE_IPV4: Final = 0x0800
ETHERTYPE_IPV6: Final = 0x86DD
ETHERTYPE_PPPOE_SESSION: Final = 0x8864
ETHERTYPES_VLAN: Final = (0x8100, 0x88A8, 0x9100, 0x9200, 0x9300)
ETHERTYPE_ETHERNET: Final = 0x6558  # transparent Ethernet bridging: an Ethernet frame follows (RFC 1701)
ETHERTYPE_PPP: Final = 0x880B  # RFC 2637
ETHERTYPES_MPLS: Final = (0x8847, 0x8848)  # RFC 3032; RFC 5332
ETHERTYPE_ERSPAN: Final = 0x88BE
ETHERTYPE_ERSPAN_III: Final = 0x22EB
ETHERTYPE_MACSEC: Final = 0x88E5  # IEEE 802.1AE
ETHERTYPE_BACKBONE: Final = 0x88E7  # service instance tag of IEEE 802.1ah
ETHERTYPE_NSH: Final = 0x894F  # RFC 8300

#: Headers without an EtherType of their own have a number that an Ethernet type field would use for a length.
HEADER_UNKNOWN: Final = 0
HEADER_LLC: Final = 1
HEADER_WLAN: Final = 2  # IEEE 802.11
#: The longest payload by the length field of an LLC frame (IEEE 802.3, 3.2.6).
MAX_LLC_LENGTH: Final = 1500

#: Address families in the header of a loopback interface: for IPv6 those of Linux, of BSDs and of macOS.
LOOPBACK_IPV4: Final = 2
LOOPBACK_IPV6: Final = (10, 24, 28, 30)

PROTOCOL_ICMP: Final = 1
PROTOCOL_IPV4: Final = 4  # IPv4 in IP (RFC 2003)
PROTOCOL_TCP: Final = 6
PROTOCOL_UDP: Final = 17
PROTOCOL_IPV6: Final = 41  # IPv6 in IP (RFC 4213; RFC 2473)
ROUTING_HEADER: Final = 43
FRAGMENT_HEADER: Final = 44
PROTOCOL_GRE: Final = 47
PROTOCOL_ESP: Final = 50
PROTOCOL_AH: Final = 51
PROTOCOL_ICMPV6: Final = 58
NO_NEXT_HEADER: Final = 59
PROTOCOL_ETHERIP: Final = 97  # RFC 3378
PROTOCOL_L2TP: Final = 115  # L2TPv3 (RFC 3931)
PROTOCOL_MPLS: Final = 137  # RFC 4023
PROTOCOL_HIP: Final = 139
#: Types of ICMP (RFC 792) and ICMPv6 (RFC 4443) that are errors about the delivery of a packet. The core has them too.
ICMP_ERRORS: Final = (3, 11)  # destination unreachable, time exceeded
ICMPV6_ERRORS: Final = (1, 2, 3)  # destination unreachable, packet too big, time exceeded
#: IPv6 extension headers with their length in the second byte: options, routing, mobility, shim6.
EXTENSION_HEADERS: Final = (0, ROUTING_HEADER, 60, 135, 140)

PORT_IKE: Final = 500
PORT_IKE_NAT: Final = 4500  # UDP, and TCP for IKE and ESP in TCP (RFC 9329)
PORT_HIP: Final = 10500
PORTS_RADIUS: Final = (1645, 1646, 1812, 1813)

#: Zero bytes before an IKE message where the port also carries ESP (RFC 3948, section 2.2).
NON_ESP_MARKER: Final = bytes(4)
IKE_HEADER_BYTES: Final = 28
ESP_HEADER_BYTES: Final = 8

#: Payload types of IKEv2 and, with 132, of IKEv1.
PAYLOAD_SK: Final = 46
PAYLOAD_SKF: Final = 53
PAYLOAD_IKEV1_FRAGMENT: Final = 132
#: Exchange types of IKEv2 whose messages are in the clear: IKE_SA_INIT, IKE_SESSION_RESUME.
INIT_EXCHANGES: Final = (34, 38)
#: Exchange types of IKEv1's phase 1: main mode and aggressive mode.
PHASE1_EXCHANGES: Final = (2, 4)
