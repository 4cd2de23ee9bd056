"""A progress bar on standard error, for people who wait."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Told the bytes that are done and their total (None: not known).
Report = Callable[[int, int | None], None]

_PATIENCE: Final = 1.0  # seconds before there is a bar


class _Bar:
    def __init__(self) -> None:
        self._start = time.monotonic()
        self._shown: tuple[Progress, TaskID] | None = None

    def __call__(self, done: int, total: int | None) -> None:
        if self._shown is None:
            if time.monotonic() - self._start < _PATIENCE:
                return
            self._shown = self._show(total)
        progress, task = self._shown
        progress.update(task, completed=done, total=total)

    def _show(self, total: int | None) -> "tuple[Progress, TaskID]":
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        progress = Progress(
            TextColumn("reading"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        progress.start()
        return progress, progress.add_task("reading", total=total)

    def close(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()


@contextmanager
def bar(*, quiet: bool) -> Iterator[Report | None]:
    """What to tell the progress to: None where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    shown = _Bar()
    try:
        yield shown
    finally:
        shown.close()
