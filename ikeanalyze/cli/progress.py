"""A progress bar on standard error, for people who wait."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Told what is done and the total of it (None: not known), in bytes unless the bar was asked to count something else.
Report = Callable[[int, int | None], None]

_PATIENCE: Final = 1.0  # seconds before there is a bar


class _Bar:
    def __init__(self, what: str, *, counts: bool) -> None:
        self._what, self._counts = what, counts
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
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        progress = Progress(
            TextColumn(self._what),
            BarColumn(),
            MofNCompleteColumn() if self._counts else DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        progress.start()
        return progress, progress.add_task(self._what, total=total)

    def close(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()


def watched() -> bool:
    """Whether somebody may see what standard error is told: it is a terminal, and not closed."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def bar(*, quiet: bool, what: str = "reading", counts: bool = False) -> Iterator[Report | None]:
    """What to tell the progress to: None where nobody would see it. `counts`: it is told numbers, and not bytes."""
    if quiet or not watched():
        yield None
        return
    shown = _Bar(what, counts=counts)
    try:
        yield shown
    finally:
        shown.close()
