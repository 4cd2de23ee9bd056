"""A capture that is still being written: handshakes are added when they have ended."""

from collections.abc import Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue

import polars as pl

from ikeanalyze.analysis.result import Analysis, CaptureSummary
from ikeanalyze.analysis.tables.tables import make_empty_tables
from ikeanalyze.keys.detect import KeyFile
from ikeanalyze.view.session import CaptureSession

_TABLES = ("frames", "messages", "exchanges", "handshakes")


class GrowingSession(CaptureSession):
    """A capture to which another thread adds handshakes."""

    def __init__(self, path: str, file_format: str, keys: Sequence[KeyFile] = (), ports: Sequence[int] = ()) -> None:
        """`file_format` is "pcap" or "pcapng"."""
        tables = make_empty_tables()
        # the list shows no numbers of the capture as a whole
        capture = CaptureSummary(path, file_format, 0, 0, None, None, 0, False, {}, {})
        analysis = Analysis([capture], tables.frames, tables.messages, tables.exchanges, tables.handshakes)
        super().__init__(path, analysis, keys, ports)
        self._added: SimpleQueue[Analysis | str] = SimpleQueue()
        self.problem: str | None = None  #: why no more handshakes will be added

    def add(self, analysis: Analysis) -> None:
        """Add handshakes, whose ids are greater than those before; can be called from any thread."""
        self._added.put(analysis)

    def end(self, problem: str) -> None:
        """Note that no more handshakes will be added; can be called from any thread."""
        self._added.put(problem)

    def update(self) -> bool:
        """Take the handshakes that were added into `analysis`; return whether something changed."""
        added: list[Analysis] = []
        problem = self.problem
        try:
            while True:
                item = self._added.get_nowait()
                if isinstance(item, str):
                    self.problem = item
                else:
                    added.append(item)
        except Empty:
            pass
        if added:
            parts = [self.analysis, *added]
            tables = {name: pl.concat([getattr(part, name) for part in parts]) for name in _TABLES}
            warnings = [warning for part in parts for warning in part.warnings]
            self.analysis = replace(self.analysis, **tables, warnings=warnings)
        return bool(added) or self.problem != problem
