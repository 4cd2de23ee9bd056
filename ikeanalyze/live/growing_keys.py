"""Key files that may grow during a capture: the log of a daemon has the keys of a handshake when it has been made."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from ikeanalyze.capture.arrays import UInt64Array
from ikeanalyze.keys.detect import KeyFile, KeyFileError, read_keys
from ikeanalyze.keys.key_table import CaptureKeys
from ikeanalyze.wire.header import SPI_BYTES

#: Seconds between two looks at the files.
_PAUSE: Final = 5.0
#: Reading takes this share of the time at most: large files are looked at more rarely.
_MAX_SHARE: Final = 0.1


class GrowingKeys:
    """The keys in files, which are read again when they have changed."""

    def __init__(self, paths: Sequence[str], on_problem: Callable[[KeyFileError], object]) -> None:
        """Read the files. `on_problem` is called for each that has no usable key yet.

        Raises:
            KeyFileError: a file cannot be read.
        """
        self.files: list[KeyFile] = []  #: the files with keys, as they were read last
        self._found: dict[str, KeyFile] = {}
        self._states = {path: _get_state(path) for path in paths}
        self._next = 0.0
        start = time.monotonic()
        for path, state in self._states.items():
            try:
                self._found[path] = read_keys(path)
            except KeyFileError as error:
                if state is None:  # not a file that may grow
                    raise
                on_problem(error)
        self._update(start)

    def select(self, spis: UInt64Array) -> CaptureKeys:
        """The keys of IKE SAs with these SPIs of their initiators, and those that do not name an IKE SA.

        If there are none, the first keys of all: without keys, a report does not tell which exchanges were decrypted.
        """
        self._refresh()
        wanted = {None, *(int(spi).to_bytes(SPI_BYTES, "big") for spi in spis)}
        key_sets = [keys for file in self.files for keys in file.key_sets]
        phase1 = [key for file in self.files for key in file.phase1]
        chosen = CaptureKeys(
            [keys for keys in key_sets if keys.spi_i in wanted], [key for key in phase1 if key.cookie_i in wanted]
        )
        return chosen or CaptureKeys(key_sets[:1], phase1[:1])

    def _refresh(self) -> None:
        start = time.monotonic()
        if start < self._next:
            return
        for path, before in self._states.items():
            state = _get_state(path)
            if state is None or state == before:
                continue
            self._states[path] = state
            try:
                self._found[path] = read_keys(path)
            except KeyFileError:  # while a log is rotated: the keys before are kept
                continue
        self._update(start)

    def _update(self, start: float) -> None:
        self.files[:] = self._found.values()
        now = time.monotonic()
        self._next = now + max(_PAUSE, (now - start) / _MAX_SHARE)


def _get_state(path: str) -> tuple[int, int, int] | None:
    """What changes when a file is written; None: not a regular file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns) if os.path.isfile(path) else None
