"""Time ikeanalyze against tshark on large captures: python -m benchmarks.large

Missing captures are generated in benchmarks/data/. The programs run in turns, so that other load on the machine
affects all of them; the tables have the medians. Files are in the page cache. ikeanalyze writes Parquet files, the
output of the others goes to /dev/null. tshark and tcpdump read the capture from standard input, so that a tshark in
another root directory ('chroot DIR tshark') needs no copy. Peak memory is the resident memory that wait4 reports, and
never less than the 20 MB of the measuring process. The tables are checked against the contents of the captures;
`benchmarks.speed` measures what docs/speed.md states, without these checks.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.files import make_capture, parse_size
from benchmarks.readers import (
    DATA,
    ROOT,
    Reader,
    Row,
    describe_processor,
    find_our_command,
    make_row,
    make_table,
    print_progress,
    read_tshark_version,
)

SMALL = ROOT / "captures" / "psk-classic.pcap"
SMALL_LIMIT_S = 0.6
KINDS = ("ike-heavy", "esp-heavy")

FIELDS = (
    *("frame.number", "frame.time_epoch", "frame.len", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst"),
    *("udp.srcport", "udp.dstport", "isakmp.ispi", "isakmp.rspi", "isakmp.exchangetype"),
    *("isakmp.messageid", "isakmp.flags", "isakmp.frag.number"),
)
RECIPE = ["-n", "-r", "-", "-Y", "isakmp", "-T", "fields", *(part for name in FIELDS for part in ("-e", name))]
# `and` and `or` have equal precedence in a capture filter: without parentheses, port 500 would be lost
FILTER = "udp port 500 or (udp port 4500 and udp[8:4] = 0)"


def make_our_reader(ours: Sequence[str], path: Path, directory: Path) -> Reader:
    command = [*ours, "report", str(path), "--format", "parquet", "-o", str(directory)]
    return Reader("ikeanalyze report, Parquet", [command], from_stdin=False)


def check_counts(path: Path, directory: Path) -> dict[str, Any]:
    """The differences from the expected counts; empty: none."""
    command = [sys.executable, "-m", "benchmarks.check", str(path), str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        return {"check": (done.stderr.strip().splitlines() or ["failed"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def time_readers(
    path: Path, ours: Sequence[str], tsharks: Sequence[tuple[list[str], str]], runs: int
) -> tuple[list[Row], dict[str, Any]]:
    """The rows of all readers, and the differences of our tables from the expected counts."""
    with tempfile.TemporaryDirectory(dir=DATA) as directory:
        us = make_our_reader(ours, path, Path(directory) / "tables")
        others = [Reader("cat to /dev/null", [["cat", str(path)]], from_stdin=False)]
        filtered = ["tcpdump", "-r", "-", "-w", "-", FILTER]
        for command, number in tsharks:
            others.append(Reader(f"tshark {number} -T fields", [[*command, *RECIPE]]))
            if shutil.which("tcpdump"):
                others.append(Reader(f"tcpdump | tshark {number} -T fields", [filtered, [*command, *RECIPE]]))
        for turn in range(runs):
            print_progress(f"{path.stem}: run {turn + 1} of {runs}")
            for other in others:
                if other.error is None:
                    if us.error is None:
                        us.run(path)
                    other.run(path)
        wrong = {"report": us.error} if us.error else check_counts(path, Path(directory) / "tables")
    return [make_row(path, reader, us) for reader in [us, *others]], wrong


def time_sizes(kind: str, size: int, ours: Sequence[str], runs: int) -> list[Row]:
    """The rows of ikeanalyze for an eighth, a quarter, half and all of the size."""
    rows = []
    for part in (8, 4, 2, 1):
        path = make_capture(kind, size // part)
        print_progress(f"{path.stem}: ikeanalyze alone")
        with tempfile.TemporaryDirectory(dir=DATA) as directory:
            us = make_our_reader(ours, path, Path(directory) / "tables")
            for _ in range(runs):
                us.run(path)
        rows.append(make_row(path, us, us))
    return rows


def time_small_capture(ours: Sequence[str], runs: int) -> Row:
    """The row of one small capture, read by a command as in a shell."""
    us = Reader("ikeanalyze report", [[*ours, "report", str(SMALL)]], from_stdin=False)
    for _ in range(max(runs, 5)):
        us.run(SMALL)
    return make_row(SMALL, us, us)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.large",
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
    parser.add_argument("--ours", type=shlex.split, metavar="COMMAND", default=find_our_command())
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", action="store_true", help="also measure an eighth, a quarter and half of the size")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    tsharks = []
    for text in options.tshark or ["tshark"]:
        command = shlex.split(text)
        number = read_tshark_version(command)
        if number is None:
            print_progress(f"{text} does not run and is left out")
        else:
            tsharks.append((command, number))

    kinds = options.kind or KINDS
    rows, wrong, scaled = [], {}, []
    for kind in kinds:
        path = make_capture(kind, options.size)
        more, wrong[path.stem] = time_readers(path, options.ours, tsharks, options.runs)
        rows += more
    if options.scale:
        for kind in kinds:
            scaled += time_sizes(kind, options.size, options.ours, options.runs)
    typed = time_small_capture(options.ours, options.runs)
    in_time = typed.seconds is not None and typed.seconds <= SMALL_LIMIT_S

    if options.json:
        result = {
            "machine": describe_processor(),
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
        out.print(f"{describe_processor()}; medians of {options.runs}; captures in the page cache")
        out.print(f"ikeanalyze: {shlex.join(options.ours)} report CAPTURE --format parquet -o DIRECTORY")
        out.print(f"tshark: {shlex.join(['tshark', *RECIPE])} < CAPTURE")
        out.print(f"tcpdump: tcpdump -r - -w - '{FILTER}' < CAPTURE | tshark ...")
        out.print(make_table([*rows, *scaled, typed]), soft_wrap=False)
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
