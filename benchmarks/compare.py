"""Time ikeanalyze against tshark on large captures: python -m benchmarks.compare

Missing captures are generated in benchmarks/data/. The programs run in turns, so that other load on the machine
affects all of them; the tables have the medians. Files are in the page cache. ikeanalyze writes Parquet files, the
output of the others goes to /dev/null. tshark and tcpdump read the capture from standard input, so that a tshark in
another root directory ('chroot DIR tshark') needs no copy. Peak memory is the resident memory that wait4 reports, and
never less than the 20 MB of the measuring process.
"""

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.files import parse_size, size_name, truth_path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "benchmarks" / "data"
SMALL = ROOT / "captures" / "psk-classic.pcap"
SMALL_LIMIT_S = 0.6
KINDS = ("ike-heavy", "esp-heavy")

FIELDS = (
    *("frame.number", "frame.time_epoch", "frame.len", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst"),
    *("udp.srcport", "udp.dstport", "isakmp.ispi", "isakmp.rspi", "isakmp.exchangetype"),
    *("isakmp.messageid", "isakmp.flags", "isakmp.frag.number"),
)
RECIPE = [
    "-n",
    "-r",
    "-",
    "-Y",
    "isakmp",
    "-T",
    "fields",
    *(part for name in FIELDS for part in ("-e", name)),
]
# `and` and `or` have equal precedence in a capture filter: without parentheses, port 500 would be lost
FILTER = "udp port 500 or (udp port 4500 and udp[8:4] = 0)"


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
        run = self._run(capture)
        self.runs.append(run)
        return run

    def _run(self, capture: Path) -> Run:
        processes: list[subprocess.Popen[bytes]] = []
        with (
            tempfile.TemporaryFile() as errors,
            capture.open("rb") if self.from_stdin else nullcontext(subprocess.DEVNULL) as file,
            open(os.devnull, "wb") as nowhere,
        ):
            environment = os.environ | self.environment
            begin = time.perf_counter()
            source: Any = file
            try:
                for number, command in enumerate(self.commands):
                    last = number == len(self.commands) - 1
                    target: Any = nowhere if last else subprocess.PIPE
                    process = subprocess.Popen(command, stdin=source, stdout=target, stderr=errors, env=environment)
                    processes.append(process)
                    if number:
                        source.close()
                    source = process.stdout
            except OSError as error:
                for process in processes:
                    process.kill()
                    process.wait()
                return Run(0, 0, str(error))
            peak, failed, processor_s = 0, False, 0.0
            for process in processes:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                failed |= process.returncode != 0
                processor_s += usage.ru_utime + usage.ru_stime
                peak = max(peak, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
            seconds = time.perf_counter() - begin
            if not failed:
                return Run(seconds, peak, processor_s=processor_s)
            errors.seek(0)
            messages = errors.read().decode(errors="replace").strip().splitlines()
            return Run(seconds, peak, messages[-1] if messages else "failed")

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


def our_command() -> list[str]:
    """The console script next to this Python, or `python -m ikeanalyze`."""
    script = Path(sys.executable).with_name("ikeanalyze")
    return [str(script)] if script.exists() else [sys.executable, "-m", "ikeanalyze"]


def tshark_version(tshark: Sequence[str]) -> str | None:
    """The version of a tshark; None: it does not run."""
    try:
        done = subprocess.run([*tshark, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r"\d+\.\d+\.\d+", done.stdout)
    return match[0] if match else "?"


def capture_path(kind: str, size: int) -> Path:
    """Where `capture` has its file."""
    return DATA / f"{kind}-{size_name(size)}.pcap"


def capture(kind: str, size: int) -> Path:
    """The capture, generated if it does not exist; reads it into the page cache."""
    path = capture_path(kind, size)
    if not (path.exists() and truth_path(path).exists()):
        DATA.mkdir(exist_ok=True)
        say(f"generating {path.relative_to(ROOT)}")
        # in a separate process: the peak memory of a child starts with that of its parent at the fork
        command = [
            sys.executable,
            "-m",
            "benchmarks.generate",
            kind,
            "--size",
            size_name(size),
            "-o",
            str(path),
        ]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    Reader("cat", [["cat", str(path)]], from_stdin=False).run(path)
    return path


def say(what: str) -> None:
    print(what, file=sys.stderr)


def our_reader(ours: Sequence[str], path: Path, directory: Path) -> Reader:
    command = [*ours, "report", str(path), "--format", "parquet", "-o", str(directory)]
    return Reader("ikeanalyze report, Parquet", [command], from_stdin=False)


def check(path: Path, directory: Path) -> dict[str, Any]:
    """The differences from the expected counts; empty: none."""
    command = [sys.executable, "-m", "benchmarks.check", str(path), str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        return {"check": (done.stderr.strip().splitlines() or ["failed"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@dataclass(slots=True)
class Row:
    capture: str
    reader: str
    seconds: float | None
    times: list[float]
    ratio: float | None  # to ikeanalyze on the same capture
    peak_bytes: int | None
    error: str | None


def row(path: Path, reader: Reader, ours: Reader) -> Row:
    if reader.error:
        return Row(path.stem, reader.name, None, [], None, None, reader.error)
    ratio = None if ours.error else reader.seconds / ours.seconds
    times = [round(run.seconds, 4) for run in reader.runs]
    return Row(path.stem, reader.name, reader.seconds, times, ratio, reader.peak_bytes, None)


def compare(
    path: Path, ours: Sequence[str], tsharks: Sequence[tuple[list[str], str]], runs: int
) -> tuple[list[Row], dict[str, Any]]:
    """The rows of all readers, and the differences of our tables from the expected counts."""
    with tempfile.TemporaryDirectory(dir=DATA) as directory:
        us = our_reader(ours, path, Path(directory) / "tables")
        others = [Reader("cat to /dev/null", [["cat", str(path)]], from_stdin=False)]
        filtered = ["tcpdump", "-r", "-", "-w", "-", FILTER]
        for command, number in tsharks:
            others.append(Reader(f"tshark {number} -T fields", [[*command, *RECIPE]]))
            if shutil.which("tcpdump"):
                others.append(Reader(f"tcpdump | tshark {number} -T fields", [filtered, [*command, *RECIPE]]))
        for turn in range(runs):
            say(f"{path.stem}: run {turn + 1} of {runs}")
            for other in others:
                if other.error is None:
                    if us.error is None:
                        us.run(path)
                    other.run(path)
        wrong = {"report": us.error} if us.error else check(path, Path(directory) / "tables")
    return [row(path, reader, us) for reader in [us, *others]], wrong


def scale(kind: str, size: int, ours: Sequence[str], runs: int) -> list[Row]:
    """The rows of ikeanalyze for an eighth, a quarter, half and all of the size."""
    rows = []
    for part in (8, 4, 2, 1):
        path = capture(kind, size // part)
        say(f"{path.stem}: ikeanalyze alone")
        with tempfile.TemporaryDirectory(dir=DATA) as directory:
            us = our_reader(ours, path, Path(directory) / "tables")
            for _ in range(runs):
                us.run(path)
        rows.append(row(path, us, us))
    return rows


def small(ours: Sequence[str], runs: int) -> Row:
    """The row of one small capture, read by a command as in a shell."""
    us = Reader("ikeanalyze report", [[*ours, "report", str(SMALL)]], from_stdin=False)
    for _ in range(max(runs, 5)):
        us.run(SMALL)
    return row(SMALL, us, us)


def processor() -> str:
    """Number and model of the processors that this process may use."""
    name = platform.processor() or platform.machine()
    try:
        model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
        name = model[1] if model else name
    except OSError:
        pass
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{count} x {name}"


def show(rows: Sequence[Row]) -> Table:
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


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--size", type=parse_size, default="1GiB", help="size of each capture (default: 1GiB)")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this capture (repeatable)")
    parser.add_argument(
        "--tshark",
        action="append",
        metavar="COMMAND",
        help="command of a tshark, such as 'chroot DIR tshark' (repeatable)",
    )
    parser.add_argument("--ours", type=shlex.split, metavar="COMMAND", default=our_command())
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", action="store_true", help="also measure an eighth, a quarter and half of the size")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    tsharks = []
    for text in options.tshark or ["tshark"]:
        command = shlex.split(text)
        number = tshark_version(command)
        if number is None:
            say(f"{text} does not run and is left out")
        else:
            tsharks.append((command, number))

    kinds = options.kind or KINDS
    rows, wrong, scaled = [], {}, []
    for kind in kinds:
        path = capture(kind, options.size)
        more, wrong[path.stem] = compare(path, options.ours, tsharks, options.runs)
        rows += more
    if options.scale:
        for kind in kinds:
            scaled += scale(kind, options.size, options.ours, options.runs)
    typed = small(options.ours, options.runs)
    in_time = typed.seconds is not None and typed.seconds <= SMALL_LIMIT_S

    if options.json:
        result = {
            "machine": processor(),
            "ikeanalyze": shlex.join(options.ours),
            "tshark": [{"command": shlex.join(command), "version": number} for command, number in tsharks],
            "recipe": shlex.join(["tshark", *RECIPE]),
            "filter": FILTER,
            "runs": options.runs,
            "rows": [asdict(row) for row in rows],
            "scale": [asdict(row) for row in scaled],
            "differences": wrong,
            "small": {**asdict(typed), "limit": SMALL_LIMIT_S},
        }
        print(json.dumps(result, indent=2))
    else:
        out = Console(highlight=False, soft_wrap=True, markup=False, width=max(Console().width, 100))
        out.print(f"{processor()}; medians of {options.runs}; captures in the page cache")
        out.print(f"ikeanalyze: {shlex.join(options.ours)} report CAPTURE --format parquet -o DIRECTORY")
        out.print(f"tshark: {shlex.join(['tshark', *RECIPE])} < CAPTURE")
        out.print(f"tcpdump: tcpdump -r - -w - '{FILTER}' < CAPTURE | tshark ...")
        out.print(show([*rows, *scaled, typed]), soft_wrap=False)
        out.print(f"one small capture within {SMALL_LIMIT_S} s: {'yes' if in_time else 'NO'}")
        for name, parts in wrong.items():
            verdict = f"counts are WRONG: {parts}" if parts else "counts are right"
            out.print(f"{name}: {'counts were not checked' if 'report' in parts else verdict}")
        for row in [*rows, *scaled, typed]:
            if row.error:
                out.print(f"{row.capture}, {row.reader}: {row.error}")
    sys.exit(0 if in_time and not any(wrong.values()) else 1)


if __name__ == "__main__":
    main()
