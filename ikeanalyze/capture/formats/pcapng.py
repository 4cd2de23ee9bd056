"""Decodes pcapng files (draft-ietf-opsawg-pcapng): sections, interfaces and packet blocks."""

from struct import Struct
from typing import Final

import msgspec
import numpy as np

from ikeanalyze import core
from ikeanalyze.capture.arrays import (
    BoolArray,
    Int64Array,
    UInt8Array,
    UInt32Array,
    UInt64Array,
    read_struct_array,
    sort_distinct,
)
from ikeanalyze.capture.formats import pcapng_blocks
from ikeanalyze.capture.formats.pcapng_blocks import (
    ENHANCED_PACKET,
    INTERFACE,
    NUMBERED_BLOCKS,
    OBSOLETE_PACKET,
    SECTION,
    SIMPLE_PACKET,
)
from ikeanalyze.capture.formats.records import (
    EARLIEST_NS,
    LATEST_NS,
    MAX_RECORD,
    RECORD_COLUMNS,
    CaptureNote,
    Interface,
    RecordBatch,
    WalkResult,
)

#: Bytes of the shortest section header block, the first block of a file.
FILE_HEADER: Final = 28

#: Bytes of the longest valid block: the longest packet and its options, as in libpcap.
_MAX_BLOCK: Final = MAX_RECORD + (128 << 10)
#: Bytes of an empty block, and of the shortest block of each type with fixed fields.
_EMPTY_BLOCK: Final = 12
_SHORTEST: Final = {SECTION: FILE_HEADER, INTERFACE: 20, OBSOLETE_PACKET: 32, SIMPLE_PACKET: 16, ENHANCED_PACKET: 32}
_NAMES: Final = {
    SECTION: "section header",
    INTERFACE: "interface description",
    OBSOLETE_PACKET: "packet",
    SIMPLE_PACKET: "packet",
    ENHANCED_PACKET: "packet",
}

_MICROSECONDS: Final = 6

_UNTIMED: Final = "packets without a time of their own (simple packet blocks) were given the time of the packet before"

_RENUMBERED: Final = (
    "from this packet on, frame numbers in Wireshark are higher: it also counts blocks that are not packets (entries of the "
    "systemd journal, custom blocks)"
)


class InterfaceClock(msgspec.Struct, frozen=True):
    """Unit and offset of the timestamps of an interface (if_tsresol and if_tsoffset)."""

    resolution: int = _MICROSECONDS  # a unit is 10^-n s, or with the bit 0x80 set 2^-(n - 128) s
    offset: int = 0  # seconds to add, signed

    def exact(self, ticks: int) -> int:
        """Time since 1970 in ns, without the offset, rounded down; the result may have any size."""
        power = self.resolution & 0x7F
        return ticks * 1_000_000_000 >> power if self.resolution & 0x80 else ticks * 1_000_000_000 // 10**power

    def nanoseconds(self, ticks: UInt64Array) -> Int64Array:
        """Time since 1970 in ns of each timestamp, rounded down and limited to EARLIEST_NS and LATEST_NS."""
        if not len(ticks):
            return np.zeros(0, np.int64)
        offset = self.offset * 1_000_000_000
        latest = self.exact(int(ticks.max()))
        fits = latest <= LATEST_NS and EARLIEST_NS <= offset <= LATEST_NS and latest + offset <= LATEST_NS
        since = self._convert_without_offset(ticks) if fits else None
        if since is not None:
            return since.astype(np.int64) + np.int64(offset)
        exact = (self.exact(tick) + offset for tick in ticks.tolist())
        return np.array([min(max(time, EARLIEST_NS), LATEST_NS) for time in exact], np.int64)

    def _convert_without_offset(self, ticks: UInt64Array) -> UInt64Array | None:
        """Time in ns without the offset; None if this resolution needs integers of more than 64 bits."""
        power, second = self.resolution & 0x7F, np.uint64(1_000_000_000)
        if not self.resolution & 0x80:
            if power <= 9:
                return ticks * np.uint64(10 ** (9 - power))
            return ticks // np.uint64(10 ** (power - 9)) if power - 9 <= 19 else None
        if power > 63:
            return None
        whole = ticks >> np.uint64(power)
        part = ticks & np.uint64((1 << power) - 1)
        if power <= 32:
            part = part * second >> np.uint64(power)
        else:  # the product has up to 93 bits: multiply the upper and the lower half of the fraction
            low = (part & np.uint64(0xFFFFFFFF)) * second >> np.uint64(32)
            part = (part >> np.uint64(32)) * second + low >> np.uint64(power - 32)
        return whole * second + part


def is_pcapng(head: bytes) -> bool:
    """Whether a capture that begins with these four bytes is a pcapng file."""
    return head[:4] == SECTION.to_bytes(4, "little")


def get_section_header_size(head: bytes) -> int:
    """Bytes of the section header block that begins with these 12 bytes, including padding missing in its length.

    Raises:
        ValueError: not a section header; the text is a clause for the user.
    """
    order = pcapng_blocks.get_byte_order(head[8:12])
    if order is None:
        raise ValueError("its section header has no byte-order magic")
    size: int = Struct(order + "I").unpack_from(head, 4)[0]
    if not FILE_HEADER <= size <= _MAX_BLOCK:
        raise ValueError(f"its section header is said to be {size} bytes long")
    return size + 3 & ~3


class Pcapng:
    """Decodes the blocks of a pcapng file, and collects its interfaces."""

    name: Final = "pcapng"

    def __init__(self) -> None:
        self.interfaces: Final[list[Interface]] = []  # of all sections, in file order
        self.notes: Final[list[CaptureNote]] = []
        self._packets = 0
        self._last_time = 0
        self._untimed: CaptureNote | None = None
        self._renumbered: CaptureNote | None = None
        self._finds_numbered = True  # none of NUMBERED_BLOCKS has been found
        self._begin_section("<")

    def _begin_section(self, order: str) -> None:
        self._order = order
        self._first = len(self.interfaces)  # index of the section's interface 0
        self._clocks: list[InterfaceClock] = []  # the distinct ones of this section
        self._clock_numbers: dict[InterfaceClock, int] = {}  # their places in `_clocks`
        self._clock_of: list[int] = []  # that of its clock for each interface of this section
        self._head = Struct(order + "2I")
        self._word = np.dtype([("value", order + "u4")])
        self._layout = np.dtype(
            [(f, order + "u4") for f in ("type", "size", "interface", "high", "low", "captured", "length")]
        )

    def walk(self, buffer: bytearray, view: UInt8Array, start: int, end: int) -> WalkResult:
        """The packets of the complete blocks in buffer[start:end]; arguments as of `Pcap.walk`."""
        batches: list[RecordBatch] = []
        at, wrong = start, None
        while True:
            offsets, at = self._find_packet_blocks(buffer, view, at, end)
            if len(offsets):
                batch, refused = self._decode_packets(view, np.asarray(offsets, np.int64))
                if len(batch):
                    batches.append(batch)
                if refused is not None:
                    at, wrong = refused
                    return WalkResult(_join_batches(view, batches), at, _EMPTY_BLOCK, wrong)
            needed, wrong = self._decode_block(buffer, at, end)
            if wrong or at + needed > end:
                return WalkResult(_join_batches(view, batches), at, needed, wrong)
            at += needed

    def describe_truncation(self, buffer: bytearray, start: int, end: int) -> str:
        """Where the file ends if buffer[start:end] is its rest, such as "inside a block of 90 bytes, ..."."""
        if end - start < _EMPTY_BLOCK:
            missing = _EMPTY_BLOCK - (end - start)
            return f"inside the first {_EMPTY_BLOCK} bytes of a block, {missing} of which are missing"
        block_type, claimed = self._head.unpack_from(buffer, start)
        size = pcapng_blocks.round_up_to_word(claimed)
        name = f"{_NAMES[block_type]} block" if block_type in _NAMES else f"block of type {block_type}"
        article = "an" if name[0] in "aeiou" else "a"
        return f"inside {article} {name} of {size} bytes, {start + size - end} of which are missing"

    def _find_packet_blocks(
        self, buffer: bytearray, view: UInt8Array, at: int, end: int
    ) -> tuple[list[int] | Int64Array, int]:
        """The positions of the packet blocks before the next block that must be decoded, and that block's position."""
        # The only loop over blocks: it only finds packets. It reads up to 8 bytes after `end`.
        if core.compiled is not None:
            return core.compiled.find_packet_blocks(view, at, end, self._order == ">", self._finds_numbered)
        offsets: list[int] = []
        append, unpack = offsets.append, self._head.unpack_from
        while True:
            block_type, size = unpack(buffer, at)
            if size & 3:  # some writers forget the padding of the packet in the block's length
                size = (size + 3) & ~3
            behind = at + size
            if behind > end:
                return offsets, at
            if block_type == ENHANCED_PACKET:
                if size < 32:
                    return offsets, at
                append(at)
            elif size < _SHORTEST.get(block_type, _EMPTY_BLOCK) or block_type in (SECTION, INTERFACE):
                return offsets, at
            elif block_type in (SIMPLE_PACKET, OBSOLETE_PACKET):
                append(at)
            elif (self._finds_numbered and block_type in NUMBERED_BLOCKS) or not self._has_valid_trailer(
                buffer, at, size
            ):
                return offsets, at
            at = behind

    def _has_valid_trailer(self, buffer: bytearray, at: int, size: int) -> bool:
        """Whether a block ends with its length, as it must; `size` is that length in whole words."""
        trailer = self._head.unpack_from(buffer, at + size - 8)[1]
        return trailer in (size, self._head.unpack_from(buffer, at)[1])

    def _decode_block(self, buffer: bytearray, at: int, end: int) -> tuple[int, str | None]:
        """Decode a section header, an interface description or one of NUMBERED_BLOCKS.

        Blocks of other types are incomplete or invalid here.

        Returns the bytes of the block (or the bytes needed to decode its size), and why it is invalid.
        """
        if end - at < _EMPTY_BLOCK:
            return _EMPTY_BLOCK, None
        block_type, claimed = self._head.unpack_from(buffer, at)
        if block_type == SECTION:
            order = pcapng_blocks.get_byte_order(bytes(buffer[at + 8 : at + 12]))
            if order is None:
                return 0, "a section header has no byte-order magic"
            self._begin_section(order)
            claimed = self._head.unpack_from(buffer, at)[1]
        size = pcapng_blocks.round_up_to_word(claimed)
        if not _SHORTEST.get(block_type, _EMPTY_BLOCK) <= size <= _MAX_BLOCK:
            return 0, f"a block of type {block_type} is said to be {claimed} bytes long"
        if at + size > end:
            return size, None
        if not self._has_valid_trailer(buffer, at, size):
            return 0, f"a block of {claimed} bytes has another length at its end"
        if block_type == SECTION:
            major, minor = Struct(self._order + "2H").unpack_from(buffer, at + 12)
            if major != 1:
                return 0, f"a section has version {major}.{minor}, which is not known"
        elif block_type in NUMBERED_BLOCKS:
            self._finds_numbered = False
        else:
            self._add_interface(bytes(buffer[at + 8 : at + size - 4]))
        return size, None

    def _add_interface(self, body: bytes) -> None:
        link_type, snaplen = Struct(self._order + "HxxI").unpack_from(body)
        names: dict[int, str] = {}
        resolution, offset, fcs = _MICROSECONDS, 0, None
        options: dict[int, bytes] = {}
        for code, value in pcapng_blocks.read_options(body[8:], self._order):
            options.setdefault(code, value)  # of a repeated option the first counts, as in Wireshark
        for code, value in options.items():
            if code in (pcapng_blocks.IF_NAME, pcapng_blocks.IF_DESCRIPTION):
                names[code] = value.rstrip(b"\0").decode("utf-8", "replace")
            elif code == pcapng_blocks.IF_TSRESOL and len(value) == 1:
                resolution = value[0]
            elif code == pcapng_blocks.IF_FCSLEN and len(value) == 1:
                # in bits, but some writers use bytes; a check sequence of 4 bits does not exist
                fcs = value[0] // 8 if value[0] % 8 == 0 else value[0]
            elif code == pcapng_blocks.IF_TSOFFSET and len(value) == 8:
                offset = Struct(self._order + "q").unpack(value)[0]
        name = names.get(pcapng_blocks.IF_NAME) or names.get(pcapng_blocks.IF_DESCRIPTION) or None
        self.interfaces.append(Interface(link_type, name, snaplen, resolution, fcs))
        clock = InterfaceClock(resolution, offset)
        number = self._clock_numbers.setdefault(clock, len(self._clocks))
        if number == len(self._clocks):
            self._clocks.append(clock)
        self._clock_of.append(number)

    def _decode_packets(self, view: UInt8Array, at: Int64Array) -> tuple[RecordBatch, tuple[int, str] | None]:
        """The packets of complete blocks up to the first invalid block; its position and why it is invalid."""
        head = read_struct_array(view, at, self._layout)
        block_type, claimed = head["type"], head["size"].astype(np.int64)
        size = (claimed + 3) & ~3
        interface = head["interface"]
        captured, length = head["captured"].astype(np.int64), head["length"].astype(np.int64)
        offset, room = at + 28, size - 32
        simple = None
        if (block_type != ENHANCED_PACKET).any():
            simple = block_type == SIMPLE_PACKET
            obsolete = block_type == OBSOLETE_PACKET
            snaplen = self.interfaces[self._first].snaplen if self._clock_of else 0
            # simple packet blocks have the length in place of the interface, and no captured length
            length = np.where(simple, interface, length)
            offset, room = np.where(simple, at + 12, offset), np.where(simple, size - 16, room)
            captured = np.where(simple, np.minimum(np.minimum(length, room), snaplen or MAX_RECORD), captured)
            interface = np.where(simple, 0, interface)
            # a 16-bit interface, followed by a 16-bit drop count
            interface = np.where(obsolete, interface & 0xFFFF if self._order == "<" else interface >> 16, interface)
        trailer = read_struct_array(view, at + size - 4, self._word)["value"]
        refused = None
        wrong = (captured > room) | (interface >= len(self._clock_of)) | ((trailer != size) & (trailer != claimed))
        if wrong.any():
            first = int(wrong.argmax())
            why = self._explain_invalid_packet(
                int(claimed[first]), int(captured[first]), int(room[first]), interface[first]
            )
            refused = int(at[first]), why
            at, head, offset, captured = at[:first], head[:first], offset[:first], captured[:first]
            length, interface = length[:first], interface[:first]
            simple = None if simple is None else simple[:first]
        if not self._finds_numbered and len(at):
            self._renumbered = self._renumbered or self._add_note(_RENUMBERED, self._packets + 1)
            self._renumbered.count += len(at)
        ticks = head["high"].astype(np.uint64) << np.uint64(32) | head["low"]
        batch = RecordBatch(
            buffer=view,
            offset=offset,
            captured=captured,
            length=np.maximum(captured, length),
            time_ns=self._convert_times(ticks, interface, simple),
            interface=(interface + self._first).astype(np.uint32),
        )
        self._packets += len(batch)
        return batch, refused

    def _explain_invalid_packet(self, size: int, captured: int, room: int, interface: int) -> str:
        if interface >= len(self._clock_of):
            return f"a packet belongs to interface {interface}, which its section does not describe"
        if captured > room:
            return f"a packet block of {size} bytes is said to hold a packet of {captured}"
        return f"a packet block of {size} bytes has another length at its end"

    def _convert_times(self, ticks: UInt64Array, interface: UInt32Array, simple: BoolArray | None) -> Int64Array:
        if not len(ticks):
            return np.zeros(0, np.int64)
        if len(self._clocks) == 1:
            times = self._clocks[0].nanoseconds(ticks)
        else:
            times = self._convert_times_of_clocks(ticks, interface)
        if simple is not None and simple.any():
            timed = np.maximum.accumulate(np.where(simple, -1, np.arange(len(times))))
            times = np.where(timed < 0, self._last_time, times[timed])
            self._untimed = self._untimed or self._add_note(_UNTIMED, self._packets + int(simple.argmax()) + 1)
            self._untimed.count += int(simple.sum())
        self._last_time = int(times[-1])
        return times

    def _add_note(self, what: str, first: int) -> CaptureNote:
        note = CaptureNote(what, first, 0)
        self.notes.append(note)
        return note

    def _convert_times_of_clocks(self, ticks: UInt64Array, interface: UInt32Array) -> Int64Array:
        """The times of packets of interfaces with different clocks.

        A section may describe an interface before each packet: nothing here takes a step for each interface.
        """
        used = sort_distinct(interface)
        clock = np.array([self._clock_of[number] for number in used.tolist()])[np.searchsorted(used, interface)]
        order = np.argsort(clock, kind="stable")
        times = np.zeros(len(ticks), np.int64)
        for rows in np.split(order, np.flatnonzero(np.diff(clock[order])) + 1):
            times[rows] = self._clocks[clock[rows[0]]].nanoseconds(ticks[rows])
        return times


def _join_batches(view: UInt8Array, batches: list[RecordBatch]) -> RecordBatch:
    if len(batches) == 1:
        return batches[0]
    nothing = np.zeros(0, np.int64)
    parts = [RecordBatch(view, nothing, nothing, nothing, nothing, nothing.astype(np.uint32)), *batches]
    return RecordBatch(view, *(np.concatenate([getattr(part, name) for part in parts]) for name in RECORD_COLUMNS))
