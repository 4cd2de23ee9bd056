"""What every capture file format is turned into: batches of packet records over one buffer, without an object per packet."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

#: Zero bytes behind the last record of a batch's buffer, so that a fixed-width header can be gathered at any offset.
PADDING: Final = 256


class CaptureError(Exception):
    """Nothing of this capture can be read. The text is one line for the user: what is wrong, where, what to do."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Where a capture stops being readable; everything before it has been delivered."""

    offset: int  # byte offset in the (decompressed) file of the record or block that could not be read
    what: str  # one clause, without the offset: "the file ends inside a packet of 1434 bytes"


@dataclass(slots=True)
class Interface:
    """One interface of a capture: pcap has one, pcapng any number of them in each section."""

    link_type: int  # LINKTYPE_* of the file
    name: str | None  # if_name
    snaplen: int  # 0: no limit told


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Packets in file order: columns of one length n, over a buffer of their bytes.

    The buffer is valid until the next batch is asked for.
    """

    buffer: npt.NDArray[np.uint8]  # at least PADDING bytes stand behind the end of the last record
    offset: npt.NDArray[np.int64]  # of the frame's first byte in the buffer
    captured: npt.NDArray[np.int64]  # bytes of the frame that are in the buffer
    length: npt.NDArray[np.int64]  # bytes of the frame on the wire (never less than captured)
    time_ns: npt.NDArray[np.int64]  # ns since 1970-01-01 UTC
    interface: npt.NDArray[np.uint32]  # index into the reader's interfaces

    def __len__(self) -> int:
        return len(self.offset)
