"""Parses and encodes blocks and options of pcapng files (draft-ietf-opsawg-pcapng)."""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

import msgspec

SECTION: Final = 0x0A0D0D0A  # reads the same in both byte orders
INTERFACE: Final = 1
OBSOLETE_PACKET: Final = 2
SIMPLE_PACKET: Final = 3
ENHANCED_PACKET: Final = 6
JOURNAL: Final = 9
DECRYPTION_SECRETS: Final = 10
CUSTOM: Final = 0x00000BAD
CUSTOM_NOT_COPIED: Final = 0x40000BAD
PACKET_BLOCKS: Final = (ENHANCED_PACKET, OBSOLETE_PACKET, SIMPLE_PACKET)
#: Other blocks to which Wireshark gives frame numbers.
NUMBERED_BLOCKS: Final = (JOURNAL, CUSTOM, CUSTOM_NOT_COPIED)

OPT_COMMENT: Final = 1
SHB_USERAPPL: Final = 4
IF_NAME: Final = 2
IF_DESCRIPTION: Final = 3
IF_TSRESOL: Final = 9
IF_FCSLEN: Final = 13
IF_TSOFFSET: Final = 14
EPB_FLAGS: Final = 2
EPB_HASH: Final = 3
EPB_DROPCOUNT: Final = 4
#: Secrets type of keys of IKE, as JSON of schema "ikeanalyze.keys/1": "IKEK", like the registered "TLSK" of TLS. It is
#: not registered; other programs skip it.
IKE_KEYS: Final = 0x494B454B
#: Custom options that must not be copied into a modified file.
UNCOPIED_OPTIONS: Final = (19372, 19373)

_BYTE_ORDER: Final = 0x1A2B3C4D
_UNKNOWN_LENGTH: Final = b"\xff" * 8
_LENGTH_AT: Final = 16
_SECTION_OPTIONS_AT: Final = 24
_END_OF_OPTIONS: Final = bytes(4)
#: Code and size of an option, by byte order.
_OPTION_HEADERS: Final = {order: Struct(order + "2H") for order in "<>"}
_MAX_OPTION_BYTES: Final = 0xFFFF
#: Bytes of an enhanced packet block without frame and options.
_ENHANCED_PACKET_BYTES: Final = 32
#: Type, size, interface, time, captured and original length of an enhanced packet block, by byte order.
_ENHANCED_PACKET_FIELDS: Final = {order: Struct(order + "3I8s2I") for order in "<>"}
#: Drop count of an obsolete packet block if it is unknown.
_DROPS_UNKNOWN: Final = 0xFFFF

Option = tuple[int, bytes]
"""Its code and its value, without padding."""


def get_byte_order(magic: bytes) -> str | None:
    """The byte order of a section, "<" or ">", by the magic number in its header; None if the number is invalid."""
    if int.from_bytes(magic, "little") == _BYTE_ORDER:
        return "<"
    return ">" if int.from_bytes(magic, "big") == _BYTE_ORDER else None


def round_up_to_word(size: int) -> int:
    """The next multiple of four: blocks consist of 32-bit words."""
    return size + 3 & ~3


def read_options(data: bytes, order: str) -> Iterator[Option]:
    """The options in order, up to the end of options or the first truncated option."""
    header, at = Struct(order + "2H"), 0
    while at + 4 <= len(data):
        code, size = header.unpack_from(data, at)
        value = data[at + 4 : at + 4 + size]
        if code == 0 or len(value) < size:
            return
        yield code, value
        at += 4 + round_up_to_word(size)


def write_options(options: Iterable[Option], order: str) -> bytes:
    """Encode options and the end of options; empty without options."""
    header = _OPTION_HEADERS[order]
    parts = [header.pack(code, len(value)) + _pad_to_word(value) for code, value in options]
    return b"".join([*parts, _END_OF_OPTIONS]) if parts else b""


def make_comment_option(text: str) -> Option:
    """An opt_comment, truncated to the maximum length of an option."""
    value = text.encode("utf-8", "backslashreplace")
    if len(value) > _MAX_OPTION_BYTES:
        value = value[:_MAX_OPTION_BYTES].decode("utf-8", "ignore").encode()
    return OPT_COMMENT, value


def may_have_section(data: bytearray, stop: int) -> bool:
    """Whether data[:stop] contains the bytes of a section header's type, which may also be part of a packet."""
    return data.find(SECTION.to_bytes(4, "little"), 0, stop) >= 0


def iterate_blocks(data: bytearray, stop: int, order: str) -> Iterator[tuple[int, int, int, str]]:
    """Type, offset, size and byte order of each block in data[:stop], whose blocks must be complete and valid.

    `order` is that of the section in which it begins.
    """
    head = Struct(order + "2I")
    at = 0
    while at < stop:
        block_type, size = head.unpack_from(data, at)
        if block_type == SECTION:
            order = get_byte_order(bytes(data[at + 8 : at + 12])) or order
            head = Struct(order + "2I")
            size = head.unpack_from(data, at)[1]
        size = round_up_to_word(size)  # some writers forget the padding of the packet in the block's length
        yield block_type, at, size, order
        at += size


def encode_section_header(options: Iterable[Option], order: str) -> bytes:
    """A section header block with unknown section length."""
    fixed = Struct(order + "I2H").pack(_BYTE_ORDER, 1, 0) + _UNKNOWN_LENGTH
    return _encode_block(SECTION, fixed + write_options(options, order), order)


def reopen_section_header(header: bytes, order: str, comment: str | None) -> bytes:
    """Copy a section header block with unknown section length, and add a comment if given."""
    block = header[:_LENGTH_AT] + _UNKNOWN_LENGTH + header[_LENGTH_AT + 8 :]
    if comment is None:
        return block
    options = [*read_options(block[_SECTION_OPTIONS_AT:-4], order), make_comment_option(comment)]
    return _encode_block(SECTION, block[8:_SECTION_OPTIONS_AT] + write_options(options, order), order)


def encode_interface_description(link_type: int, snaplen: int, options: Iterable[Option], order: str) -> bytes:
    """An interface description block."""
    fixed = Struct(order + "HxxI").pack(link_type, snaplen)
    return _encode_block(INTERFACE, fixed + write_options(options, order), order)


def encode_decryption_secrets(secrets_type: int, secrets: bytes, order: str) -> bytes:
    """A decryption secrets block."""
    fixed = Struct(order + "2I").pack(secrets_type, len(secrets))
    return _encode_block(DECRYPTION_SECRETS, fixed + _pad_to_word(secrets), order)


def parse_decryption_secrets(block: bytes, order: str) -> tuple[int, bytes]:
    """Type and data of the secrets in a complete decryption secrets block; truncated data if its length is wrong."""
    secrets_type, size = Struct(order + "2I").unpack_from(block, 8)
    return secrets_type, block[16:-4][:size]


def encode_simple_packet(frame: bytes, order: str) -> bytes:
    """A simple packet block with all of a frame."""
    return _encode_block(SIMPLE_PACKET, Struct(order + "I").pack(len(frame)) + _pad_to_word(frame), order)


class PacketBlockHeader(msgspec.Struct, frozen=True):
    """Fields of a packet block, without the packet bytes."""

    interface: int  # index within the section
    time: bytes  # the two words of the timestamp, as in the file
    options: tuple[Option, ...]  # with the codes of enhanced packet blocks


def parse_packet_block_header(block: bytes, order: str) -> PacketBlockHeader:
    """The header of a complete enhanced or obsolete packet block."""
    block_type = Struct(order + "I").unpack_from(block)[0]
    behind = 28 + round_up_to_word(Struct(order + "I").unpack_from(block, 20)[0])
    options = tuple(read_options(block[behind:-4], order))
    if block_type == ENHANCED_PACKET:
        return PacketBlockHeader(Struct(order + "I").unpack_from(block, 8)[0], block[12:20], options)
    interface, drops = Struct(order + "2H").unpack_from(block, 8)
    if drops != _DROPS_UNKNOWN:
        options = (*options, (EPB_DROPCOUNT, Struct(order + "Q").pack(drops)))
    return PacketBlockHeader(interface, block[12:20], options)


def get_packet_block_frame(block: bytes, order: str) -> tuple[bytes, int]:
    """The captured bytes of the frame in a complete enhanced or obsolete packet block, and its length on the wire."""
    captured, length = Struct(order + "2I").unpack_from(block, 20)
    return block[28 : 28 + captured], length


def encode_enhanced_packet(head: PacketBlockHeader, frame: bytes, order: str, length: int | None = None) -> bytes:
    """An enhanced packet block; `length` is that of the frame on the wire if `frame` is only a part of it."""
    captured, options = len(frame), write_options(head.options, order)
    padding = bytes(-captured % 4)
    size = _ENHANCED_PACKET_BYTES + captured + len(padding) + len(options)
    fields, length = _ENHANCED_PACKET_FIELDS[order], captured if length is None else min(length, 0xFFFFFFFF)
    begin = fields.pack(ENHANCED_PACKET, size, head.interface, head.time, captured, length)
    return b"".join((begin, frame, padding, options, begin[4:8]))


def _encode_block(block_type: int, body: bytes, order: str) -> bytes:
    word = Struct(order + "I")
    size = word.pack(len(body) + 12)
    return word.pack(block_type) + size + body + size


def _pad_to_word(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
