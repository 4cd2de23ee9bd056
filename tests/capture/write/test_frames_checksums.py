import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.craft.checksum
from ikeanalyze.capture.write.frames import frame_check_sequence, internet_checksum


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytes.fromhex("0001f203f4f5f6f7"), 0xFFFF - 0xDDF2),  # RFC 1071, 3
        (bytes.fromhex("4500003c1c4640004006") + bytes(2) + bytes.fromhex("ac100a63ac100a0c"), 0xB1E6),
        (b"\xff\xff", 0),
        (b"\xff\xff\0\0\xff\xff", 0),
        (b"\x12", 0xFFFF - 0x1200),
    ],
)
def test_checksums_agree_with_the_vectors(data: bytes, expected: int) -> None:
    assert internet_checksum(data) == expected


@given(st.binary(min_size=1, max_size=200).filter(any))
def test_checksums_agree_with_a_sum_of_words(data: bytes) -> None:
    assert internet_checksum(data) == tests.craft.checksum.internet(data)
    assert internet_checksum(bytearray(data)) == internet_checksum(data)


def test_frame_check_sequence() -> None:
    # the check value of CRC-32/ISO-HDLC, and the residue that a receiver is left with
    assert frame_check_sequence(b"123456789") == 0xCBF43926.to_bytes(4, "little")
    frame = bytes(range(60))
    assert frame_check_sequence(frame + frame_check_sequence(frame)) == 0x2144DF1C.to_bytes(4, "little")
