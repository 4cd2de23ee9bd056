import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.capture.formats.pcapng import InterfaceClock, Pcapng, get_section_header_size, is_pcapng
from ikeanalyze.capture.formats.records import PADDING, WalkResult
from ikeanalyze.capture.reader import open_capture
from tests.capture.savefiles import block, enhanced, interface, obsolete, option, section, simple
from tests.paths import CAPTURES

US = 1000


def walk(data: bytes, reader: Pcapng | None = None) -> tuple[WalkResult, bytearray, Pcapng]:
    buffer = bytearray(data + bytes(PADDING))
    reader = reader or Pcapng()
    return reader.walk(buffer, np.frombuffer(buffer, np.uint8), 0, len(data)), buffer, reader


def packets(walked: WalkResult, buffer: bytearray) -> list[tuple[bytes, int, int, int]]:
    """Bytes, length on the wire, time and interface of each."""
    b = walked.batch
    rows = zip(*(c.tolist() for c in (b.offset, b.captured, b.length, b.time_ns, b.interface)), strict=True)
    return [(bytes(buffer[at : at + n]), length, time, number) for at, n, length, time, number in rows]


def read(data: bytes) -> list[tuple[bytes, int, int, int]]:
    walked, buffer, _ = walk(data)
    assert walked.wrong is None
    assert walked.stop == len(data)
    return packets(walked, buffer)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("length", [-1, 0, 12345])
def test_packet_blocks_of_all_kinds_are_read(order: str, length: int) -> None:
    data = (
        section(order, length, options=option(4, b"editor", order))
        + interface(1, 0, order)
        + interface(101, 4, order)
        + enhanced(b"one", 1 << 40, 1, 90, order, option(1, b"a comment", order))
        + simple(b"two", None, order)
        + obsolete(b"three", 9, 1, 0xABCD, order)
        + simple(b"four", None, order)
        + enhanced(b"", 5, 0, 0, order)
    )
    assert is_pcapng(data[:4])
    assert get_section_header_size(data[:12]) == len(section(order, options=option(4, b"editor", order)))
    assert read(data) == [
        (b"one", 90, (1 << 40) * US, 1),
        (b"two", 3, (1 << 40) * US, 0),
        (b"three", 5, 9 * US, 1),
        (b"four", 4, 9 * US, 0),
        (b"", 0, 5 * US, 0),
    ]


def test_simple_packet_blocks_are_read() -> None:
    first = section() + interface(1, 4) + simple(b"cut!", 1500) + simple(b"abc") + enhanced(b"timed", 3)
    walked, buffer, reader = walk(first)
    assert packets(walked, buffer) == [
        (b"cut!", 1500, 0, 0),
        (b"abc", 3, 0, 0),
        (b"timed", 5, 3 * US, 0),
    ]
    (note,) = reader.notes
    assert (note.first, note.count) == (1, 2)
    walked, buffer, _ = walk(simple(b"next"), reader)
    assert packets(walked, buffer) == [(b"next", 4, 3 * US, 0)]
    assert (note.first, note.count) == (1, 3)


def test_simple_packet_note_counts_from_the_first_one() -> None:
    _, _, reader = walk(section() + interface() + enhanced(b"a") * 5 + simple(b"b") + enhanced(b"c"))
    assert (reader.notes[0].first, reader.notes[0].count) == (6, 1)


def test_simple_packet_that_claims_more_than_its_block_has() -> None:
    assert read(section() + interface() + simple(b"abcd", 1500)) == [(b"abcd", 1500, 0, 0)]


def test_other_blocks_are_skipped() -> None:
    others = [block(kind, b"\xde\xad\xbe\xef" * 5) for kind in (4, 5, 10, 0xBAD, 0x40000BAD, 0x80000001, 77)]
    data = section() + interface()
    for other in others:
        data += other + enhanced(b"x")
    assert len(read(data)) == len(others)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [9, 0xBAD, 0x40000BAD])
def test_blocks_with_frame_numbers_in_wireshark_are_noted_once(kind: int, order: str) -> None:
    begin = section(order) + interface(order=order)
    packet, other = enhanced(b"x", order=order), block(kind, b"some", order)
    walked, _, reader = walk(begin + packet * 2 + other + packet + other * 2 + packet)
    assert len(walked.batch) == 4
    (note,) = reader.notes
    assert (note.first, note.count) == (3, 2)
    assert "frame numbers in Wireshark are higher" in note.what
    walk(section(order) + interface(order=order) + other + packet, reader)
    assert (note.first, note.count, len(reader.notes)) == (3, 3, 1)


def test_blocks_after_the_last_packet_are_not_noted() -> None:
    _, _, reader = walk(section() + interface() + enhanced(b"x") + block(9, b"some"))
    assert reader.notes == []


def test_interfaces_are_numbered_over_all_sections() -> None:
    data = (
        section("<")
        + interface(1, 100, options=option(2, b"eth0\0") + option(3, b"unused"))
        + enhanced(b"a", 1)
        + interface(101, 0, options=option(1, b"comment") + option(3, "caf\u00e9".encode()))
        + enhanced(b"b", 2, 1)
        + section(">")
        + interface(113, 7, ">", option(9, b"\x09", ">"))
        + enhanced(b"c", 3, 0, order=">")
        + section("<")
        + section("<")
        + interface(0, options=option(2, b"") + option(0, b""))
        + enhanced(b"d", 4)
    )
    walked, buffer, reader = walk(data)
    assert [(i.link_type, i.name, i.snaplen) for i in reader.interfaces] == [
        (1, "eth0", 100),
        (101, "caf\u00e9", 0),
        (113, None, 7),
        (0, None, 0),
    ]
    assert packets(walked, buffer) == [
        (b"a", 1, 1 * US, 0),
        (b"b", 1, 2 * US, 1),
        (b"c", 1, 3, 2),
        (b"d", 1, 4 * US, 3),
    ]


def test_clocks_of_several_interfaces() -> None:
    data = section() + interface() + interface(options=option(9, b"\x09") + option(14, struct.pack("<q", -2)))
    data += enhanced(b"a", 5, 0) + enhanced(b"b", 5_000_000_007, 1) + simple(b"c") + enhanced(b"d", 6, 0)
    assert [p[2] for p in read(data)] == [5 * US, 3_000_000_007, 3_000_000_007, 6 * US]


def test_an_interface_before_each_packet() -> None:
    """Steps for each interface at each of them would take minutes for a file of some megabytes."""
    count = 2000
    clocks = [struct.pack("<q", number % 700) for number in range(count)]
    data = section()
    for number, offset in enumerate(clocks):
        data += interface(options=option(14, offset)) + enhanced(b"x", ticks=number, number=number)
    order = [number * 7 % count for number in range(count)]
    data += b"".join(enhanced(b"x", ticks=number, number=number) for number in order)
    expected = [(number % 700 * 10**9 + number * US, number) for number in (*range(count), *order)]
    assert [(time, number) for _, _, time, number in read(data)] == expected


def expected_time(ticks: int, resolution: int, offset: int) -> int:
    unit = Fraction(1, 2 ** (resolution & 127) if resolution & 128 else 10 ** (resolution & 127))
    exact = (ticks * unit * 10**9).__floor__() + offset * 10**9
    return min(max(exact, 1 - (1 << 62)), (1 << 62) - 1)


@given(
    st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=5),
    st.integers(0, 255),
    st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-100, 100),
)
def test_time_is_exact_for_any_resolution(ticks: list[int], resolution: int, offset: int) -> None:
    got = InterfaceClock(resolution, offset).nanoseconds(np.array(ticks, np.uint64)).tolist()
    assert got == [expected_time(t, resolution, offset) for t in ticks]


@pytest.mark.parametrize("resolution", [0, 3, 6, 9, 10, 12, 18, 0x80, 0x8A, 0x9E, 0xA0, 0xA1, 0xB4, 0xBF])
def test_time_of_today_needs_no_wide_integers(resolution: int) -> None:
    unit = 2 ** (resolution & 127) if resolution & 128 else 10 ** (resolution & 127)
    ticks = min(1_700_000_000 * unit + 123_456_789 * unit // 10**9, (1 << 64) - 1)
    clock = InterfaceClock(resolution)
    assert clock._convert_without_offset(np.array([ticks], np.uint64)) is not None
    assert clock.nanoseconds(np.array([ticks], np.uint64)).tolist() == [expected_time(ticks, resolution, 0)]


GOOD = section() + interface() + enhanced(b"good", 1)


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (enhanced(b"x", number=1), "interface 1"),
        (obsolete(b"x", number=1), "interface 1"),
        (block(6, struct.pack("<5I", 0, 0, 0, 9, 9) + b"12345678"), "packet of 9"),
        (block(6, struct.pack("<5I", 0, 0, 0, 0xFFFFFFFF, 9) + b"12345678"), "packet of 4294967295"),
        (block(6, b"short"), "20 bytes"),
        (block(3, b""), "12 bytes"),
        (block(6, bytes(20), trailer=36), "another length"),
        (block(2, bytes(20), trailer=36), "another length"),
        (block(5, bytes(20), trailer=36), "another length"),
        (block(1, bytes(20), trailer=36), "another length"),
        (block(1, b"1234"), "16 bytes"),
        (block(6, bytes(20), size=0xFFFFFFF0), "4294967280 bytes"),
        (block(99, bytes(20), size=4), "4 bytes"),
        (bytes(64), "0 bytes"),
        (section(version=(2, 0)), "version 2.0"),
        (block(0x0A0D0D0A, bytes(16)), "byte-order"),
        (section() + enhanced(b"x"), "interface 0"),
        (section() + simple(b"x"), "interface 0"),
    ],
)
def test_reading_stops_at_an_invalid_block(bad: bytes, what: str) -> None:
    walked, buffer, _ = walk(GOOD + bad + enhanced(b"never"))
    assert walked.wrong is not None
    assert what in walked.wrong
    start = len(GOOD) + (len(section()) if bad.startswith(section()) and len(bad) > len(section()) else 0)
    assert walked.stop == start
    assert [p[0] for p in packets(walked, buffer)] == [b"good"]


def test_the_first_of_repeated_options_counts() -> None:
    """As tshark reads it; the standard forbids repetitions."""
    times = option(9, b"\x03") + option(9, b"\x09") + option(14, bytes([5, *bytes(7)])) + option(14, bytes(8))
    assert [time for _, _, time, _ in read(section() + interface(options=times) + enhanced(b"x", 1000))] == [6 * 10**9]


def test_section_header_length_without_the_padding_of_an_option_is_tolerated(tmp_path: Path) -> None:
    header = bytearray(section(options=option(4, b"editor")))
    shorter = len(header) - 2
    for place in (4, len(header) - 4):
        header[place : place + 4] = shorter.to_bytes(4, "little")
    path = tmp_path / "unpadded.pcapng"
    path.write_bytes(bytes(header) + interface() + enhanced(b"packet"))
    with open_capture(path) as reader:
        assert [len(batch) for batch in reader.iterate_batches()] == [1]
        assert reader.damage is None


def test_block_length_without_the_padding_is_tolerated() -> None:
    body = struct.pack("<5I", 0, 0, 5, 5, 5) + b"abcde"
    assert [p[0] for p in read(GOOD + block(6, body, size=37) + block(6, body, size=37, trailer=37) + GOOD)] == [
        b"good",
        b"abcde",
        b"abcde",
        b"good",
    ]


@pytest.mark.parametrize(
    ("whole", "kept", "text"),
    [
        (enhanced(b"abcd"), 11, "inside the first 12 bytes of a block, 1 of which are missing"),
        (enhanced(b"abcd"), 12, "inside a packet block of 36 bytes, 24 of which are missing"),
        (interface(), 19, "inside an interface description block of 20 bytes, 1 of which are missing"),
        (section(">"), 27, "inside a section header block of 28 bytes, 1 of which are missing"),
        (block(5, bytes(8)), 12, "inside a block of type 5 of 20 bytes, 8 of which are missing"),
    ],
)
def test_truncation_is_described(whole: bytes, kept: int, text: str) -> None:
    walked, buffer, reader = walk(GOOD + whole[:kept])
    assert walked.wrong is None
    assert walked.stop == len(GOOD)
    assert kept < walked.needed <= len(whole)
    assert reader.describe_truncation(buffer, walked.stop, len(GOOD) + kept) == text


@pytest.mark.parametrize("head", [bytes(12), section()[:8] + bytes(4), block(0x0A0D0D0A, b"\x4d\x3c\x2b\x1a")])
def test_invalid_section_headers_are_rejected(head: bytes) -> None:
    with pytest.raises(ValueError, match=r"magic|bytes long"):
        get_section_header_size(head[:12])


SMALL = GOOD + simple(b"two") + section(">") + interface(order=">", options=option(9, b"\x8a", ">"))
SMALL += enhanced(b"three", 3, order=">") + obsolete(b"four", order=">") + block(5, bytes(8), ">")


@given(st.integers(0, len(SMALL) - 1), st.binary(min_size=1, max_size=4))
def test_any_bytes_may_be_wrong(at: int, value: bytes) -> None:
    data = bytearray(SMALL)
    data[at : at + len(value)] = value
    walked, _, reader = walk(bytes(data))
    b = walked.batch
    assert all(b.offset + b.captured <= walked.stop)
    assert all(b.length >= b.captured)
    assert all(b.interface < max(1, len(reader.interfaces)))
    assert walked.wrong or walked.stop + walked.needed > len(data)


def test_recorded_files_are_read_as_by_dpkt() -> None:
    import dpkt

    paths = sorted(CAPTURES.rglob("*.pcapng"))
    assert len(paths) > 50
    for path in paths:
        with path.open("rb") as file:
            expected = [(bytes(data), time * 1e6) for time, data in dpkt.pcapng.Reader(file)]
        found = [(data, time / 1e3) for data, _, time, _ in read(path.read_bytes())]
        assert [data for data, _ in found] == [data for data, _ in expected], path
        # dpkt has seconds as float, which are exact to a quarter of a microsecond
        differences = [abs(ours[1] - theirs[1]) for ours, theirs in zip(found, expected, strict=True)]
        assert max(differences, default=0) < 1, path


@pytest.mark.parametrize("order", ["<", ">"])
def test_resolution_and_frame_check_sequence_of_interfaces(order: str) -> None:
    # if_fcslen counts bits; some have read it as bytes
    options = [b"", option(9, b"\x09", order), option(13, b"\x20", order), option(13, b"\x04", order)]
    options += [option(13, b"\0", order), option(9, b"\x8a", order) + option(13, b"\x10", order)]
    _, _, reader = walk(section(order) + b"".join(interface(order=order, options=item) for item in options))
    assert [(item.resolution, item.fcs_bytes) for item in reader.interfaces] == [
        (6, None),
        (9, None),
        (6, 4),
        (6, 4),
        (6, 0),
        (0x8A, 2),
    ]
