"""Measure what docs/speed.md states: python -m benchmarks.speed [--update]

Each work is timed in turns with another program that does the same (once if that takes minutes), with and without the
compiled core where it is installed; the table has medians. Missing captures are generated in benchmarks/data/. tshark
is this machine's, or with --tree that of another Debian release (`make trees`). --update writes the table into
docs/speed.md.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.compare import (
    DATA,
    FILTER,
    ROOT,
    SMALL,
    Reader,
    capture,
    our_command,
    processor,
    say,
    tshark_version,
)
from benchmarks.files import parse_size, size_name
from benchmarks.generated_section import replace_section
from benchmarks.many import captures, tshark_reader
from ikeanalyze import core

DOCUMENT: Final = ROOT / "docs" / "speed.md"
FIELDS: Final = ("frame.number", "frame.time_epoch", "frame.len", "isakmp.ispi", "isakmp.exchangetype")
FIELDS_7: Final = (*FIELDS, "isakmp.messageid", "isakmp.flags")
RECIPE: Final = ["-n", "-r", "-", "-Y", "isakmp", "-T", "fields", *(part for name in FIELDS_7 for part in ("-e", name))]
HANDSHAKES: Final = 10_000
CAPTURES: Final = 2_000
#: Turns our core off.
NO_CORE: Final = {core.SWITCH: "0"}
IMPORTS: Final = [sys.executable, "-c", "import numpy, polars"]
HEADING: Final = (
    "| work | with | s | processor s | peak MB | times the other's speed, wall | processor |\n"
    "|---|---|---:|---:|---:|---:|---:|\n"
)


@dataclass(slots=True)
class Work:
    """What is timed: our readers, and the other program or none."""

    name: str
    path: Path
    ours: list[Reader]
    other: Reader | None = None
    written: list[Path] = field(default_factory=list)  # what our readers write, removed before each run
    other_once: bool = False  # the other program takes minutes, and is run once

    def run(self, runs: int) -> None:
        """Run all readers in turns."""
        for turn in range(runs):
            others = [self.other] if self.other and not (self.other_once and turn) else []
            for reader in (*self.ours, *others):
                say(f"{self.name}: {reader.name}, run {turn + 1} of {runs}")
                for path in self.written:
                    shutil.rmtree(path, ignore_errors=True)
                    path.unlink(missing_ok=True)
                reader.run(self.path)

    def format_rows(self) -> Iterator[str]:
        """Yield the rows of the table in Markdown."""
        for reader in (*self.ours, *([self.other] if self.other else ())):
            if reader.error:
                yield f"| {self.name} | {reader.name} | failed: {reader.error} | | | | |\n"
                continue
            cells = [f"{reader.seconds:.2f}", f"{reader.processor_s:.2f}", f"{reader.peak_bytes / 1e6:.0f}", "", ""]
            if self.other and reader is not self.other and not self.other.error:
                cells[3:] = [
                    f"{self.other.seconds / reader.seconds:.2f}",
                    f"{self.other.processor_s / reader.processor_s:.2f}",
                ]
            yield f"| {self.name} | {reader.name} | {' | '.join(cells)} |\n"


@dataclass(frozen=True, slots=True)
class Tshark:
    """A tshark of this machine or in a tree."""

    command: list[str]
    version: str
    root: Path  # of its file system

    @contextmanager
    def with_keys(self, table: Path) -> Iterator[dict[str, str]]:
        """Give it a configuration folder with this table of keys; yields the environment."""
        with tempfile.TemporaryDirectory(dir=self.root / "tmp") as folder:
            shutil.copyfile(table, Path(folder) / table.name)
            yield {"WIRESHARK_CONFIG_DIR": "/" + str(Path(folder).relative_to(self.root))}


def find_tshark(tree: Path | None) -> Tshark:
    command = ["chroot", str(tree), "tshark"] if tree else ["tshark"]
    number = tshark_version(command)
    if number is None:
        sys.exit(f"{' '.join(command)} does not run")
    return Tshark(command, number, tree or Path("/"))


def our_readers(arguments: Sequence[str], *, compiled: bool) -> list[Reader]:
    """Return our command without the core, and with it where it is installed."""
    command = [*our_command(), *arguments, "--quiet"]
    readers = [Reader("ikeanalyze", [command], from_stdin=False, environment=NO_CORE)]
    if compiled:
        readers.append(Reader("ikeanalyze with the core", [command], from_stdin=False))
    return readers


def make_keyed() -> Path:
    """Return the folder with the capture of many handshakes and their keys, generated if it does not exist."""
    folder = DATA / f"keyed-{HANDSHAKES}"
    if not folder.exists():
        say(f"generating {folder.relative_to(ROOT)}")
        partial = folder.with_suffix(".partial")
        command = [sys.executable, "-m", "benchmarks.keyed", str(HANDSHAKES), str(partial)]
        Reader("generator", [command], from_stdin=False).run(partial)
        partial.rename(folder)
    return folder


def list_works(size: int, tshark: Tshark, out: Path, keys: dict[str, str], *, compiled: bool) -> Iterator[Work]:
    tables, dataset, decrypted = out / "tables", out / "dataset", out / "decrypted.pcapng"
    name = f"tshark {tshark.version}"
    for kind, title in (("ike-heavy", "IKE"), ("esp-heavy", "ESP")):
        path = capture(kind, size)
        ours = our_readers(["report", str(path), "--format", "parquet", "-o", str(tables)], compiled=compiled)
        other = Reader(f"{name}, 7 fields", [[*tshark.command, *RECIPE]])
        if kind == "esp-heavy":
            other = Reader(f"tcpdump and {name}", [["tcpdump", "-r", "-", "-w", "-", FILTER], other.commands[0]])
        yield Work(f"`report` of {size_name(size)} of {title}", path, ours, other, [tables])
    folder = make_keyed()
    path = folder / "many.pcap"
    log = str(folder / "many.charon.log")
    keyed = ["report", str(path), "--format", "parquet", "-o", str(tables), "--keys"]
    decrypting = Reader(f"{name} with the table", [[*tshark.command, *RECIPE]], environment=keys)
    table = our_readers([*keyed, str(folder / "ikev2_decryption_table")], compiled=compiled)
    number = f"{HANDSHAKES:,} handshakes"
    yield Work(f"`report` of {number} with Wireshark's table", path, table, decrypting, [tables])
    yield Work(
        f"`report` of {number} with charon's log", path, our_readers([*keyed, log], compiled=compiled), None, [tables]
    )
    decrypt = ["decrypt", str(path), "--keys", log, "-o", str(decrypted)]
    yield Work(
        f"`decrypt` of {number} with charon's log", path, our_readers(decrypt, compiled=compiled), None, [decrypted]
    )
    small = captures(CAPTURES)
    batch = our_readers(["batch", str(small), "-o", str(dataset), "--workers", "2"], compiled=compiled)
    host = find_tshark(None)
    many = tshark_reader(host.command, host.version, small, 2)
    yield Work(f"`batch` of {CAPTURES:,} captures", small, batch, many, [dataset], other_once=True)
    report = our_readers(["report", str(SMALL)], compiled=compiled)
    yield Work("`report` of four messages", SMALL, report, Reader("import numpy, polars", [IMPORTS], from_stdin=False))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=parse_size, default="1GiB", help="of the large captures (default: 1GiB)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tree", type=Path, metavar="DIR", help="root directory of another tshark")
    parser.add_argument("--only", metavar="TEXT", default="", help="only works with this text in their name")
    parser.add_argument("--update", action="store_true", help="write the table into docs/speed.md")
    options = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    tshark = find_tshark(options.tree)
    runs = "one run of each" if options.runs == 1 else f"medians of {options.runs} runs in turns"
    lines = [f"{processor()}; {runs}; captures in the page cache.\n\n", HEADING]
    keys = make_keyed() / "ikev2_decryption_table"
    with tempfile.TemporaryDirectory(dir=DATA) as out, tshark.with_keys(keys) as environment:
        for work in list_works(options.size, tshark, Path(out), environment, compiled=core.problem is None):
            if options.only not in work.name:
                continue
            work.run(options.runs)
            lines += work.format_rows()
    table = "".join(lines)
    print(table, end="")
    if options.update:
        replace_section(DOCUMENT, "speed", table)


if __name__ == "__main__":
    main()
