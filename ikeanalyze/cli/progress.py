"""A progress bar on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: A function that shows progress: takes the completed and the total amount (None: unknown), in bytes or in units.
ShowProgress = Callable[[int, int | None], None]

_DELAY: Final = 1.0  # seconds before the bar appears
#: Seconds of the past that the time left is estimated from: units of a count may take minutes each.
_PERIOD: Final = 30.0
_COUNT_PERIOD: Final = 3600.0


class _Bar:
    """A progress bar that appears only if the work lasts longer than the delay; to be called as `ShowProgress`."""

    def __init__(self, label: str, *, counts: bool) -> None:
        self._label, self._counts = label, counts
        self._start = time.monotonic()
        self._shown: tuple[Progress, TaskID] | None = None

    def __call__(self, done: int, total: int | None) -> None:
        if self._shown is None:
            if time.monotonic() - self._start < _DELAY:
                return
            self._shown = self._show(total)
        progress, task = self._shown
        progress.update(task, completed=done, total=total)

    def _show(self, total: int | None) -> "tuple[Progress, TaskID]":
        # imported here because most commands end before the bar appears
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
            TextColumn(self._label),
            BarColumn(),
            MofNCompleteColumn() if self._counts else DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            # on the terminal, lines go above the bar; a file or a pipe gets them as they are
            redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
            speed_estimate_period=_COUNT_PERIOD if self._counts else _PERIOD,
        )
        progress.start()
        return progress, progress.add_task(self._label, total=total)

    def close(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()


def is_progress_visible() -> bool:
    """Return whether standard error is open and a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def make_progress_bar(*, quiet: bool, label: str = "reading", counts: bool = False) -> Iterator[ShowProgress | None]:
    """Yield a function that shows progress, or None if there is to be no bar.

    `counts`: the bar counts units, such as predictions, instead of bytes.
    """
    if quiet or not is_progress_visible():
        yield None
        return
    bar = _Bar(label, counts=counts)
    try:
        yield bar
    finally:
        bar.close()
