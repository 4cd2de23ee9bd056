"""Mutations of pcap and pcapng files that keep most of the structure, so that damage reaches the analysis.

A file is split into chunks: the file header and records of pcap, the blocks of pcapng. Splitting is lenient, and what
cannot be split stays as the last chunk. So a file that was damaged by an earlier mutation can be mutated again.
Formats: https://ietf-opsawg-wg.github.io/draft-ietf-opsawg-pcap/
"""

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from struct import Struct
from typing import Final

import zstandard

from fuzz.mutators.binary import choose_boundary, mutate_bytes

_PCAP_ORDERS: Final = {
    b"\xd4\xc3\xb2\xa1": "<",
    b"\x4d\x3c\xb2\xa1": "<",
    b"\xa1\xb2\xc3\xd4": ">",
    b"\xa1\xb2\x3c\x4d": ">",
}
_NANOSECONDS: Final = {"<": b"\x4d\x3c\xb2\xa1", ">": b"\xa1\xb2\x3c\x4d"}
_MICROSECONDS: Final = {"<": b"\xd4\xc3\xb2\xa1", ">": b"\xa1\xb2\xc3\xd4"}
_SECTION: Final = b"\n\r\r\n"
_PCAP_HEADER: Final = 24
_RECORD_HEADER: Final = 16
_LINK_TYPE: Final = slice(20, 22)  # in the header of pcap
_INTERFACE, _SIMPLE, _ENHANCED = 1, 3, 6
#: Bytes before the packet in the body of an enhanced packet block: interface, time, captured and original length.
_ENHANCED_HEADER: Final = 20
_TSRESOL, _TSOFFSET = 9, 14  # options of an interface
#: NULL, Ethernet, PPP, raw, LOOP, Linux cooked, IPv4, IPv6, Linux cooked v2, and one that is not supported.
_LINK_TYPES: Final = (0, 1, 9, 12, 50, 101, 108, 113, 228, 229, 276, 147)
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: Decompressed bytes that are mutated; the rest is dropped.
_MAX_BYTES: Final = 1 << 18


@dataclass(slots=True)
class _Chunk:
    """A record of pcap or a block of pcapng, or other bytes."""

    data: bytearray
    packet: slice | None = None  # the bytes of the packet in `data`


@dataclass(slots=True)
class _SplitCapture:
    """A capture file as chunks."""

    pcapng: bool
    order: str  # of integers, as in `struct`
    chunks: list[_Chunk]

    def get_packets(self) -> list[int]:
        """Return the indices of the chunks with packets."""
        return [index for index, chunk in enumerate(self.chunks) if chunk.packet is not None]

    def join(self) -> bytes:
        """Return the file."""
        return b"".join(bytes(chunk.data) for chunk in self.chunks)


def mutate_capture(data: bytes, rng: Random) -> bytes:
    """Change packets, times, link types or the structure of a capture, or its compression."""
    plain = _decompress(data)
    if plain is None:
        return _compress(_mutate_plain(data, rng), rng) if rng.random() < 0.03 else _mutate_plain(data, rng)
    match rng.randrange(8):
        case 0:
            return plain
        case 1 | 2:
            return mutate_bytes(data, rng)  # damaged compressed data
        case _:
            return _compress(_mutate_plain(plain, rng), rng)


def shorten_capture(data: bytes, max_bytes: int) -> bytes:
    """Return the first records or blocks of an uncompressed file, of `max_bytes` in all."""
    size, kept = 0, []
    for chunk in _split(data).chunks:
        size += len(chunk.data)
        if size > max_bytes:
            break
        kept.append(bytes(chunk.data))
    return b"".join(kept)


def _decompress(data: bytes) -> bytes | None:
    """Return the content of a compressed file, up to damage; None: it is not compressed."""
    try:
        if data.startswith(_GZIP):
            return zlib.decompressobj(31).decompress(data, _MAX_BYTES)
        if data.startswith(_ZSTD):
            with zstandard.ZstdDecompressor().stream_reader(data) as stream:
                return stream.read(_MAX_BYTES)
    except (zlib.error, zstandard.ZstdError):
        return b""
    return None


def _compress(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.5:
        return gzip.compress(data, 1, mtime=0)
    return zstandard.ZstdCompressor(1, write_checksum=rng.random() < 0.5).compress(data)


def _mutate_plain(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.1:
        return mutate_bytes(data, rng)
    capture = _split(data)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        rng.choice(_MUTATIONS)(capture, rng)
    return capture.join()


def _split(data: bytes) -> _SplitCapture:
    if data.startswith(_SECTION):
        return _split_pcapng(data)
    order = _PCAP_ORDERS.get(data[:4], "<")
    chunks = [_Chunk(bytearray(data[:_PCAP_HEADER]))]
    place = _PCAP_HEADER
    length_field = Struct(order + "I")
    while place + _RECORD_HEADER <= len(data):
        end = place + _RECORD_HEADER + length_field.unpack_from(data, place + 8)[0]
        if end > len(data):
            break
        chunks.append(_Chunk(bytearray(data[place:end]), slice(_RECORD_HEADER, None)))
        place = end
    chunks.append(_Chunk(bytearray(data[place:])))
    return _SplitCapture(False, order, chunks)


def _split_pcapng(data: bytes) -> _SplitCapture:
    order = ">" if data[8:12] == b"\x1a\x2b\x3c\x4d" else "<"
    head = Struct(order + "2I")
    chunks = []
    place = 0
    while place + 12 <= len(data):
        kind, size = head.unpack_from(data, place)
        if size < 12 or size % 4 or place + size > len(data):
            break
        chunk = _Chunk(bytearray(data[place : place + size]))
        if kind == _ENHANCED and size >= 12 + _ENHANCED_HEADER:
            start = 8 + _ENHANCED_HEADER
            captured = Struct(order + "I").unpack_from(chunk.data, start - 8)[0]
            chunk.packet = slice(start, min(start + captured, size - 4))
        elif kind == _SIMPLE and size >= 16:
            chunk.packet = slice(12, size - 4)
        chunks.append(chunk)
        place += size
    chunks.append(_Chunk(bytearray(data[place:])))
    return _SplitCapture(True, order, chunks)


def _choose_packet(capture: _SplitCapture, rng: Random) -> int | None:
    packets = capture.get_packets()
    return rng.choice(packets) if packets else None


def _mutate_packet(capture: _SplitCapture, rng: Random) -> None:
    """Change bytes of a packet, but not their number."""
    index = _choose_packet(capture, rng)
    if index is not None:
        chunk = capture.chunks[index]
        assert chunk.packet is not None
        chunk.data[chunk.packet] = mutate_bytes(bytes(chunk.data[chunk.packet]), rng, same_size=True)


def _resize_packet(capture: _SplitCapture, rng: Random) -> None:
    """Truncate a packet or change the number of its bytes, with the lengths that belong to it."""
    index = _choose_packet(capture, rng)
    if index is None:
        return
    chunk = capture.chunks[index]
    assert chunk.packet is not None
    packet = bytes(chunk.data[chunk.packet])
    packet = packet[: rng.randrange(len(packet) + 1)] if rng.random() < 0.5 else mutate_bytes(packet, rng)
    original = None if rng.random() < 0.5 else len(packet) + rng.choice((0, 0, 1, 1000))
    _set_packet(capture, chunk, packet, original)


def _set_packet(capture: _SplitCapture, chunk: _Chunk, packet: bytes, original: int | None) -> None:
    """Replace a packet; `original`: its length on the wire, None: as before."""
    number = Struct(capture.order + "I")
    if not capture.pcapng:
        chunk.data[_RECORD_HEADER:] = packet
        lengths = 8
    elif number.unpack_from(chunk.data)[0] == _ENHANCED:
        chunk.data[8 + _ENHANCED_HEADER :] = packet + bytes(-len(packet) % 4) + bytes(4)
        chunk.packet = slice(8 + _ENHANCED_HEADER, 8 + _ENHANCED_HEADER + len(packet))
        lengths = _ENHANCED_HEADER
    else:
        return
    number.pack_into(chunk.data, lengths, len(packet))
    if original is not None:
        number.pack_into(chunk.data, lengths + 4, original)
    _fit_block_length(capture, chunk)


def _fit_block_length(capture: _SplitCapture, chunk: _Chunk) -> None:
    if capture.pcapng:
        number = Struct(capture.order + "I")
        number.pack_into(chunk.data, 4, len(chunk.data))
        number.pack_into(chunk.data, len(chunk.data) - 4, len(chunk.data))


def _drop_packet(capture: _SplitCapture, rng: Random) -> None:
    index = _choose_packet(capture, rng)
    if index is not None:
        del capture.chunks[index]


def _double_packet(capture: _SplitCapture, rng: Random) -> None:
    """Insert a copy of a packet, right after it or after any other."""
    index, place = _choose_packet(capture, rng), _choose_packet(capture, rng)
    if index is not None and place is not None:
        chunk = capture.chunks[index]
        capture.chunks.insert(place + 1, _Chunk(bytearray(chunk.data), chunk.packet))


def _swap_packets(capture: _SplitCapture, rng: Random) -> None:
    """Exchange two packets with their times."""
    first, second = _choose_packet(capture, rng), _choose_packet(capture, rng)
    if first is not None and second is not None:
        chunks = capture.chunks
        chunks[first], chunks[second] = chunks[second], chunks[first]


def _get_time(capture: _SplitCapture, chunk: _Chunk) -> slice | None:
    """The place of the 8 bytes with the time of a packet."""
    if not capture.pcapng:
        return slice(0, 8)
    kind = Struct(capture.order + "I").unpack_from(chunk.data)[0]
    return slice(12, 20) if kind == _ENHANCED else None


def _swap_times(capture: _SplitCapture, rng: Random) -> None:
    """Exchange the times of two packets, or give one the time of the other."""
    first, second = _choose_packet(capture, rng), _choose_packet(capture, rng)
    if first is None or second is None:
        return
    chunks = capture.chunks[first], capture.chunks[second]
    places = [_get_time(capture, chunk) for chunk in chunks]
    if places[0] is not None and places[1] is not None:
        times = [bytes(chunk.data[place]) for chunk, place in zip(chunks, places, strict=True) if place is not None]
        chunks[0].data[places[0]] = times[1]
        if rng.random() < 0.7:
            chunks[1].data[places[1]] = times[0]


def _set_time(capture: _SplitCapture, rng: Random) -> None:
    """Set the upper, the lower or both halves of a time to a boundary, or move the time by a little."""
    index = _choose_packet(capture, rng)
    place = None if index is None else _get_time(capture, capture.chunks[index])
    if index is None or place is None:
        return
    data = capture.chunks[index].data
    match rng.randrange(4):
        case 0:
            data[place.start : place.start + 4] = choose_boundary(rng, 4)
        case 1:
            data[place.start + 4 : place.stop] = choose_boundary(rng, 4)
        case 2:
            data[place] = choose_boundary(rng, 8)
        case _:
            number = Struct(capture.order + "I")
            low = number.unpack_from(data, place.start + 4)[0]
            number.pack_into(data, place.start + 4, (low + rng.randrange(-2_000_000, 2_000_000)) % (1 << 32))


def _set_link_type(capture: _SplitCapture, rng: Random) -> None:
    value = Struct(capture.order + "H").pack(rng.choice(_LINK_TYPES))
    if not capture.pcapng:
        if len(capture.chunks[0].data) == _PCAP_HEADER:
            capture.chunks[0].data[_LINK_TYPE] = value
    elif (block := _choose_interface(capture, rng)) is not None:
        block.data[8:10] = value


def _choose_interface(capture: _SplitCapture, rng: Random) -> _Chunk | None:
    kind = Struct(capture.order + "I").pack(_INTERFACE)
    blocks = [chunk for chunk in capture.chunks if chunk.data[:4] == kind and len(chunk.data) >= 20]
    return rng.choice(blocks) if blocks else None


def _set_time_unit(capture: _SplitCapture, rng: Random) -> None:
    """Set if_tsresol or if_tsoffset of an interface, or exchange microseconds and nanoseconds in pcap."""
    if not capture.pcapng:
        magic = rng.choice((_NANOSECONDS, _MICROSECONDS))[capture.order]
        capture.chunks[0].data[:4] = magic
        return
    block = _choose_interface(capture, rng)
    if block is None:
        return
    head = Struct(capture.order + "2H")
    if rng.random() < 0.5:
        resolution = rng.choice((0, 3, 6, 9, 12, 18, 127, 128, 128 + 30, 255))
        option = head.pack(_TSRESOL, 1) + bytes([resolution, 0, 0, 0])
    else:
        option = head.pack(_TSOFFSET, 8) + choose_boundary(rng, 8)
    block.data[16:16] = option  # before the other options
    _fit_block_length(capture, block)


def _choose_block_interface(capture: _SplitCapture, rng: Random) -> None:
    """Assign a packet to another interface, and add one in half of the cases."""
    index = _choose_packet(capture, rng)
    if index is None or not capture.pcapng:
        return
    number = Struct(capture.order + "I")
    if number.unpack_from(capture.chunks[index].data)[0] == _ENHANCED:
        number.pack_into(capture.chunks[index].data, 8, rng.choice((0, 1, 2, 0xFFFFFFFF)))
    block = _choose_interface(capture, rng)
    if block is not None and rng.random() < 0.5:
        capture.chunks.insert(1, _Chunk(bytearray(block.data)))


def _damage_length(capture: _SplitCapture, rng: Random) -> None:
    """Set a length of a record or block to a boundary."""
    chunk = rng.choice(capture.chunks)
    places = (4, len(chunk.data) - 4, 20) if capture.pcapng else (8, 12)
    place = rng.choice(places)
    if 0 <= place <= len(chunk.data) - 4:
        chunk.data[place : place + 4] = choose_boundary(rng, 4)


def _damage_chunk(capture: _SplitCapture, rng: Random) -> None:
    """Change any bytes of a file header, record or block."""
    chunk = rng.choice(capture.chunks)
    chunk.data[:] = mutate_bytes(bytes(chunk.data), rng)
    chunk.packet = None


def _move_chunk(capture: _SplitCapture, rng: Random) -> None:
    """Copy, move or remove a record or block, the file header included."""
    index = rng.randrange(len(capture.chunks))
    chunk = capture.chunks[index]
    if rng.random() < 0.6:
        del capture.chunks[index]
    if rng.random() < 0.6:
        place = rng.randrange(len(capture.chunks) + 1)
        capture.chunks.insert(place, _Chunk(bytearray(chunk.data), chunk.packet))
    if not capture.chunks:
        capture.chunks.append(chunk)


def _cut_file(capture: _SplitCapture, rng: Random) -> None:
    """Remove the end of the file."""
    del capture.chunks[rng.randrange(len(capture.chunks)) + 1 :]
    if rng.random() < 0.5:
        last = capture.chunks[-1]
        del last.data[rng.randrange(len(last.data) + 1) :]
        last.packet = None


#: The first are more frequent: they keep the rest of the capture as it is.
_MUTATIONS: Final[tuple[Callable[[_SplitCapture, Random], None], ...]] = (
    *(_mutate_packet,) * 6,
    *(_swap_packets, _double_packet, _drop_packet) * 2,
    *(_swap_times, _set_time, _resize_packet) * 2,
    _set_link_type,
    _set_time_unit,
    _choose_block_interface,
    _damage_length,
    _damage_chunk,
    _move_chunk,
    _cut_file,
)
