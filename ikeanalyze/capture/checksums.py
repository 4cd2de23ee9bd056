"""Checksums of frames that are written: the Internet checksum (RFC 1071) and Ethernet's frame check sequence (IEEE 802.3, 3.2.9)."""

import zlib


def internet_checksum(data: bytes | bytearray) -> int:
    """The ones' complement of the ones' complement sum of 16-bit words; an odd byte counts as followed by a zero byte.

    Never 0xFFFF: of the two zeros of this arithmetic it gives 0. UDP sends the other one, since 0 means "none" there (RFC 768).
    """
    # Read as one number, the words are its digits to the base 65536, which is 1 modulo 65535.
    total = int.from_bytes(data, "big") << 8 * (len(data) % 2)
    return -total % 0xFFFF


def frame_check_sequence(frame: bytes) -> bytes:
    """The four bytes behind an Ethernet frame, in the order in which captures hold them."""
    return zlib.crc32(frame).to_bytes(4, "little")
