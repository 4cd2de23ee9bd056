from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.cursor import Cursor, WireError


def test_reads_numbers_big_endian_one_after_another():
    cursor = Cursor(bytes(range(1, 20)))
    assert cursor.read_uint8() == 0x01
    assert cursor.read_uint16() == 0x0203
    assert cursor.read_uint32() == 0x04050607
    assert cursor.read_bytes(8) == bytes(range(8, 16))
    assert cursor.position == 15
    assert cursor.read_bytes(2) == b"\x10\x11"
    assert cursor.read_remaining() == b"\x12\x13"
    assert cursor.remaining() == 0


def test_reads_a_memoryview_to_bytes():
    part = Cursor(memoryview(b"abc")).read_bytes(2)
    assert type(part) is bytes
    assert part == b"ab"


@pytest.mark.parametrize(
    "read",
    [
        Cursor.read_uint8,
        Cursor.read_uint16,
        Cursor.read_uint32,
        lambda cursor: cursor.read_bytes(1),
        lambda cursor: cursor.skip(1),
        lambda cursor: cursor.unpack(Struct(">B")),
        lambda cursor: cursor.restrict_to(1),
    ],
)
def test_a_read_past_the_end_says_where_and_moves_nothing(read):
    cursor = Cursor(b"abc")
    cursor.skip(3)
    with pytest.raises(WireError, match=r"at byte 3") as caught:
        read(cursor)
    assert caught.value.offset == 3
    assert isinstance(caught.value, ValueError)
    assert cursor.position == 3


@pytest.mark.parametrize("read", [Cursor.read_bytes, Cursor.skip, Cursor.restrict_to])
def test_a_negative_length_is_an_error(read):
    with pytest.raises(WireError):
        read(Cursor(b"abc"), -1)


def test_restriction_ends_reading_and_passes_over_what_is_left():
    cursor = Cursor(b"abcdef")
    cursor.skip(1)
    with cursor.restrict_to(3):
        assert cursor.remaining() == 3
        assert cursor.read_uint8() == ord("b")
        with cursor.restrict_to(1), pytest.raises(WireError):
            cursor.read_uint16()
        assert cursor.position == 3
    assert cursor.position == 4
    assert cursor.read_remaining() == b"ef"


def test_an_error_inside_a_restriction_lifts_it():
    cursor = Cursor(b"abcdef")
    with pytest.raises(WireError), cursor.restrict_to(2):
        cursor.read_bytes(3)
    assert cursor.remaining() == 6


def test_a_window_counts_positions_from_the_beginning_of_the_data():
    cursor = Cursor(b"abcdef", 2, 4)
    assert cursor.position == 2
    assert cursor.read_remaining() == b"cd"
    assert Cursor(b"abc", 1, 99).read_remaining() == b"bc"
    assert Cursor(b"abc", 2, 1).remaining() == 0


def test_fail_gives_an_error_for_this_place():
    cursor = Cursor(b"abc")
    cursor.skip(2)
    assert str(cursor.make_error("no such thing")) == "no such thing (at byte 2)"


@given(st.binary(max_size=30), st.lists(st.integers(-2, 12), max_size=10))
def test_never_reads_outside(data, lengths):
    cursor = Cursor(data)
    read = b""
    for length in lengths:
        try:
            read += cursor.read_bytes(length)
        except WireError:
            assert length < 0 or length > cursor.remaining()
    assert data.startswith(read)
    assert cursor.position == len(read)
