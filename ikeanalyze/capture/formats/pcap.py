"""Decodes pcap files (draft-ietf-opsawg-pcap), and the variants that libpcap and Wireshark read.

Some variants have the magic number of another one. Wireshark tells them apart by their first records, and so does
`Pcap.choose_variant`: https://gitlab.com/wireshark/wireshark/-/blob/master/wiretap/libpcap.h has their layouts.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

import numpy as np

from ikeanalyze import core
from ikeanalyze.capture.arrays import Int64Array, UInt8Array, find_rows, read_struct_array
from ikeanalyze.capture.formats.records import MAX_RECORD, CaptureNote, Interface, RecordBatch, WalkResult

#: Bytes of the file header, including the magic number.
FILE_HEADER: Final = 24

_MICROSECONDS: Final = 0xA1B2C3D4
_NANOSECONDS: Final = 0xA1B23C4D
#: Alexey Kuznetzov's patch: each record header is followed by interface index, protocol and packet type.
_MODIFIED: Final = 0xA1B2CD34
_MAGICS: Final = (_MICROSECONDS, _NANOSECONDS, _MODIFIED)
#: Variants with these magic numbers and version 2.4: bytes of a record header, and whose files they are. Nokia's have 4
#: bytes after the usual ones, Red Hat's and SuSE's what `_MODIFIED` has or an earlier form of it.
_VARIANTS: Final[Mapping[int, Mapping[int, str]]] = {
    _MICROSECONDS: {24: "the tcpdump of Red Hat Linux 6.1", 20: "the tcpdump of Nokia firewalls"},
    _MODIFIED: {28: "the tcpdump of SuSE Linux 6.3"},
}
#: Records that identify a variant, and the longest time between two of them, in seconds. A header that is read at the
#: wrong place has a length or an address as its time.
_MIN_VARIANT_RECORDS: Final = 2
_MAX_GAP_S: Final = 366 * 86400
#: AIX writes version 2.2, nanoseconds, and as link types the interface types of RFC 1573: Ethernet, token ring, FDDI,
#: loopback. Other systems that wrote version 2.2 use none of these numbers but 9, which is PPP there.
_AIX_VERSION: Final = (2, 2)
_AIX_LINK_TYPES: Final = {6: 1, 9: 6, 15: 10, 24: 0}

#: Some writers exceed the snapshot length; records up to libpcap's limit are accepted without further checks.
_USUAL_RECORD: Final = 262144
#: Number of plausible record headers in sequence that identify a record.
_CHAIN: Final = 64
#: The number that suffices if the data ends before, because the records are large.
_MIN_CHAIN: Final = 8
#: So many byte positions are checked for a record header in one numpy operation.
_GUESSED_AT_ONCE: Final = 2048
#: Bits of the network field with the link type; the FCS length and reserved bits are above them.
_LINK_TYPE_BITS: Final = 0x03FFFFFF
_FCS_TOLD: Final = 0x04000000


def is_pcap(head: bytes) -> bool:
    """Whether a file that begins with these four bytes is a pcap file."""
    return _get_byte_order(head) is not None


def _get_byte_order(head: bytes) -> str | None:
    if int.from_bytes(head[:4], "little") in _MAGICS:
        return "<"
    return ">" if int.from_bytes(head[:4], "big") in _MAGICS else None


class Pcap:
    """Decodes the header and the records of a pcap file.

    Raises:
        ValueError: not a pcap header, or a version before 2.0; the text is for the user.
    """

    name: Final = "pcap"

    def __init__(self, header: bytes) -> None:
        order = _get_byte_order(header)
        if order is None or len(header) < FILE_HEADER:
            raise ValueError("not a pcap file header")
        magic, major, minor, _zone, _digits, snaplen, network = Struct(order + "IHHiIII").unpack_from(header)
        if major < 2:
            raise ValueError(f"unsupported pcap version {major}.{minor}")
        fcs = (network >> 28) * 2 if network & _FCS_TOLD else None  # the field counts 16-bit words
        link_type = network & _LINK_TYPE_BITS
        is_aix = magic == _MICROSECONDS and (major, minor) == _AIX_VERSION and network in _AIX_LINK_TYPES
        if is_aix:
            link_type = _AIX_LINK_TYPES[network]
        in_nanoseconds = is_aix or magic == _NANOSECONDS
        self.interfaces: Final = [Interface(link_type, None, snaplen, 9 if in_nanoseconds else 6, fcs)]
        self.notes: Final[list[CaptureNote]] = []
        # Since version 2.3 the captured length precedes the length on the wire; some writers of 2.3 kept the old order,
        # as DG/UX does in version 543.0.
        self._lengths_swapped = (major == 2 and minor < 3) or (major, minor) == (543, 0)
        self._lengths_unordered = (major, minor) == (2, 3)
        #: Bytes of a record header, as the magic number tells, and as the records show.
        self.marked_header_size: Final = 24 if magic == _MODIFIED else 16
        self.header_size = self.marked_header_size
        self._variants = _VARIANTS.get(magic, {}) if (major, minor) == (2, 4) else {}
        self._fraction_ns = 1 if in_nanoseconds else 1000
        self._usual = max(_USUAL_RECORD, snaplen)
        self._header = Struct(order + "4I")
        self._word = Struct(order + "I")
        lengths = ("length", "captured") if self._lengths_swapped else ("captured", "length")
        self._for_core: dict[str, Any] = {
            "big_endian": order == ">",
            "lengths_swapped": self._lengths_swapped,
            "lengths_unordered": self._lengths_unordered,
            "header_size": self.header_size,
            "fraction_ns": self._fraction_ns,
            "usual": self._usual,
        }
        self._layout = np.dtype([(field, order + "u4") for field in ("seconds", "fraction", *lengths)])

    def choose_variant(self, data: bytes) -> None:
        """Choose the layout of the records by those that `data`, which follow the file header, begin with.

        It is changed if the usual record headers are not plausible and those of one variant are.
        """
        if not self._variants or self._count_sensible_records(data, self.header_size):
            return
        sizes = self._variants
        fitting = [size for size in sizes if self._count_sensible_records(data, size) >= _MIN_VARIANT_RECORDS]
        if len(fitting) == 1:
            what = f"each packet has a header of {fitting[0]} bytes, not {self.header_size}: read as a file of "
            self.notes.append(CaptureNote(what + sizes[fitting[0]], 1, 0))
            self.header_size = self._for_core["header_size"] = fitting[0]

    def _count_sensible_records(self, data: bytes, header_size: int) -> int:
        """The number of whole records that `data` begin with, up to `_CHAIN`; 0: one of them makes no sense.

        A header that is read at the wrong place may make sense, but its record rarely ends where the next one begins,
        or the file.
        """
        at, before = 0, None
        for count in range(_CHAIN):
            if at + header_size > len(data):
                return count
            seconds, fraction, captured, length = self._read_header(data, at)
            if not length or captured > min(length, self._usual) or length > MAX_RECORD:
                return 0
            if fraction * self._fraction_ns >= 1_000_000_000 or abs(seconds - (before or seconds)) > _MAX_GAP_S:
                return 0
            at, before = at + header_size + captured, seconds
            if at > len(data):
                return count
        return _CHAIN

    def walk(self, buffer: bytearray, view: UInt8Array, start: int, end: int) -> WalkResult:
        """The complete records in buffer[start:end]; `view`: the buffer as an array, with PADDING bytes after `end`."""
        if core.compiled is not None:
            records = core.compiled.walk_pcap(view, start, end, **self._for_core)
            if records is not None:
                offset, captured, length, time_ns, stop = records
                batch = RecordBatch(view, offset, captured, length, time_ns, np.zeros(len(offset), np.uint32))
                return self._finish(buffer, batch, stop, end, None)
        at, stop = self._find_records(buffer, start, end)
        header = read_struct_array(view, at, self._layout)
        captured = header["captured"].astype(np.int64)
        length = header["length"].astype(np.int64)
        if self._lengths_unordered:
            captured, length = np.minimum(captured, length), np.maximum(captured, length)
        suspects = find_rows((captured > self._usual) | (captured == 0)) if len(at) else ()
        wrong = None
        for index in suspects:
            seconds, fraction = int(header["seconds"][index]), int(header["fraction"][index])
            wrong = self._explain_invalid(seconds, fraction, int(captured[index]), int(length[index]))
            if wrong:
                stop = int(at[index])
                at, header, captured, length = at[:index], header[:index], captured[:index], length[:index]
                break
        batch = RecordBatch(
            buffer=view,
            offset=at + self.header_size,
            captured=captured,
            length=np.maximum(captured, length),
            time_ns=header["seconds"].astype(np.int64) * 1_000_000_000
            + header["fraction"].astype(np.int64) * self._fraction_ns,
            interface=np.zeros(len(at), np.uint32),
        )
        return self._finish(buffer, batch, stop, end, wrong)

    def _finish(self, buffer: bytearray, batch: RecordBatch, stop: int, end: int, wrong: str | None) -> WalkResult:
        """The result of a walk whose records end at `stop`, where a record can be incomplete."""
        needed = self.header_size
        if not wrong and end - stop >= self.header_size:
            fields = self._read_header(buffer, stop)
            needed += fields[2]
            wrong = self._explain_invalid(*fields)
        return WalkResult(batch, stop, needed, wrong)

    def describe_truncation(self, buffer: bytearray, start: int, end: int) -> str:
        """Where the file ends if buffer[start:end] is its rest, such as "inside a packet of 90 bytes, ..."."""
        if end - start < self.header_size:
            missing = self.header_size - (end - start)
            return f"inside the {self.header_size} bytes before a packet, {missing} of which are missing"
        size = self._read_header(buffer, start)[2]
        return f"inside a packet of {size} bytes, {start + self.header_size + size - end} of which are missing"

    @property
    def record_layout(self) -> Mapping[str, Any]:
        """How the records are written, as arguments of the functions of the compiled core."""
        return self._for_core

    def guess(self, data: bytes) -> int | None:
        """The position of the first record in a part of a file: one that is followed by many plausible records."""
        stop = min(len(data) - self.header_size + 1, _USUAL_RECORD)
        for low in range(0, stop, _GUESSED_AT_ONCE):
            positions: list[int] = self._find_plausible(data, low, min(low + _GUESSED_AT_ONCE, stop)).tolist()
            for first in positions:
                if self._begins_chain(data, first):
                    return first
        return None

    def _find_plausible(self, data: bytes, low: int, high: int) -> Int64Array:
        """The positions from `low` to `high` with a plausible record header, as `_read_plausible_size` decides."""
        header = read_struct_array(np.frombuffer(data, np.uint8), np.arange(low, high), self._layout)
        captured, length = header["captured"].astype(np.int64), header["length"].astype(np.int64)
        if self._lengths_unordered:
            captured, length = np.minimum(captured, length), np.maximum(captured, length)
        plausible = (captured > 0) & (captured <= np.minimum(length, self._usual)) & (length <= MAX_RECORD)
        plausible &= header["fraction"].astype(np.int64) * self._fraction_ns < 1_000_000_000
        return low + find_rows(plausible)

    def _begins_chain(self, data: bytes, at: int) -> bool:
        for count in range(_CHAIN):
            if at + self.header_size > len(data):
                return count >= _MIN_CHAIN
            size = self._read_plausible_size(data, at)
            if size is None:
                return False
            at += self.header_size + size
        return True

    def _read_plausible_size(self, data: bytes, at: int) -> int | None:
        """The captured length in the record header at this position; None if the header is not plausible."""
        _, fraction, captured, length = self._read_header(data, at)
        if 0 < captured <= min(length, self._usual) and length <= MAX_RECORD:
            return captured if fraction * self._fraction_ns < 1_000_000_000 else None
        return None

    def _find_records(self, buffer: bytearray, start: int, end: int) -> tuple[Int64Array, int]:
        """The positions of the record headers, and the position after the last complete record."""
        # The only loop over packets: it only finds the next header. It reads up to 16 bytes after `end`.
        skip, unpack = self.header_size, self._word.unpack_from
        length_at = 12 if self._lengths_swapped else 8
        at, stop = start + length_at, end + length_at
        length_positions = [at]
        append = length_positions.append
        if self._lengths_unordered:
            unpack_both = Struct(self._header.format[:1] + "2I").unpack_from
            while (at := at + skip + min(unpack_both(buffer, at))) <= stop:
                append(at)
        else:
            while (at := at + skip + unpack(buffer, at)[0]) <= stop:
                append(at)
        positions: Int64Array = np.array(length_positions, np.int64) - length_at
        return positions[:-1], length_positions[-1] - length_at

    def _read_header(self, buffer: bytearray | bytes, at: int) -> tuple[int, int, int, int]:
        """Seconds, fraction, captured length and length on the wire in the record header at this position."""
        seconds, fraction, captured, length = self._header.unpack_from(buffer, at)
        if self._lengths_swapped or (self._lengths_unordered and captured > length):
            captured, length = length, captured
        return seconds, fraction, captured, length

    def _explain_invalid(self, seconds: int, fraction: int, captured: int, length: int) -> str | None:
        """Why a record header is invalid; None if it is valid."""
        if not (seconds or fraction or captured or length):
            return "zero bytes instead of a packet"
        if captured > MAX_RECORD:
            return f"a packet is said to be {captured} bytes long"
        if captured > self._usual and not captured <= length <= MAX_RECORD:
            return f"a packet is said to be {length} bytes long, and {captured} bytes of it to be here"
        return None
