"""The core hands back each packet whose headers it does not know as Python does: one of each number is compared."""

import numpy as np
import numpy.typing as npt
import pytest

from ikeanalyze import core
from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.arrays import UInt8Array
from ikeanalyze.capture.decode.layers import IS_KNOWN
from ikeanalyze.capture.decode.link import ETHERTYPE_LINKS, RAW_LINKS
from ikeanalyze.capture.decode.tunnels import IS_TUNNEL_PORT, IS_TUNNEL_PROTOCOL, PORT_L2TP
from ikeanalyze.capture.formats.records import PADDING
from ikeanalyze.capture.protocol_numbers import (
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPES_VLAN,
    EXTENSION_HEADERS,
    FRAGMENT_HEADER,
    MAX_LLC_LENGTH,
    PORT_HIP,
    PORTS_RADIUS,
    PROTOCOL_AH,
    PROTOCOL_ESP,
    PROTOCOL_HIP,
    PROTOCOL_ICMP,
    PROTOCOL_ICMPV6,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
)
from tests.craft import udp_packet

pytestmark = pytest.mark.usefixtures("compiled_core")

RAW = int(RAW_LINKS[-1])
EITHER_PORT = {*PORTS_RADIUS, PORT_HIP, PORT_L2TP}
IKE_PORTS = {500, 4500}
NO_IKE = udp_packet(bytes(40), sport=9, dport=9)
ESP = NO_IKE[:9] + bytes([PROTOCOL_ESP]) + NO_IKE[10:]


def scan(
    frames: UInt8Array, link_type: int = RAW, ports: tuple[int, ...] = ()
) -> tuple[set[int], npt.NDArray[np.int64]]:
    """The frames that are handed back, of frames of one length, and how many others each category has. (n, size)"""
    count, size = frames.shape
    buffer = np.append(frames.ravel(), np.zeros(PADDING, np.uint8))
    sizes = np.full(count, size, np.int64)
    found = core.compiled.scan_packets(
        ports, [link_type], 1, buffer, sizes.cumsum() - sizes, sizes, sizes, sizes, np.zeros(count, np.uint32)
    )
    return set(found.rest.tolist()), found.packets


def repeat(packet: bytes, count: int = 1 << 16) -> UInt8Array:
    return np.tile(np.frombuffer(packet, np.uint8), (count, 1))


def write_numbers(frames: UInt8Array, at: int) -> UInt8Array:
    """Write the number of each frame into 16 bits of it."""
    frames[:, at], frames[:, at + 1] = np.arange(len(frames)) >> 8, np.arange(len(frames)) & 255
    return frames


def ports_of(mask: npt.NDArray[np.bool_]) -> set[int]:
    return set(np.flatnonzero(mask).tolist())


def test_datagrams_to_a_port_of_tunnels_or_other_protocols_are_handed_back():
    back, _ = scan(write_numbers(repeat(NO_IKE), 22))
    assert back - IKE_PORTS == (ports_of(IS_TUNNEL_PORT) | EITHER_PORT) - IKE_PORTS


def test_datagrams_from_a_port_of_other_protocols_are_handed_back():
    back, _ = scan(write_numbers(repeat(NO_IKE), 20))
    assert back - IKE_PORTS == EITHER_PORT


@pytest.mark.parametrize("at", [20, 22], ids=["source", "destination"])
def test_tcp_with_a_port_of_ike_is_handed_back(at: int):
    frames = write_numbers(repeat(NO_IKE), at)
    frames[:, 9] = PROTOCOL_TCP
    back, packets = scan(frames, ports=(700,))
    assert back == {4500, 700}
    assert packets[PacketCategory.OTHER] == (1 << 16) - 2


def test_protocols_that_python_decodes_are_handed_back():
    frames = repeat(NO_IKE, 256)
    frames[:, 9] = np.arange(256)
    frames[:, 20] = 0  # of ICMP: not an error
    back, packets = scan(frames)
    expected = {*EXTENSION_HEADERS, FRAGMENT_HEADER, PROTOCOL_AH, PROTOCOL_HIP, *ports_of(IS_TUNNEL_PROTOCOL)}
    assert back == expected - {PROTOCOL_UDP}
    counted = {
        PROTOCOL_ESP: PacketCategory.ESP,
        PROTOCOL_ICMP: PacketCategory.ICMP,
        PROTOCOL_ICMPV6: PacketCategory.ICMP,
    }
    for protocol, category in counted.items():
        assert scan(frames[protocol : protocol + 1])[1][category] == 1
    assert packets[PacketCategory.OTHER] == 256 - len(back) - len(counted)


def test_ethertypes_that_python_decodes_are_handed_back():
    back, packets = scan(write_numbers(repeat(bytes(14) + NO_IKE), 12), link_type=1)
    lengths = set(range(MAX_LLC_LENGTH + 1))
    # after a VLAN tag, and in IPv6, is no valid packet here
    assert back - {ETHERTYPE_IPV6, *ETHERTYPES_VLAN} == (ports_of(IS_KNOWN) | lengths) - {
        ETHERTYPE_IPV4,
        ETHERTYPE_IPV6,
        *ETHERTYPES_VLAN,
    }
    assert packets[PacketCategory.OTHER] == (1 << 16) - len(back)


@pytest.mark.parametrize("tag", ETHERTYPES_VLAN)
def test_vlan_tags_are_skipped(tag: int):
    frame = bytes(12) + tag.to_bytes(2, "big") + bytes(2) + ETHERTYPE_IPV4.to_bytes(2, "big") + ESP
    assert scan(repeat(frame, 1), link_type=1)[1][PacketCategory.ESP] == 1


def test_the_link_layers_are_those_of_python():
    known = {*ETHERTYPE_LINKS, *RAW_LINKS}
    assert {number for number in range(1 << 16) if core.compiled.reads_link_type(number)} == known


@pytest.mark.parametrize(("link_type", "layout"), [*ETHERTYPE_LINKS.items(), *((raw, (0, 0)) for raw in RAW_LINKS)])
def test_the_packet_is_found_behind_each_link_header(link_type: int, layout: tuple[int, int]):
    size, at = layout
    header = bytearray(size)
    header[at : at + 2] = ETHERTYPE_IPV4.to_bytes(2, "big") if size else b""
    assert scan(repeat(bytes(header) + ESP, 1), link_type=int(link_type))[1][PacketCategory.ESP] == 1
