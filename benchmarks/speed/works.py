"""What is timed."""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.files import format_size, get_capture_path, make_capture
from benchmarks.large import FILTER, SMALL
from benchmarks.many import get_captures_path, make_captures, make_tshark_reader
from benchmarks.readers import DATA, ROOT, Reader, print_progress
from benchmarks.speed.programs import Tshark, Version

FIELDS_7: Final = (
    *("frame.number", "frame.time_epoch", "frame.len"),
    *("isakmp.ispi", "isakmp.exchangetype", "isakmp.messageid", "isakmp.flags"),
)
RECIPE: Final = ["-n", "-r", "-", "-Y", "isakmp", "-T", "fields", *(part for name in FIELDS_7 for part in ("-e", name))]
HANDSHAKES: Final = 10_000
KEYED: Final = DATA / f"keyed-{HANDSHAKES}"
CAPTURES: Final = 2_000
KINDS: Final = {"ike-heavy": "IKE", "esp-heavy": "ESP"}
IMPORTS: Final = [sys.executable, "-c", "import numpy, polars"]
#: Other sizes of the large capture: divided by these, and multiplied.
PARTS: Final = (8, 4, 2)
TIMES: Final = 3
PREDICTED: Final = [str(ROOT / "captures" / name) for name in ("psk-classic.pcap", "pq-mlkem768-psk.pcap")]
HEADING: Final = (
    "| work | with | s | processor s | peak MB | times the other's speed, wall | processor |\n"
    "|---|---|---:|---:|---:|---:|---:|\n"
)


@dataclass(slots=True)
class Work:
    """What is timed: our readers, and another program or an earlier version."""

    name: str
    path: Path
    ours: list[Reader]
    other: Reader | None = None  # that ours are compared with
    written: list[Path] = field(default_factory=list)  # what our readers write, removed before each run
    prepare: Callable[[], object] = lambda: None  # makes `path`

    @property
    def readers(self) -> list[Reader]:
        """All readers."""
        return [*self.ours, *([self.other] if self.other else [])]

    def run(self, runs: int) -> None:
        """Run all readers in turns."""
        self.prepare()
        for turn in range(runs):
            for reader in self.readers:
                if reader.once and turn:
                    continue
                print_progress(f"{self.name}: {reader.name}, run {turn + 1} of {1 if reader.once else runs}")
                for path in self.written:
                    shutil.rmtree(path, ignore_errors=True)
                    path.unlink(missing_ok=True)
                reader.run(self.path)

    def format_rows(self) -> Iterator[str]:
        """Yield the rows of the table in Markdown."""
        for reader in self.readers:
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


@dataclass(slots=True, kw_only=True)
class WorkList:
    """Lists works for these programs."""

    versions: Sequence[Version]  # now
    before: Version | None
    tshark: Tshark
    own_tshark: Tshark  # of this machine
    tshark_keys: dict[str, str]  # environment in which tshark has the keys
    size: int  # of the large captures
    out: Path  # folder for what our readers write

    def __iter__(self) -> Iterator[Work]:
        """All works; captures are generated when they are needed."""
        yield from self._list_reports()
        yield from self._list_keyed()
        yield self._make_batch()
        report = ["report", str(SMALL)]
        imports = Reader("import numpy, polars", [IMPORTS], from_stdin=False)
        yield self._make("`report` of four messages", SMALL, report, [], imports)
        yield from self._list_sizes()
        yield from self._list_others()

    def _make(
        self,
        name: str,
        path: Path,
        arguments: Sequence[str],
        written: list[Path],
        other: Reader | None = None,
        *,
        around: Sequence[str] = (),
    ) -> Work:
        """A work of all versions, compared with another program or else with the earlier version."""
        ours = [version.read([*arguments, "--quiet"], around=around) for version in self.versions]
        if self.before is not None:
            before = self.before.read([*arguments, "--quiet"], around=around)
            if other is None:
                other = before
            else:
                ours.insert(0, before)
        return Work(name, path, ours, other, written)

    def _report(self, path: Path, *more: str) -> list[str]:
        return ["report", str(path), "--format", "parquet", "-o", str(self._tables), *more]

    @property
    def _tables(self) -> Path:
        return self.out / "tables"

    def _list_reports(self) -> Iterator[Work]:
        name = f"tshark {self.tshark.version}"
        recipe = [*self.tshark.command, *RECIPE]
        yield self._make_report("ike-heavy", self.size, Reader(f"{name}, 7 fields", [recipe]))
        piped = Reader(f"tcpdump and {name}", [["tcpdump", "-r", "-", "-w", "-", FILTER], recipe])
        yield self._make_report("esp-heavy", self.size, piped)

    def _make_report(self, kind: str, size: int, other: Reader | None = None) -> Work:
        path, title = get_capture_path(kind, size), f"`report` of {format_size(size)} of {KINDS[kind]}"
        work = self._make(title, path, self._report(path), [self._tables], other)
        return replace(work, prepare=partial(make_capture, kind, size))

    def _list_keyed(self) -> Iterator[Work]:
        folder = KEYED
        path, log, decrypted = folder / "many.pcap", str(folder / "many.charon.log"), self.out / "decrypted.pcapng"
        title = f"{HANDSHAKES:,} handshakes with"
        name = f"tshark {self.tshark.version} with the table"
        decrypting = Reader(name, [[*self.tshark.command, *RECIPE]], environment=self.tshark_keys)
        with_table = self._report(path, "--keys", str(folder / "ikev2_decryption_table"))
        yield self._make(f"`report` of {title} Wireshark's table", path, with_table, [self._tables], decrypting)
        yield self._make(f"`report` of {title} charon's log", path, self._report(path, "--keys", log), [self._tables])
        decrypt = ["decrypt", str(path), "--keys", log, "-o", str(decrypted)]
        yield self._make(f"`decrypt` of {title} charon's log", path, decrypt, [decrypted])

    def _make_batch(self) -> Work:
        small, dataset = get_captures_path(CAPTURES), self.out / "dataset"
        many = make_tshark_reader(self.own_tshark.command, self.own_tshark.version, small, 2, FIELDS_7)
        many.once = True
        arguments = ["batch", str(small), "-o", str(dataset), "--workers", "2"]
        work = self._make(f"`batch` of {CAPTURES:,} captures", small, arguments, [dataset], many)
        return replace(work, prepare=partial(make_captures, CAPTURES))

    def _list_sizes(self) -> Iterator[Work]:
        """The report of captures of other sizes, and the largest in parts."""
        for size in (*(self.size // part for part in PARTS), self.size * TIMES):
            yield self._make_report("ike-heavy", size)
        path = get_capture_path("ike-heavy", self.size * TIMES)
        limited = self._report(path, "--max-memory", "500M", "--jobs", "1", "--quiet")
        ours = [version.read(limited) for version in self.versions]
        name = f"`report --max-memory 500M --jobs 1` of {format_size(self.size * TIMES)} of IKE"
        yield Work(name, path, ours, None, [self._tables], partial(make_capture, "ike-heavy", self.size * TIMES))

    def _list_others(self) -> Iterator[Work]:
        """Commands for which there is no other program."""
        size = self.size // PARTS[0]
        prepare = partial(make_capture, "ike-heavy", size)
        path, page, compared = get_capture_path("ike-heavy", size), self.out / "page.html", self.out / "compared"
        html = ["report", str(path), "--format", "html", "-o", str(page)]
        work = self._make(f"`report --format html` of {format_size(size)} of IKE", path, html, [page])
        yield replace(work, prepare=prepare)

        def prepare_tables() -> None:
            report = ["report", str(prepare()), "--format", "parquet", "-o", str(compared), "--quiet"]
            self.versions[-1].read(report).run(path)

        compare = ["compare", str(compared), "--by", "key_exchange"]
        work = self._make(f"`compare` of the handshakes of {format_size(size)} of IKE", compared, compare, [])
        yield replace(work, prepare=prepare_tables)
        predict = ["predict", *PREDICTED, "--rtt", "10", "--loss", "0:0.2:0.02"]
        yield self._make("`predict` of two handshakes with 11 loss rates", SMALL, predict, [])
        path = get_capture_path("ike-heavy", self.size)
        around = [sys.executable, "-m", "benchmarks.speed.terminal", " handshakes "]
        view = ["view", str(path)]
        work = self._make(f"`view` of {format_size(self.size)} of IKE until it is shown", path, view, [], around=around)
        yield replace(work, prepare=partial(make_capture, "ike-heavy", self.size))


def make_keyed() -> Path:
    """Return the folder with the capture of many handshakes and their keys, generated if it does not exist."""
    if not KEYED.exists():
        print_progress(f"generating {KEYED.relative_to(ROOT)}")
        draft = KEYED.with_suffix(".partial")
        command = [sys.executable, "-m", "benchmarks.keyed", str(HANDSHAKES), str(draft)]
        Reader("generator", [command], from_stdin=False).run(draft)
        draft.rename(KEYED)
    return KEYED
