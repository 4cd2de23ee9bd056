"""Run programs that read captures, and show how long they took."""

import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "benchmarks" / "data"
LAUNCHER: Final = ROOT / "benchmarks" / "launch.py"


@dataclass(slots=True)
class Run:
    seconds: float
    peak_bytes: int  # of the largest process
    error: str | None = None
    processor_s: float = 0  # of all processes, in user and kernel


@dataclass(slots=True)
class Reader:
    """A program that reads a capture: processes connected by pipes."""

    name: str
    commands: list[list[str]]
    from_stdin: bool = True
    environment: dict[str, str] = field(default_factory=dict)  # in addition to ours
    runs: list[Run] = field(default_factory=list)
    once: bool = False  # it takes minutes, and is run once

    def run(self, capture: Path) -> Run:
        """Run the commands by a small program of its own, see `launch`."""
        request = {"commands": self.commands, "stdin": str(capture) if self.from_stdin else None}
        done = subprocess.run(
            [sys.executable, "-S", str(LAUNCHER)],
            input=json.dumps(request),
            stdout=subprocess.PIPE,
            env=os.environ | self.environment,
            text=True,
            check=True,
        )
        run = Run(**json.loads(done.stdout))
        self.runs.append(run)
        return run

    @property
    def error(self) -> str | None:
        return next((run.error for run in self.runs if run.error), None)

    @property
    def seconds(self) -> float:
        return statistics.median(run.seconds for run in self.runs)

    @property
    def processor_s(self) -> float:
        return statistics.median(run.processor_s for run in self.runs)

    @property
    def peak_bytes(self) -> int:
        return max(run.peak_bytes for run in self.runs)


def find_our_command() -> list[str]:
    """The console script next to this Python, or `python -m ikeanalyze`."""
    script = Path(sys.executable).with_name("ikeanalyze")
    return [str(script)] if script.exists() else [sys.executable, "-m", "ikeanalyze"]


def read_tshark_version(tshark: Sequence[str]) -> str | None:
    """The version of a tshark; None: it does not run."""
    try:
        done = subprocess.run([*tshark, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r"\d+\.\d+\.\d+", done.stdout)
    return match[0] if match else "?"


@dataclass(slots=True)
class Row:
    capture: str
    reader: str
    seconds: float | None
    times: list[float]
    ratio: float | None  # to ikeanalyze on the same capture
    peak_bytes: int | None
    error: str | None


def make_row(path: Path, reader: Reader, ours: Reader) -> Row:
    if reader.error:
        return Row(path.stem, reader.name, None, [], None, None, reader.error)
    ratio = None if ours.error else reader.seconds / ours.seconds
    times = [round(run.seconds, 4) for run in reader.runs]
    return Row(path.stem, reader.name, reader.seconds, times, ratio, reader.peak_bytes, None)


def describe_processor() -> str:
    """Number and model of the processors that this process may use."""
    name = platform.processor() or platform.machine()
    try:
        model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
        name = model[1] if model else name
    except OSError:
        pass
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{count} x {name}"


def print_progress(what: str) -> None:
    print(what, file=sys.stderr)


def make_table(rows: Sequence[Row]) -> Table:
    table = Table()
    for name in ("capture", "reader"):
        table.add_column(name, no_wrap=True)
    for name in ("s", "times ours", "peak MB"):
        table.add_column(name, justify="right", no_wrap=True)
    previous = None
    for row in rows:
        if previous not in (None, row.capture):
            table.add_section()
        name = row.capture if previous != row.capture else ""
        previous = row.capture
        if row.seconds is None:
            table.add_row(name, row.reader, "failed", "-", "-")
            continue
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        peak = f"{(row.peak_bytes or 0) / 1e6:.0f}"
        table.add_row(name, row.reader, f"{row.seconds:.2f}", ratio, peak)
    return table
