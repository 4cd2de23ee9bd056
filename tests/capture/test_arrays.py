import struct

import numpy as np

from ikeanalyze.capture.arrays import are_all_numbers, rank_by_appearance, read_struct_array, read_uint16_be

LAYOUT = np.dtype([("kind", "u1"), ("size", ">u2"), ("value", ">u4")])


def test_gather_reads_packed_headers_at_any_position() -> None:
    data = b"x" + struct.pack(">BHI", 7, 0x1234, 0xDEADBEEF) + b"yz" + struct.pack(">BHI", 9, 1, 2)
    buffer = np.frombuffer(data + bytes(256), np.uint8)
    read = read_struct_array(buffer, np.array([10, 1]), LAYOUT)
    assert read["kind"].tolist() == [9, 7]
    assert read["size"].tolist() == [1, 0x1234]
    assert read["value"].tolist() == [2, 0xDEADBEEF]


def test_gather_does_not_look_beyond_the_buffer() -> None:
    buffer = np.frombuffer(bytes(range(20)), np.uint8)
    read = read_struct_array(buffer, np.array([13, 14, 1000]), LAYOUT)
    assert read["kind"].tolist() == [13, 13, 13]
    assert len(read_struct_array(buffer, np.array([], np.int64), LAYOUT)) == 0


def test_read_values_are_a_copy() -> None:
    buffer = np.zeros(300, np.uint8)
    read = read_struct_array(buffer, np.array([0]), LAYOUT)
    buffer[0] = 5
    assert read["kind"].tolist() == [0]


def test_numbers_are_big_endian() -> None:
    buffer = np.frombuffer(b"\x12\x34\x56" + bytes(8), np.uint8)
    numbers = read_uint16_be(buffer, np.array([0, 1]))
    assert numbers.tolist() == [0x1234, 0x3456]
    assert numbers.dtype == np.uint16


def test_numbers_are_ranked_by_their_first_place():
    assert rank_by_appearance(np.array([2, 0, 2, 3, 0]), 5).tolist() == [1, 3, 0, 2, 4]
    assert rank_by_appearance(np.array([0, 0, 1, 0, 2], np.uint32), 3) is None
    assert rank_by_appearance(np.array([1], np.uint64), 2).tolist() == [1, 0]


def test_all_numbers_below_a_count_are_recognised() -> None:
    def check(numbers: list[int], count: int) -> bool:
        return are_all_numbers(np.array(numbers, np.uint32), count)

    assert check([0, 1, 2], 3)
    assert check([], 0)
    for numbers in ([0, 1], [0, 1, 2, 3], [1, 2, 3], [0, 2, 1], [0, 0, 2], []):
        assert not check(numbers, 3)
