"""The common result of all capture file formats: batches of packet records as columns."""

from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ikeanalyze.capture.arrays import Int64Array, UInt8Array, UInt32Array

#: Zero bytes after the last record of a batch's buffer, so that fixed-width headers can be read at any offset.
PADDING: Final = 256

#: Bytes of the longest valid packet; a longer one means that the file is damaged.
MAX_RECORD: Final = 16 << 20


#: Times outside of this range (November 1823 to February 2116) are set to its nearest end. Any difference of two times
#: fits into 64 bits, and the ends of that range are free for "unknown" and "never".
EARLIEST_NS: Final = 1 - (1 << 62)
LATEST_NS: Final = (1 << 62) - 1


class CaptureError(Exception):
    """The capture cannot be read; the message is one line for the user."""


class NoFileError(CaptureError):
    """None of several files can be read."""

    def __init__(self, skipped: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{path}: {reason}" for path, reason in skipped))
        self.skipped: Final = skipped  #: path and reason of each


class CaptureDamage(Struct, frozen=True):
    """Where and why reading a capture stopped; everything before was read."""

    offset: int  # byte offset in the (decompressed) file of the record or block that could not be read
    what: str  # one clause, without the offset: "the file ends inside a packet of 1434 bytes"


class CaptureNote(Struct):
    """A note for the user about packets that were read."""

    what: str  # one clause: "packets without a time of their own have the time of the packet before"
    first: int  # number of the first such packet, from 1
    count: int  # of such packets so far


class Interface(Struct):
    """One interface of a capture: pcap has one, pcapng any number of them in each section."""

    link_type: int  # LINKTYPE_* of the file
    name: str | None  # if_name
    snaplen: int  # 0: no limit
    resolution: int = 6  # of its times: a unit is 10^-n s, or with the bit 0x80 set 2^-(n - 128) s
    fcs_bytes: int | None = None  # of the frame check sequence that each frame ends with; None: unknown


class RecordBatch(Struct, frozen=True):
    """Packets in file order, as columns of one length. The buffer is valid until the next batch is read."""

    buffer: UInt8Array  # with at least PADDING bytes after the end of the last record
    offset: Int64Array  # of the frame's first byte in the buffer
    captured: Int64Array  # bytes of the frame that are in the buffer
    length: Int64Array  # bytes of the frame on the wire (never less than captured)
    time_ns: Int64Array  # ns since 1970-01-01 UTC
    interface: UInt32Array  # index into the reader's interfaces
    position: Int64Array | None = None  # of each packet in the batch that it was picked from; None: of no other batch

    def __len__(self) -> int:
        return len(self.offset)

    def select(self, rows: slice) -> "RecordBatch":
        """Some of the packets, over the same buffer."""
        return RecordBatch(self.buffer, *(getattr(self, name)[rows] for name in RECORD_COLUMNS))

    def pick(self, rows: Int64Array) -> "RecordBatch":
        """Some of the packets, with their positions in this batch."""
        return replace(self, position=rows, **{name: getattr(self, name)[rows] for name in RECORD_COLUMNS})

    def positions(self) -> Int64Array:
        """The position of each packet in the batch that it was picked from."""
        return np.arange(len(self)) if self.position is None else self.position


#: The columns of `RecordBatch` with a value for each packet.
RECORD_COLUMNS: Final = ("offset", "captured", "length", "time_ns", "interface")


class WalkResult(Struct, frozen=True):
    """Result of `walk` of a file format: the complete packets of a part of a file, and where they end."""

    batch: RecordBatch  # may be empty
    stop: int  # buffer offset after the last complete record or block
    needed: int  # bytes of the record or block at `stop`, as far as known
    wrong: str | None  # why the record or block at `stop` is invalid, one clause; None: it is incomplete
