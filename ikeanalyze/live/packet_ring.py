"""The packets of a live capture as they were captured, for as long as they may be needed."""

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ikeanalyze.capture.formats.records import RecordBatch

#: Bytes of the last packets that are kept, whatever they are. The frames of an IP datagram or of a message in TCP are
#: known to belong to an IKE SA only when it is complete.
_RECENT_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class CapturedPacket:
    """A packet."""

    interface: int
    time_ns: int
    length: int  # on the wire
    data: bytes  # as captured


class PacketRing:
    """The last packets of a capture, and those of IKE SAs that have not ended."""

    def __init__(self, recent_bytes: int = _RECENT_BYTES) -> None:
        """`recent_bytes`: how many bytes of the last packets are kept."""
        self._most = recent_bytes
        self._bytes = 0
        self._recent: deque[tuple[int, RecordBatch]] = deque()  # number of the first packet, packets
        self._kept: dict[int, CapturedPacket] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, batch: RecordBatch, first: int) -> None:
        """Copy packets; `first` is the number of the first one."""
        begin, end = int(batch.offset.min()), int((batch.offset + batch.captured).max())
        self._recent.append((first, replace(batch, buffer=batch.buffer[begin:end].copy(), offset=batch.offset - begin)))
        self._bytes += end - begin
        while self._bytes > self._most and len(self._recent) > 1:
            self._bytes -= len(self._recent.popleft()[1].buffer)

    def keep(self, numbers: npt.NDArray[np.uint32]) -> None:
        """Keep the packets with these numbers, which are ascending, as far as they are among the last packets."""
        for first, batch in self._recent:
            low, high = np.searchsorted(numbers, (first, first + len(batch)))
            for number in numbers[low:high].tolist():
                row = number - first
                begin = int(batch.offset[row])
                self._kept[number] = CapturedPacket(
                    int(batch.interface[row]),
                    int(batch.time_ns[row]),
                    int(batch.length[row]),
                    batch.buffer[begin : begin + int(batch.captured[row])].tobytes(),
                )

    def get(self, numbers: npt.NDArray[np.uint32]) -> list[CapturedPacket]:
        """The packets with these numbers, without those that were not kept."""
        return [self._kept[number] for number in numbers.tolist() if number in self._kept]

    def release(self, numbers: npt.NDArray[np.uint32]) -> None:
        """Free the memory of kept packets except those with these numbers; not at each call."""
        if len(self._kept) > 2 * len(numbers):
            self._kept = {number: self._kept[number] for number in numbers.tolist() if number in self._kept}

    def renumber(self, decrease: int) -> None:
        """Decrease all numbers."""
        self._recent = deque((first - decrease, batch) for first, batch in self._recent)
        self._kept = {number - decrease: packet for number, packet in self._kept.items()}
