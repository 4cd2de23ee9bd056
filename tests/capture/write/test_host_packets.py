"""Packets between hosts besides IKE: ESP with and without UDP, NAT keepalives, TCP, each also in IP fragments."""

import struct

import pytest

from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.write.host_packets import find_host_packets
from tests.craft import SECOND, Packet, ip_fragments, link, pcap
from tests.craft.tunnel import over_udp, vxlan
from tests.paths import CAPTURES, LAB_CAPTURES

HOSTS = ("192.0.2.1", "192.0.2.2")


def ipv4(protocol, payload, source=b"\xc0\0\2\1", destination=b"\xc0\0\2\2"):
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 7, 0, 64, protocol, 0)
    return header + source + destination + payload


def udp(payload, source=4500, destination=4500):
    return struct.pack(">4H", source, destination, 8 + len(payload), 0) + payload


ESP = struct.pack(">II", 0xABCD0123, 1) + bytes(40)


def find(tmp_path, *packets, hosts=HOSTS, ports=()):
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([Packet(number, link.ethernet(data)) for number, data in enumerate(packets)]))
    return find_host_packets(str(path), hosts, ports)


def test_esp_and_keepalives(tmp_path):
    bare, in_udp, keepalive = find(tmp_path, ipv4(50, ESP), ipv4(17, udp(ESP)), ipv4(17, udp(b"\xff")))
    assert (bare.kind, bare.spi, bare.source_port) == (PacketCategory.ESP, 0xABCD0123, None)
    assert (in_udp.kind, in_udp.spi, in_udp.source_port) == (PacketCategory.ESP, 0xABCD0123, 4500)
    assert (keepalive.kind, keepalive.spi, keepalive.number) == (PacketCategory.NAT_KEEPALIVE, None, 3)


def test_other_hosts_and_other_traffic_are_left_out(tmp_path):
    packets = (
        ipv4(50, ESP, destination=b"\xc0\0\2\3"),
        ipv4(17, udp(b"query", 53, 53)),
        ipv4(6, struct.pack(">HHII", 80, 80, 1, 1) + b"\x50" + bytes(7)),
    )
    assert find(tmp_path, *packets) == []
    assert len(find(tmp_path, ipv4(17, udp(ESP, 4501, 4501)), ports=(4501,))) == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "reversed"])
def test_ip_fragments_belong_to_their_packet(tmp_path, order):
    fragments = ip_fragments(ipv4(50, ESP), 44)
    packets = find(tmp_path, *(fragments[place] for place in order))
    assert [packet.number for packet in packets] == [1, 2]
    assert {(packet.kind, packet.spi) for packet in packets} == {(PacketCategory.ESP, 0xABCD0123)}


def test_ip_fragments_of_other_datagrams_with_the_same_identification_are_left_out(tmp_path):
    query, esp = ip_fragments(ipv4(17, udp(bytes(40), 53, 53)), 44), ip_fragments(ipv4(50, ESP), 44)
    assert [packet.number for packet in find(tmp_path, *query, *esp)] == [3, 4]
    assert [packet.number for packet in find(tmp_path, *esp, *query)] == [1, 2]


def test_a_second_packet_with_the_same_identification_has_its_own_fragments(tmp_path):
    other = struct.pack(">II", 0xABCD0124, 1) + bytes(40)
    packets = find(tmp_path, *ip_fragments(ipv4(50, ESP), 44), *ip_fragments(ipv4(50, other), 44))
    assert [packet.spi for packet in packets] == [0xABCD0123, 0xABCD0123, 0xABCD0124, 0xABCD0124]


def test_an_ip_fragment_long_before_its_first_one_is_of_another_datagram(tmp_path):
    first, later = ip_fragments(ipv4(50, ESP), 44)
    path = tmp_path / "a.pcap"
    for gap, numbers in ((30 * SECOND, [1, 2]), (31 * SECOND, [2])):
        path.write_bytes(pcap([Packet(0, link.ethernet(later)), Packet(gap, link.ethernet(first))]))
        assert [packet.number for packet in find_host_packets(str(path), HOSTS)] == numbers


def test_packets_in_tunnels(tmp_path):
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([Packet(0, over_udp(vxlan(link.ethernet(ipv4(50, ESP))), 4789))]))
    (packet,) = find_host_packets(str(path), HOSTS)
    assert (packet.tunnel, packet.source) == ("vxlan:42", "192.0.2.1")


def test_recorded_captures():
    """tcp-psk has 14 segments and nothing else; ipv6 of the lab has no packet but IKE."""
    segments = find_host_packets(str(CAPTURES / "tcp-psk.pcap"), HOSTS)
    assert [packet.number for packet in segments] == list(range(1, 15))
    assert find_host_packets(str(LAB_CAPTURES / "ipv6.pcapng"), ("2001:db8::1", "2001:db8::2")) == []
