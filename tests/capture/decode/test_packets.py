"""The one way from frames to IP packets; what is made of them is tested in test_collector and test_esp."""

import numpy as np

from ikeanalyze.capture.decode.ip import AddressBook, build_reassembled_packets, extract_fragments
from ikeanalyze.capture.decode.ip_reassembly import FragmentedPacket, IpFragment
from ikeanalyze.capture.decode.packets import IpPacketFinder
from ikeanalyze.capture.decode.tunnel_book import TunnelBook
from ikeanalyze.capture.reader import open_capture
from tests.craft import Packet, ipv4, ipv6, link, pcap


def batch_of(tmp_path, *frames, **options):
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap([Packet(n, data) for n, data in enumerate(frames)], **options))
    with open_capture(str(path)) as reader:
        return next(iter(reader.iterate_batches())), reader.interfaces


def test_packets_and_impossible_headers(tmp_path):
    good, cut = link.ethernet(ipv4(bytes(8))), link.ethernet(ipv4(bytes(8)))[:30]
    six = link.ethernet(ipv6(bytes(8), "2001:db8::1", "2001:db8::2", 17))
    batch, interfaces = batch_of(tmp_path, good, cut, six, six[:40])
    book = AddressBook()
    finder = IpPacketFinder(interfaces, book, TunnelBook())
    packets = finder.read(batch)
    assert sorted(packets.row.tolist()) == [0, 2]
    reasons = [(1, "IPv4 header is truncated or invalid"), (3, "IPv6 header is truncated or invalid")]
    assert finder.pop_malformed() == reasons
    assert len(book.ipv6) == 2


def test_a_link_type_that_is_not_decoded(tmp_path):
    batch, interfaces = batch_of(tmp_path, bytes(40), bytes(40), linktype=195)
    reader = IpPacketFinder(interfaces, AddressBook(), TunnelBook())
    assert reader.read(batch) is None
    reader.read(batch)
    assert reader.foreign_links == {195: 4}


def test_fragments_keep_what_their_frames_were(tmp_path):
    first = link.ethernet(ipv4(bytes(range(16)), ident=9, ttl=3, offset=0, more=True))
    batch, interfaces = batch_of(tmp_path, first)
    packets = IpPacketFinder(interfaces, AddressBook(), TunnelBook()).read(batch)
    ((key, protocol, fragment),) = extract_fragments(batch, packets, 5)
    assert (key[2], protocol, key[4]) == (9, 17, 3)
    assert (fragment.number, fragment.length, fragment.ttl) == (5, len(first), 3)
    assert (fragment.offset, fragment.more, fragment.payload) == (0, True, bytes(range(16)))


def test_datagrams_as_packets():
    def fragment(offset, more, data):
        return IpFragment(1, 0, 0, 60, 60, 64, offset, more, data, len(data))

    datagrams = []
    for source, parts in ((1, (b"a" * 8, b"b" * 4)), (2, (b"c" * 16,))):
        datagram = FragmentedPacket((source, 9, 7, 17, 64, 0), 17)
        for index, data in enumerate(parts):
            datagram.add(fragment(8 * index, index + 1 < len(parts), data))
        datagrams.append(datagram)
    buffer, packets, cut = build_reassembled_packets(datagrams)
    taken = [bytes(buffer[a:b]) for a, b in zip(packets.at, packets.end, strict=True)]
    assert taken == [b"a" * 8 + b"b" * 4, b"c" * 16]
    assert packets.source.tolist() == [1, 2]
    assert packets.row.tolist() == [0, 1]
    assert not np.any(cut)
