"""Protocol numbers, ports and header sizes shared by the files of this package."""

from typing import Final

ETHERTYPE_IPV4: Final = 0x0800
ETHERTYPE_IPV6: Final = 0x86DD
ETHERTYPE_PPPOE_SESSION: Final = 0x8864
ETHERTYPES_VLAN: Final = (0x8100, 0x88A8, 0x9100, 0x9200, 0x9300)

PROTOCOL_ICMP: Final = 1
PROTOCOL_TCP: Final = 6
PROTOCOL_UDP: Final = 17
ROUTING_HEADER: Final = 43
FRAGMENT_HEADER: Final = 44
PROTOCOL_ESP: Final = 50
PROTOCOL_AH: Final = 51
PROTOCOL_ICMPV6: Final = 58
NO_NEXT_HEADER: Final = 59
PROTOCOL_HIP: Final = 139
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
