"""One run: reads packets until they end, and reports handshakes as they end."""

import time
from collections.abc import Callable
from typing import Final

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.capture.formats.records import CaptureDamage, Interface, RecordBatch
from ikeanalyze.live.capture_feed import LiveInput, open_live_reader
from ikeanalyze.live.engine import LiveCounts, LiveEngine
from ikeanalyze.live.growing_keys import GrowingKeys
from ikeanalyze.live.packet_ring import PacketRing
from ikeanalyze.live.rules import EndingRules

#: Packets whose time is nearer to the present were captured just now; others are of a recording.
_PRESENT_NS: Final = 60_000_000_000
#: A packet may arrive this much later than it was captured.
_DELAY_NS: Final = 2_000_000_000


class LiveRun:
    """Reads a capture that is being written.

    The time of the capture is that of its packets. While none come, it is the present time, if the last packets were
    captured just now. So a recording gives the same result whenever and however fast it is read. In a file that grows,
    time always goes on.
    """

    def __init__(
        self,
        source: LiveInput,
        name: str,
        on_ended: Callable[[Analysis], object],
        options: ReadOptions,
        rules: EndingRules,
        keys: GrowingKeys | None = None,
        packets: PacketRing | None = None,
    ) -> None:
        """Wait for the file header, and read it. Arguments as of `LiveEngine`.

        Raises:
            CaptureError: the input is not a capture.
        """
        self._reader = open_live_reader(source, name)
        self.engine: Final = LiveEngine(name, self._reader.interfaces, on_ended, options, rules, keys, packets)
        self._source = source
        self._last_ns: int | None = None  # time of the last packet
        self._ahead_ns = 0  # of the present time, when the last packet was read

    @property
    def counts(self) -> LiveCounts:
        """The counts so far."""
        return self.engine.counts

    @property
    def format(self) -> str:
        """The format of the capture, "pcap" or "pcapng"."""
        return self._reader.format

    @property
    def interfaces(self) -> list[Interface]:
        """The interfaces of the capture so far."""
        return self._reader.interfaces

    @property
    def damage(self) -> CaptureDamage | None:
        """Where and why reading stopped early."""
        return self._reader.damage

    def run(self) -> None:
        """Read all packets, and report all handshakes."""
        self._source.on_idle = self._advance
        for batch in self._reader.iterate_batches():
            self._note_time(batch)
            self.engine.add(batch)
        self.engine.finish()

    def _note_time(self, batch: RecordBatch) -> None:
        self._last_ns = int(batch.time_ns[-1])
        self._ahead_ns = time.time_ns() - self._last_ns

    def _advance(self) -> None:
        if self._last_ns is None:
            return
        if abs(self._ahead_ns) < _PRESENT_NS:
            self.engine.advance(time.time_ns() - _DELAY_NS)
        elif self._source.follows:
            self.engine.advance(time.time_ns() - self._ahead_ns - _DELAY_NS)
