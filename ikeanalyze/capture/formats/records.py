"""What every capture file format is turned into: batches of packet records, without an object per packet."""

from dataclasses import dataclass
from typing import Final

from ikeanalyze.capture.arrays import Int64Array, UInt8Array, UInt32Array

#: Zero bytes behind the last record of a batch's buffer: a fixed-width header can be gathered at any offset.
PADDING: Final = 256

#: Bytes of the longest packet that is believed: a longer one is damage.
MAX_RECORD: Final = 16 << 20


class CaptureError(Exception):
    """Nothing of this capture can be read; one line for the user: what is wrong, where, what to do."""


@dataclass(frozen=True, slots=True)
class CaptureDamage:
    """Where a capture stops being readable; everything before it has been delivered."""

    offset: int  # byte offset in the (decompressed) file of the record or block that could not be read
    what: str  # one clause, without the offset: "the file ends inside a packet of 1434 bytes"


@dataclass(slots=True)
class CaptureNote:
    """Something about a capture that its user should be told, though no packet was lost by it."""

    what: str  # one clause: "packets without a time of their own have the time of the packet before"
    first: int  # number of the first packet that it is true of, from 1
    count: int  # of the packets that it is true of, so far


@dataclass(slots=True)
class Interface:
    """One interface of a capture: pcap has one, pcapng any number of them in each section."""

    link_type: int  # LINKTYPE_* of the file
    name: str | None  # if_name
    snaplen: int  # 0: no limit told
    resolution: int = 6  # of its times: a unit is 10^-n s, or with the bit 0x80 set 2^-(n - 128) s
    fcs_bytes: int | None = None  # of the frame check sequence that each frame ends with; None: not told


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Packets in file order: columns of one length n, over a buffer of their bytes.

    The buffer is valid until the next batch is asked for.
    """

    buffer: UInt8Array  # at least PADDING bytes stand behind the end of the last record
    offset: Int64Array  # of the frame's first byte in the buffer
    captured: Int64Array  # bytes of the frame that are in the buffer
    length: Int64Array  # bytes of the frame on the wire (never less than captured)
    time_ns: Int64Array  # ns since 1970-01-01 UTC
    interface: UInt32Array  # index into the reader's interfaces

    def __len__(self) -> int:
        return len(self.offset)

    def select(self, rows: slice) -> "RecordBatch":
        """Some of the packets, over the same buffer."""
        return RecordBatch(
            self.buffer,
            self.offset[rows],
            self.captured[rows],
            self.length[rows],
            self.time_ns[rows],
            self.interface[rows],
        )


@dataclass(frozen=True, slots=True)
class WalkResult:
    """What one walk over a stretch of a capture found: whole packets, and what stands behind them."""

    batch: RecordBatch  # may be empty
    stop: int  # buffer offset behind the last whole record or block; what begins there is unfinished or wrong
    needed: int  # bytes that what begins at `stop` takes, as far as can be told yet: more than were there
    wrong: str | None  # why what begins at `stop` cannot be a record, one clause; None: it may be one
