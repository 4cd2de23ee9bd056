"""Mutators reach what they promise to change, and keep the rest of a capture."""

import gzip
import struct
from random import Random

import pytest

from fuzz.mutators.binary import choose_boundary, mutate_bytes
from fuzz.mutators.captures import mutate_capture, shorten_capture
from fuzz.mutators.text import mutate_text
from tests.capture.savefiles import NANOSECONDS, enhanced, interface, pcap_header, pcap_record, section

PACKETS = [bytes([number]) * 60 for number in range(1, 7)]


def pcap(order="<"):
    records = [pcap_record(packet, seconds=number, order=order) for number, packet in enumerate(PACKETS)]
    return pcap_header(order) + b"".join(records)


def pcapng(order="<"):
    blocks = [enhanced(packet, ticks=number, order=order) for number, packet in enumerate(PACKETS)]
    return section(order) + interface(order=order) + b"".join(blocks)


FILES = {f"{make.__name__}{order}": make(order) for make in (pcap, pcapng) for order in "<>"}


def mutations(data, count=2000):
    return [mutate_capture(data, Random(number)) for number in range(count)]


@pytest.mark.parametrize("name", FILES)
def test_packets_are_dropped_doubled_and_swapped(name):
    orders = set()
    for data in mutations(FILES[name]):
        places = sorted((data.find(packet), number) for number, packet in enumerate(PACKETS) if packet in data)
        orders.add((tuple(number for _, number in places), max(data.count(packet) for packet in PACKETS)))
    assert any(len(order) == 5 for order, _ in orders), "no packet is dropped"
    assert any(count > 1 for _, count in orders), "no packet is doubled"
    assert any(sorted(order) == list(range(6)) != list(order) for order, _ in orders), "no packets are swapped"


@pytest.mark.parametrize("name", FILES)
def test_most_mutations_keep_most_packets(name):
    kept = [sum(packet in data for packet in PACKETS) for data in mutations(FILES[name])]
    assert sum(count >= 3 for count in kept) > len(kept) * 0.7


def test_link_types_and_resolution_of_pcap_change():
    heads = {data[:24] for data in mutations(pcap()) if len(data) > 24}
    assert len({head[20:22] for head in heads}) > 5
    assert NANOSECONDS.to_bytes(4, "little") in {head[:4] for head in heads}


@pytest.mark.parametrize("order", "<>")
def test_interfaces_of_pcapng_get_time_options(order):
    found = mutations(pcapng(order))
    for code, size in ((9, 1), (14, 8)):  # if_tsresol, if_tsoffset
        assert any(struct.pack(order + "2H", code, size) in data for data in found)


def test_times_at_the_ends_of_their_range_occur():
    times = set()
    for data in mutations(pcap()):
        place = 24
        while place + 16 <= len(data):
            times.add(struct.unpack_from("<I", data, place)[0])
            place += 16 + struct.unpack_from("<I", data, place + 8)[0]
    assert {0, 2**31, 2**32 - 1} <= times


def test_compressed_captures_are_made_changed_and_damaged():
    made = [data for data in mutations(pcap(), 5000) if data[:2] in (b"\x1f\x8b", b"\x28\xb5")]
    assert {data[:2] for data in made} == {b"\x1f\x8b", b"\x28\xb5"}
    whole = damaged = 0
    for data in mutations(gzip.compress(pcap(), mtime=0)):
        if data[:2] == b"\x1f\x8b":
            try:
                whole += gzip.decompress(data) != pcap()
            except (OSError, EOFError):
                damaged += 1
            except Exception:  # zlib.error has no common base class
                damaged += 1
    assert whole > 50
    assert damaged > 50


@pytest.mark.parametrize("name", FILES)
def test_a_mutated_capture_can_be_mutated_again(name):
    data, rng = FILES[name], Random(1)
    for _ in range(3000):
        data = mutate_capture(data, rng)[:20000]


@pytest.mark.parametrize("data", [b"", b"\0", b"\xd4\xc3\xb2\xa1", b"\n\r\r\n", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"])
def test_fragments_of_a_file_can_be_mutated(data):
    for number in range(300):
        mutate_capture(data, Random(number))
        mutate_text(data, Random(number))
        mutate_bytes(data, Random(number))


@pytest.mark.parametrize("name", FILES)
def test_shortened_captures_have_whole_packets(name):
    data = FILES[name]
    head = data[: data.index(PACKETS[2])]
    assert shorten_capture(data, len(head)) == head[: len(shorten_capture(data, len(head)))]
    assert PACKETS[1] in shorten_capture(data, len(head))
    assert shorten_capture(data, len(data)) == data


def test_same_size_keeps_the_size():
    for number in range(500):
        assert len(mutate_bytes(bytes(40), Random(number), same_size=True)) == 40
    assert mutate_bytes(b"", Random(1), same_size=True) == b""


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_boundaries_include_the_ends(size):
    values = {choose_boundary(Random(number), size) for number in range(2000)}
    assert {bytes(size), b"\xff" * size} <= values
