from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ikeanalyze.capture.decode.ip_reassembly import TIMEOUT_NS, IpFragment, IpReassembler
from tests.capture.laws import bytes_by_datagram, counted, read_packets, read_trace, rows, texts, total
from tests.craft import (
    MS,
    SECOND,
    Handshake,
    Trace,
    ike,
    ip,
    ip_fragments,
    ipv4,
    ipv6,
    link,
    transport,
    udp,
    udp_packet,
)

SHAKE = Handshake(1, switch=False)
SHAKE.init()
LARGE = SHAKE.encrypted(ike.IKE_AUTH, 3500).datagrams[0]
OTHER = SHAKE.encrypted(ike.IKE_AUTH, 3500, message_id=2).datagrams[0]
CLEAR = Handshake(2, notifies=[ike.notify(40000, bytes(3000))]).init()[0].datagrams[0]
ENDS = {"ipv4": ("192.0.2.1", "192.0.2.2"), "ipv6": ("2001:db8::1", "2001:db8::2")}
US = 1000


def pieces(
    message: bytes = LARGE, family: str = "ipv4", ident: int = 77, mtu: int = 1280, port: int = 500
) -> list[bytes]:
    return [link.ethernet(part) for part in ip_fragments(udp_packet(message, 500, port, *ENDS[family]), mtu, ident)]


def trace_of(frames: list[bytes], gap: int = 10 * US) -> Trace:
    trace = Trace()
    for index, data in enumerate(frames):
        trace.add(index * gap, data)
    return trace


@pytest.mark.parametrize("family", ENDS)
def test_fragments_are_reassembled_in_any_order(family: str) -> None:
    frames = pieces(family=family)
    assert len(frames) == 3
    seen = set()
    for order in permutations(frames):
        capture = read_trace(trace_of(list(order)))
        assert counted(capture) == {"ike": 3}
        assert rows(capture, "number", "bytes") == [(n, len(data)) for n, data in enumerate(order, 1)]
        assert (
            rows(capture, "datagram", "ip_fragment", "ike_bytes", "ip_id", "destination_port")
            == [(0, True, len(LARGE), 77, 500)] * 3
        )
        seen |= set(rows(capture, "digest"))
    assert len(seen) == 1
    whole = Trace(mtu=9000)
    whole.send(0, LARGE, source=ENDS[family][0], destination=ENDS[family][1])
    assert set(rows(read_trace(whole), "digest")) == seen


@pytest.mark.parametrize("family", ENDS)
def test_interleaved_datagrams(family: str) -> None:
    first, second = pieces(LARGE, family, 1), pieces(OTHER, family, 2)
    mixed = [data for pair in zip(first, reversed(second), strict=True) for data in pair]
    capture = read_trace(trace_of(mixed))
    assert counted(capture) == {"ike": 6}
    assert {datagram for datagram, number in rows(capture, "datagram", "number") if number % 2} == {0}
    assert sorted(bytes_by_datagram(capture).values()) == sorted([sum(map(len, first)), sum(map(len, second))])
    assert rows(capture, "message_id")[:2] == [(1,), (2,)]


def test_same_identification_between_other_hosts_or_protocols() -> None:
    packet = udp_packet(LARGE)
    esp = ipv4(transport.esp(1, 1, bytes(3000)), protocol=ip.ESP)
    back = udp_packet(OTHER, 500, 500, "192.0.2.2", "192.0.2.1")
    parts = [ip_fragments(item, 1280, 5) for item in (packet, esp, back)]
    frames = [link.ethernet(item) for group in zip(*parts, strict=True) for item in group]
    assert counted(read_trace(trace_of(frames))) == {"ike": 6, "esp": 3}


@pytest.mark.parametrize("family", ENDS)
@pytest.mark.parametrize("at_once", [True, False])
def test_capture_that_saw_all_twice(family: str, at_once: bool) -> None:
    frames = pieces(family=family)
    twice = [data for data in frames for _ in range(2)] if at_once else frames * 2
    capture = read_trace(trace_of(twice))
    assert counted(capture) == {"ike": 6}
    again = [number for number, repeated in rows(capture, "number", "capture_duplicate") if repeated]
    assert again == ([2, 4, 6] if at_once else [4, 5, 6])
    assert set(rows(capture, "datagram")) == {(0,)}


@pytest.mark.parametrize("family", ENDS)
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_one_fragment_is_missing(family: str, lost: int) -> None:
    frames = pieces(family=family)
    again = pieces(family=family, ident=78)
    trace = trace_of(frames[:lost] + frames[lost + 1 :])
    for index, data in enumerate(again):
        trace.add(SECOND + index, data)
    capture = read_trace(trace)
    if lost == 0:  # nothing tells what the others are
        assert counted(capture) == {"ike": 3, "other": 2}
        assert capture.warnings == []
        return
    assert counted(capture) == {"ike": 5}
    assert sorted(bytes_by_datagram(capture).values()) == sorted(
        [sum(map(len, frames)) - len(frames[lost]), sum(map(len, again))]
    )
    # it is a transmission of the same message, though some of its bytes are not known
    assert len(set(rows(capture, "digest"))) == 1
    [(number, warning)] = capture.warnings
    assert number == 1
    assert warning.startswith("a message lacks")


@pytest.mark.parametrize("family", ENDS)
def test_a_network_that_doubles_fragments(family: str) -> None:
    """Between the fragments of one datagram, one comes again: an extra frame of the same message."""
    first, second, third = pieces(family=family)
    trace = trace_of([first, second, first, third], gap=5 * MS)
    capture = read_trace(trace)
    assert counted(capture) == {"ike": 4}
    assert rows(capture, "datagram", "capture_duplicate") == [(0, False)] * 4
    assert bytes_by_datagram(capture) == {0: sum(map(len, (first, second, first, third)))}
    assert capture.warnings == []
    # behind the shortest timer of a sender it is another transmission, and neither is whole
    assert read_trace(trace_of([first, second, first, third], gap=300 * MS)).warnings != []


@pytest.mark.parametrize("family", ENDS)
@pytest.mark.parametrize("order", [(0, 0, 1, 1, 2, 2), (0, 1, 0, 2, 1, 2), (0, 1, 2, 2), (0, 1, 2, 1, 0)])
def test_a_network_that_doubles_the_last_fragments(family: str, order: tuple[int, ...]) -> None:
    """What comes again behind the whole is of the same message, as long as it is not all of it."""
    parts = pieces(family=family)
    frames = [parts[place] for place in order]
    # the identification may be another message's soon
    later = pieces(OTHER, family)
    for follows in ([], later):
        trace = trace_of(frames, gap=5 * MS)
        for number, data in enumerate(follows):
            trace.add((600 + number) * MS, data)
        capture = read_trace(trace)
        assert counted(capture) == {"ike": len(frames) + len(follows)}
        assert rows(capture, "datagram", "capture_duplicate") == [(0, False)] * len(frames) + [
            (1, False) for _ in follows
        ]
        assert capture.warnings == []
    # all of it is a message that was sent again
    assert set(rows(read_trace(trace_of(parts * 2, gap=5 * MS)), "datagram")) == {(0,), (1,)}


def test_clear_message_with_a_fragment_missing_is_no_other_than_the_whole_one() -> None:
    different = bytearray(CLEAR)
    different[60] ^= 1
    for message, digests in ((CLEAR, 1), (bytes(different), 2)):
        trace = trace_of(pieces(message)[:2])
        for index, data in enumerate(pieces(CLEAR, ident=78)):
            trace.add(SECOND + index, data)
        capture = read_trace(trace)
        assert counted(capture) == {"ike": 5}
        assert len(set(rows(capture, "digest"))) == digests
        assert sorted(map(len, capture.clear.values())) == [1280 - 20 - 4 - 8 + 1256, len(CLEAR)]


def test_same_identification_for_a_retransmission() -> None:
    frames = pieces(ident=1)
    trace = trace_of(frames)
    for index, data in enumerate(frames):
        trace.add(SECOND // 2 + index, data)
    capture = read_trace(trace)
    assert counted(capture) == {"ike": 6}
    assert rows(capture, "datagram") == [(0,)] * 3 + [(1,)] * 3
    assert not any(repeated for (repeated,) in rows(capture, "capture_duplicate"))


def test_same_identification_after_a_loss() -> None:
    frames = pieces(ident=1)
    trace = trace_of(frames[:2])
    for index, data in enumerate(frames):
        trace.add(SECOND // 2 + index, data)
    capture = read_trace(trace)
    assert counted(capture) == {"ike": 5}
    assert sorted(bytes_by_datagram(capture).values()) == [sum(map(len, frames[:2])), sum(map(len, frames))]


@pytest.mark.parametrize(("wait", "datagrams"), [(TIMEOUT_NS, 1), (TIMEOUT_NS + 1, None)])
def test_fragments_are_dropped_after_the_timeout(wait: int, datagrams: int | None) -> None:
    frames = pieces()
    trace = Trace()
    for time, data in zip((0, 1, wait), frames, strict=True):
        trace.add(time, data)
    capture = read_trace(trace)
    assert counted(capture) == ({"ike": 3} if datagrams else {"ike": 2, "other": 1})


def test_never_completed_until_the_end() -> None:
    capture = read_trace(trace_of(pieces()[:1]))
    assert counted(capture) == {"ike": 1}
    assert len(texts(capture)) == 1
    assert counted(read_trace(trace_of(pieces()[1:]))) == {"other": 2}


def test_overlapping_fragments() -> None:
    segment = udp(LARGE, 500, 500)
    parts = [(0, 1600, True), (1200, 2800, True), (2400, len(segment), False)]
    frames = [link.ethernet(ipv4(segment[begin:end], ident=9, offset=begin, more=more)) for begin, end, more in parts]
    for order in permutations(frames):
        capture = read_packets(*order)
        assert counted(capture) == {"ike": 3}
        assert len(set(rows(capture, "datagram"))) == 1


def test_fragments_of_esp_hip_radius_ports_and_others() -> None:
    esp = transport.esp(5, 5, bytes(3000))
    packets = [
        ipv4(esp, protocol=ip.ESP),
        ipv6(esp, next_header=ip.ESP),
        udp_packet(esp, 4500, 4500),
        udp_packet(bytes(3000), 53, 53),
        ipv4(bytes(3000), protocol=ip.TCP),
        ipv4(b"\x08" + bytes(3000), protocol=ip.ICMP),
    ]
    trace = Trace(mtu=1400)
    for packet in packets:
        trace.ip(0, packet)
    counts = {"esp": 9, "other": 6, "icmp": 3}
    assert counted(read_trace(trace)) == counts


def test_options_behind_the_fragment_header() -> None:
    for chain in ([ip.destination_options(bytes(40))], [ip.destination_options(), ip.destination_options()]):
        segment = udp(LARGE, 500, 500, *ENDS["ipv6"])
        packet = ipv6(segment, *ENDS["ipv6"], extensions=[ip.hop_by_hop(), *chain])
        frames = [link.ethernet(part) for part in ip_fragments(packet, 1280, 3)]
        capture = read_packets(*frames)
        assert counted(capture) == {"ike": len(frames)}
        assert rows(capture, "ike_bytes") == [(len(LARGE),)] * len(frames)


def test_options_that_fill_a_fragment_are_cut() -> None:
    part = ip.destination_options(bytes(1000)).rest[:7]
    frame = ipv6(b"\x11" + part, next_header=60, extensions=[ip.fragment_header(0, True, 4)])
    capture = read_packets(link.ethernet(frame))
    assert counted(capture) == {"malformed": 1}


def test_fragments_of_a_fragmented_message() -> None:
    messages = SHAKE.encrypted(ike.IKE_AUTH, 6000, message_id=3, fragments=2).datagrams
    trace = Trace(mtu=1280)
    for index, data in enumerate(messages):
        trace.send(index * MS, data)
    capture = read_trace(trace)
    assert rows(capture, "datagram", "fragment", "fragments") == [(0, 1, 2)] * 3 + [(1, 2, 2)] * 3


def test_snapshot_length_cuts_fragments() -> None:
    trace = Trace()
    for index, data in enumerate(pieces()):
        trace.add(index, data[:96], length=len(data))
    capture = read_trace(trace)
    assert counted(capture) == {"ike": 3}
    assert capture.snaplen_truncated == 3
    assert rows(capture, "bytes", "captured") == [(len(data), 96) for data in pieces()]
    assert capture.warnings == []


def test_thousands_of_pending_datagrams() -> None:
    trace = Trace()
    first = [ip_fragments(udp_packet(bytes(3000), 9, 9), 1500, ident)[0] for ident in range(6000)]
    for ident, part in enumerate(first):
        trace.add(ident * US, link.ethernet(part))
    trace.add(7 * MS, pieces(ident=6001)[0])
    trace.add(8 * MS, pieces(ident=6001)[1])
    trace.add(9 * MS, pieces(ident=6001)[2])
    assert counted(read_trace(trace)) == {"other": 6000, "ike": 3}


def test_many_repeated_datagrams() -> None:
    trace = Trace()
    for index in range(2000):
        for copy in range(2):
            trace.repeat(trace_of(pieces(ident=index + 1)).packets, index * 10 * MS + copy * 100 * US)
    capture = read_trace(trace)
    assert counted(capture) == {"ike": 12000}
    assert sum(repeated for (repeated,) in rows(capture, "capture_duplicate")) == 6000
    assert len(set(rows(capture, "datagram"))) == 2000


def test_smallest_fragments_in_any_order() -> None:
    segment = udp(LARGE, 500, 500)
    frames = [
        link.ethernet(ipv4(segment[at : at + 8], ident=5, offset=at, more=at + 8 < len(segment)))
        for at in range(0, len(segment), 8)
    ]
    Random(1).shuffle(frames)
    assert counted(read_packets(*frames)) == {"ike": len(frames)}


def test_reassembler_forgets_what_it_has_given() -> None:
    reassembler = IpReassembler()
    template = IpFragment(1, 0, 0, 100, 100, 64, 0, True, bytes(80), 80)
    for number in range(20000):
        key = (1, 2, number % 65536, 17)
        time = number * 10 * MS
        assert not list(reassembler.add(key, 17, replace(template, time_ns=time)))
        [datagram] = reassembler.add(key, 17, replace(template, time_ns=time + 1, offset=80, more=False))
        assert datagram.payload() == (bytes(160), 160)
    assert len(reassembler._completed) < 50
    assert not list(reassembler.finish())


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 4000), min_size=1, max_size=6),
    family=st.sampled_from(sorted(ENDS)),
    idents=st.lists(st.integers(1, 3), min_size=6, max_size=6),
    seed=st.integers(0, 2**20),
    losses=st.integers(0, 3),
)
def test_no_byte_is_lost_whatever_comes(
    sizes: list[int], family: str, idents: list[int], seed: int, losses: int
) -> None:
    rng = Random(seed)
    frames = []
    for size, ident in zip(sizes, idents, strict=False):
        message = SHAKE.encrypted(ike.IKE_AUTH, size, message_id=1).datagrams[0]
        frames += pieces(message, family, ident, mtu=600 if family == "ipv4" else 1280)
    rng.shuffle(frames)
    frames = frames[: max(1, len(frames) - losses)]
    trace = Trace()
    for data in frames:
        trace.add(rng.randrange(40 * SECOND), data)
    capture = read_trace(trace)
    assert set(counted(capture)) <= {"ike", "other", "malformed"}
    assert capture.bytes == total(trace.packets)


def wrap_in_gre(packet: bytes) -> bytes:
    """RFC 2784: four bytes, the last two of which are the EtherType."""
    return ipv4(bytes.fromhex("0000 0800") + packet, "198.51.100.1", "198.51.100.2", 47)


@pytest.mark.turns
def test_packets_with_fragments_in_fragments_are_counted_and_named(tshark) -> None:
    """Fragments of 1,500, 1,500 and 596 bytes in a tunnel whose link carries 1,500: the first two are cut once more."""
    inner = ip_fragments(udp_packet(LARGE, 500, 500), 1500, ident=1)
    assert list(map(len, inner)) == [1500, 1500, len(udp_packet(LARGE, 500, 500)) - 2 * 1480]
    trace = Trace()
    trace.message(0, Handshake(2).init()[0])
    for place, fragment in enumerate(inner):
        trace.ip((place + 1) * MS, wrap_in_gre(fragment))
    # tshark reads a message in the packet that completes it, after one in a packet of its own
    assert tshark.run("-n", "-Y", "isakmp", "-Tfields", "-eframe.number", capture=trace.pcap()).lines == ["1", "6"]
    capture = read_trace(trace)
    assert counted(capture) == {"ike": 1, "other": 5}
    named = "4 packets are inside tunnels with two levels of IP fragments, which cannot be read: counted as other"
    assert texts(capture) == [named]
