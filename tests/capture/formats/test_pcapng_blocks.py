import struct

import pytest

from ikeanalyze.capture.formats.pcapng_blocks import (
    ENHANCED_PACKET,
    INTERFACE,
    OBSOLETE_PACKET,
    SECTION,
    SIMPLE_PACKET,
    PacketBlockHeader,
    encode_enhanced_packet,
    encode_interface_description,
    encode_section_header,
    encode_simple_packet,
    get_byte_order,
    iterate_blocks,
    make_comment_option,
    parse_packet_block_header,
    read_options,
    reopen_section_header,
    round_up_to_word,
    write_options,
)
from tests.capture.savefiles import enhanced, interface, obsolete, option, section, simple
from tests.craft import Interface, Packet, pcapng_file

ORDERS = pytest.mark.parametrize("order", ["<", ">"])
END = bytes(4)


def test_sizes_and_byte_order() -> None:
    assert [round_up_to_word(size) for size in range(6)] == [0, 4, 4, 4, 4, 8]
    assert get_byte_order(bytes.fromhex("4d3c2b1a")) == "<"
    assert get_byte_order(bytes.fromhex("1a2b3c4d")) == ">"
    assert get_byte_order(bytes(4)) is None


@ORDERS
def test_options_are_read_and_written(order: str) -> None:
    data = option(1, b"seven b", order) + option(2988, b"", order) + option(4, b"four", order) + END
    wanted = [(1, b"seven b"), (2988, b""), (4, b"four")]
    assert list(read_options(data, order)) == wanted
    assert write_options(wanted, order) == data
    assert write_options([], order) == b""
    assert list(read_options(data + option(5, b"behind the end", order), order)) == wanted


@ORDERS
@pytest.mark.parametrize("cut", range(1, 8))
def test_an_option_that_does_not_fit_ends_them(order: str, cut: int) -> None:
    data = option(1, b"a", order) + option(2, b"four", order)
    assert list(read_options(data[:-cut], order)) == [(1, b"a")]


def test_comments_are_cut_between_characters() -> None:
    assert make_comment_option("ä") == (1, b"\xc3\xa4")
    assert make_comment_option("\udcff") == (1, b"\\udcff")
    assert make_comment_option("a" + "ä" * 40000) == (1, b"a" + b"\xc3\xa4" * 32767)
    assert len(make_comment_option("ä" * 40000)[1]) == 65534


@ORDERS
def test_blocks_as_written_by_others(order: str) -> None:
    assert encode_section_header([], order) == section(order)
    options = option(4, b"me", order) + option(1, b"a comment", order) + END
    assert encode_section_header([(4, b"me"), (1, b"a comment")], order) == section(order, options=options)
    assert encode_interface_description(113, 96, [(9, b"\x09")], order) == interface(
        113, 96, order, option(9, b"\x09", order) + END
    )
    assert encode_simple_packet(b"frame", order) == simple(b"frame", order=order)
    packet = Packet(5 << 32, b"some bytes", 3, comment="why")
    its_time = struct.pack(order + "II", 5, 0)
    head = PacketBlockHeader(3, its_time, ((1, b"why"),))
    assert encode_enhanced_packet(head, b"some bytes", order) == pcapng_file.packet_block(
        packet, Interface(), "EPB", order
    )


@ORDERS
@pytest.mark.parametrize("length", [0, 4711, -1])
def test_a_section_is_left_open(order: str, length: int) -> None:
    options = option(4, b"editor", order) + END
    header = section(order, length, options=options)
    assert reopen_section_header(header, order, None) == section(order, -1, options=options)
    more = option(4, b"editor", order) + option(1, b"new", order) + END
    assert reopen_section_header(header, order, "new") == section(order, -1, options=more)
    assert reopen_section_header(section(order, length), order, "new") == section(
        order, -1, options=option(1, b"new", order) + END
    )


@ORDERS
def test_what_a_packet_block_tells(order: str) -> None:
    options = option(2, bytes(4), order) + END
    block = enhanced(b"12345", 7 << 32 | 9, 2, order=order, options=options)
    its_time = struct.pack(order + "II", 7, 9)
    assert parse_packet_block_header(block, order) == PacketBlockHeader(2, its_time, ((2, bytes(4)),))
    assert parse_packet_block_header(enhanced(b"", 7 << 32 | 9, 2, order=order), order) == PacketBlockHeader(
        2, its_time, ()
    )
    assert parse_packet_block_header(obsolete(b"123", 7 << 32 | 9, 2, order=order), order) == PacketBlockHeader(
        2, its_time, ()
    )
    # lost packets were counted in 16 bits, and are in 64 (epb_dropcount)
    assert parse_packet_block_header(obsolete(b"123", 7 << 32 | 9, 2, 5, order), order) == PacketBlockHeader(
        2, its_time, ((4, struct.pack(order + "Q", 5)),)
    )


def test_blocks_are_iterated_in_any_byte_order() -> None:
    parts = [
        (INTERFACE, interface(), "<"),
        (ENHANCED_PACKET, enhanced(b"one"), "<"),
        (SECTION, section(">"), ">"),
        (INTERFACE, interface(order=">"), ">"),
        (SIMPLE_PACKET, simple(b"three", order=">"), ">"),
        (OBSOLETE_PACKET, obsolete(b"four", order=">"), ">"),
        (SECTION, section("<"), "<"),
    ]
    data = bytearray(b"".join(part for _, part, _ in parts))
    result = list(iterate_blocks(data, len(data), "<"))
    assert [(kind, bytes(data[at : at + size]), order) for kind, at, size, order in result] == parts


def test_a_block_that_counts_its_packet_without_padding() -> None:
    first = enhanced(b"12345")
    size = struct.pack("<I", len(first) - 3)
    data = bytearray(first[:4] + size + first[8:-4] + size + simple(b"next"))
    assert [(at, size) for _, at, size, _ in iterate_blocks(data, len(data), "<")] == [(0, 40), (40, 20)]
