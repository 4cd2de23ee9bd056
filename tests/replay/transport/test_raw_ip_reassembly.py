import random
from dataclasses import dataclass, field
from itertools import permutations

import pytest
from scapy.layers.inet import IP, UDP, fragment
from scapy.layers.inet6 import IPv6, fragment6

from ikeanalyze.replay.transport.raw_ip import MAX_FRAGMENTS, MAX_WAITING, FragmentReassembler

DATA = random.Random(1).randbytes(3000)


@dataclass
class Whole:
    """Reassembly, with the bytes of what it puts together."""

    reassembly: FragmentReassembler = field(default_factory=FragmentReassembler)

    def add_fragment(self, packet):
        result = self.reassembly.add_fragment(packet, len(packet))
        return None if result is None else result.data


def parts(version, number=7):
    """A datagram of 3,008 bytes in three fragments, as they come from a wire."""
    udp = UDP(sport=500, dport=500) / DATA
    if version == 4:
        cut = fragment(IP(src="10.0.0.1", dst="10.0.0.2", id=number) / udp, 1200)
    else:
        cut = fragment6(IPv6(src="fe80::1", dst="fe80::2") / udp, 1280)
        for one in cut:
            one.payload.id = number
    return [type(item)(bytes(item)) for item in cut]


def whole(version):
    ends = {"src": "10.0.0.1", "dst": "10.0.0.2"} if version == 4 else {"src": "fe80::1", "dst": "fe80::2"}
    return bytes((IP if version == 4 else IPv6)(**ends) / UDP(sport=500, dport=500) / DATA)[-3008:]


@pytest.mark.parametrize("version", [4, 6])
def test_fragments_are_reassembled_in_any_order(version):
    for order in permutations(parts(version)):
        reassembly = Whole()
        assert [reassembly.add_fragment(item) for item in order] == [None, None, whole(version)]


@pytest.mark.parametrize("version", [4, 6])
def test_interleaved_datagrams_are_reassembled(version):
    reassembly = Whole()
    mixed = [item for pair in zip(parts(version, 1), parts(version, 2), strict=True) for item in pair]
    assert [bool(reassembly.add_fragment(item)) for item in mixed] == [False] * 4 + [True] * 2


@pytest.mark.parametrize("version", [4, 6])
def test_a_missing_fragment_leaves_the_datagram_incomplete(version):
    first, _, last = parts(version)
    reassembly = Whole()
    assert (reassembly.add_fragment(first), reassembly.add_fragment(last)) == (None, None)


def test_an_overlap_makes_it_worthless():
    first, second, last = parts(4)
    reassembly = Whole()
    shifted = second.copy()
    shifted.frag -= 1
    for one in (first, IP(bytes(shifted)), second, last):
        assert reassembly.add_fragment(one) is None


def test_memory_is_bounded():
    reassembly = FragmentReassembler()
    first = parts(4)[0]
    for number in range(1, 5 * MAX_WAITING):
        one = first.copy()
        one.id = number
        reassembly.add_fragment(one, len(one))
    assert len(reassembly._incomplete) == MAX_WAITING
    tiny = IP(src="10.0.0.1", dst="10.0.0.2", id=1, flags="MF", proto=17)
    for at in range(5 * MAX_FRAGMENTS):
        one = tiny.copy()
        one.frag = at
        reassembly.add_fragment(IP(bytes(one / bytes(8))), 28)
    assert all(len(item.parts) <= MAX_FRAGMENTS for item in reassembly._incomplete.values())


def test_beyond_the_end_of_a_datagram():
    reassembly = FragmentReassembler()
    one = IP(bytes(IP(src="10.0.0.1", dst="10.0.0.2", id=1, frag=8190, proto=17) / bytes(1400)))
    assert reassembly.add_fragment(one, len(one)) is None
    assert not reassembly._incomplete


@pytest.mark.parametrize("version", [4, 6])
def test_how_large_the_packets_were(version):
    """Fragments have headers of their own: that is what the datagram took on the wire."""
    reassembly, packets = FragmentReassembler(), parts(version)
    result = [reassembly.add_fragment(packet, len(bytes(packet))) for packet in packets][-1]
    head = 20 if version == 4 else 48
    assert result.size == 3008 + len(packets) * head
