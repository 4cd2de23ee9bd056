"""Time ikeanalyze against tshark on many small captures: python -m benchmarks.many

Missing captures (see benchmarks.small) are generated in benchmarks/data/, and are read from the page cache.
`ikeanalyze batch` makes a dataset of them with as many workers as xargs runs tsharks in parallel, each of which prints
the fields of one capture to /dev/null. The two run in turns; the table has the medians. Peak memory is that of the
largest process.
"""

import argparse
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from benchmarks.large import FIELDS
from benchmarks.readers import (
    DATA,
    Reader,
    Row,
    describe_processor,
    find_our_command,
    make_row,
    make_table,
    print_progress,
    read_tshark_version,
)
from benchmarks.small import PACKETS, generate

#: ikeanalyze must be at least this many times as fast as one tshark per capture.
LEAST_RATIO = 40
#: Bytes of the pcap file header and of each record header.
FILE_HEADER, RECORD_HEADER = 24, 16
MESSAGES = 6  # three exchanges


def get_captures_path(count: int) -> Path:
    """The directory of `make_captures`."""
    return DATA / f"small-{count}"


def make_captures(count: int) -> Path:
    """The directory of the captures, generated if it does not exist."""
    path = get_captures_path(count)
    if not path.exists():
        print_progress(f"generating {count} captures")
        partial = DATA / f"small-{count}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        generate(count, partial)
        partial.rename(path)
    for file in path.iterdir():
        file.read_bytes()
    return path


def make_tshark_reader(
    tshark: list[str], number: str, directory: Path, workers: int, fields: Sequence[str] = FIELDS
) -> Reader:
    """One tshark for each capture, several in parallel."""
    options = [part for name in fields for part in ("-e", name)]
    recipe = [*tshark, "-n", "-Y", "isakmp", "-T", "fields", *options, "-r"]
    commands = [["find", str(directory), "-name", "*.pcap", "-print0"]]
    commands.append(["xargs", "-0", f"-P{workers}", "-n1", *recipe])
    return Reader(f"xargs -P{workers} tshark {number} -T fields", commands, from_stdin=False)


def check_counts(dataset: Path, directory: Path) -> dict[str, Any]:
    """The expected and the actual number by the name of the count; empty: no differences."""
    files = [path.stat().st_size for path in directory.iterdir()]
    count = len(files)

    def table(name: str) -> pl.LazyFrame:
        return pl.scan_parquet(dataset / name / "*.parquet")

    handshakes = table("handshakes").select(pl.len(), (pl.col("outcome").cast(pl.String) == "completed").sum())
    messages = table("messages").select(pl.len(), pl.col("frames").sum(), pl.col("bytes").sum())
    names = ("captures", "handshakes", "handshakes completed", "messages", "frames", "bytes")
    right = (
        *(count, count, count, count * MESSAGES, count * PACKETS),
        sum(files) - count * (FILE_HEADER + PACKETS * RECORD_HEADER),
    )
    counted = (table("captures").select(pl.len()).collect().item(), *handshakes.collect().row(0))
    counted += messages.collect().row(0)
    return {
        name: {"right": expected, "found": actual}
        for name, expected, actual in zip(names, right, counted, strict=True)
        if expected != actual
    }


def time_readers(
    directory: Path, ours: list[str], others: list[Reader], workers: int, runs: int
) -> tuple[list[Row], Any]:
    """The rows of all readers, and the differences of our dataset from the expected counts."""
    with tempfile.TemporaryDirectory(dir=DATA) as temporary:
        dataset = Path(temporary) / "dataset"
        command = [*ours, "batch", str(directory), "-o", str(dataset), "--workers", str(workers), "--quiet"]
        us = Reader("ikeanalyze batch", [command], from_stdin=False)
        for turn in range(runs):
            for reader in (us, *others):
                if reader.error is None:
                    print_progress(f"{directory.name}: {reader.name}, run {turn + 1} of {runs}")
                    if reader is us:
                        shutil.rmtree(dataset, ignore_errors=True)
                    reader.run(directory)
        wrong = {"batch": us.error} if us.error else check_counts(dataset, directory)
    return [make_row(directory, reader, us) for reader in (us, *others)], wrong


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.many",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=2000, help="number of captures (default: 2000)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tshark", default="tshark", metavar="COMMAND")
    parser.add_argument("--alone", action="store_true", help="measure only ikeanalyze")
    parser.add_argument("--ours", type=shlex.split, metavar="COMMAND", default=find_our_command())
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()

    DATA.mkdir(exist_ok=True)
    directory = make_captures(options.count)
    others = []
    if not options.alone:
        tshark = shlex.split(options.tshark)
        number = read_tshark_version(tshark)
        if number is None:
            parser.error(f"{options.tshark} does not run")
        others.append(make_tshark_reader(tshark, number, directory, options.workers))
    rows, wrong = time_readers(directory, options.ours, others, options.workers, options.runs)
    slowest = min((row.ratio for row in rows[1:] if row.ratio is not None), default=None)
    fast = options.alone or (slowest is not None and slowest >= LEAST_RATIO)
    if options.json:
        result = {"machine": describe_processor(), "runs": options.runs, "rows": [asdict(row) for row in rows]}
        print(json.dumps({**result, "limit": LEAST_RATIO, "differences": wrong}, indent=2))
    else:
        out = Console(highlight=False, soft_wrap=True, markup=False, width=max(Console().width, 100))
        out.print(f"{describe_processor()}; medians of {options.runs}; {options.count} captures in the page cache")
        for reader in others:
            out.print(" | ".join(map(shlex.join, reader.commands)))
        out.print(make_table(rows), soft_wrap=False)
        if not options.alone:
            out.print(f"at least {LEAST_RATIO} times as fast: {'yes' if fast else 'NO'}")
        out.print(f"counts are WRONG: {wrong}" if wrong else "counts are right")
        for row in rows:
            if row.error:
                out.print(f"{row.reader}: {row.error}")
    sys.exit(0 if fast and not wrong else 1)


if __name__ == "__main__":
    main()
