"""Finds the keys that `ikeanalyze keys --embed` puts into a pcapng file: a decryption secrets block of our own type.

Only what is before the first packet is read, because secrets precede the packets that they are for, and a capture may
be large.
"""

from struct import Struct
from typing import BinaryIO, Final

from ikeanalyze.capture.formats import pcapng_blocks
from ikeanalyze.io.decompress import DamagedStreamError

_HEADER: Final = 12  # type, length, and the byte-order magic of a section header
_MIN_BLOCK: Final = 12
_MAX_BLOCK: Final = 64 << 20


def find_embedded_keys(stream: BinaryIO) -> bytes | None:
    """The JSON document with keys in a pcapng file that is read from its beginning; None: it has none. Never raises."""
    order = "<"
    try:
        while len(head := stream.read(_HEADER)) == _HEADER:
            if head[:4] == pcapng_blocks.SECTION.to_bytes(4, "big"):  # a palindrome
                order = pcapng_blocks.get_byte_order(head[8:]) or order
            block_type, size = Struct(order + "2I").unpack_from(head)
            size = pcapng_blocks.round_up_to_word(size)
            if block_type in pcapng_blocks.PACKET_BLOCKS or not _MIN_BLOCK <= size <= _MAX_BLOCK:
                return None
            block = head + stream.read(size - _HEADER)
            if block_type == pcapng_blocks.DECRYPTION_SECRETS and len(block) == size >= 20:
                secrets_type, secrets = pcapng_blocks.parse_decryption_secrets(block, order)
                if secrets_type == pcapng_blocks.IKE_KEYS:
                    return secrets
    except (EOFError, OSError, DamagedStreamError):
        pass
    return None
