"""Print the table of decrypted messages in docs/wireshark.md: captures, versions of tshark, and `ikeanalyze`.

.venv/bin/python -m tests.dissectors.decryption_table [NAME...]
"""

import gzip
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import ikeanalyze
from tests.dissectors.encryption import matrix
from tests.dissectors.run_plugin import fields
from tests.paths import CAPTURES
from tests.tsharks import NAMES, Tshark, find

COLUMNS = ("frame.number", "ikex.verified", "ikex.payload", "ikex.fragment")


@dataclass(frozen=True)
class Case:
    """A capture and its key file."""

    name: str
    capture: Path
    keys: Path

    def key_content(self) -> bytes:
        """The key file, unpacked."""
        return gzip.decompress(self.keys.read_bytes()) if self.keys.suffix == ".gz" else self.keys.read_bytes()


def recorded_cases() -> Iterator[Case]:
    """The captures with keys, with the keys that lie next to them."""
    for capture in sorted([*CAPTURES.glob("*.pcap*"), *(CAPTURES / "lab").glob("*.pcapng")]):
        keys = capture.with_name(capture.name.split(".pcap")[0] + ".keys.json")
        if keys.exists():
            yield Case(str(capture.relative_to(CAPTURES)).split(".pcap")[0], capture, keys)


def generated_cases(folder: Path) -> Iterator[Case]:
    """The matrix of all ciphers with all integrity algorithms, with SK and with SKF payloads."""
    for fragmented in (False, True):
        capture, keys, names = matrix(fragmented)
        stem = "skf" if fragmented else "sk"
        (folder / f"{stem}.pcap").write_bytes(capture)
        (folder / f"{stem}.json").write_text(keys)
        name = f"{len(names)} pairs of ENCR and INTEG, {stem.upper()}"
        yield Case(name, folder / f"{stem}.pcap", folder / f"{stem}.json")


def read_reported(case: Case) -> dict[int, str]:
    """By frame that `ikeanalyze` decrypted, the payloads of its message; of IP fragments, the last one."""
    analysis = ikeanalyze.read(case.capture, keys=[case.keys])
    decrypted = analysis.messages.filter(pl.col("decrypted")).select("message", "payloads")
    frames = analysis.frames.filter(~pl.col("capture_duplicate")).join(decrypted, on="message")
    by_message = {row["message"]: row for row in frames.iter_rows(named=True) if row["ip_fragment"]}
    last = {row["number"] for row in by_message.values()}
    return {
        row["number"]: ",".join(re.split(r"[^A-Za-z0-9-]", text)[0] for text in row["payloads"] or [])
        for row in frames.iter_rows(named=True)
        if not row["ip_fragment"] or row["number"] in last
    }


@dataclass
class Count:
    """Frames that the plugin decrypted, of these those that it verified, and those that differ from `ikeanalyze`."""

    decrypted: int = 0
    verified: int = 0
    different: int = 0

    def __str__(self) -> str:
        """A cell of the table."""
        text = f"{self.decrypted} / {self.verified}"
        return f"{text} ({self.different} differ)" if self.different else text


def compare(case: Case, reported: dict[int, str], tshark: Tshark) -> Count:
    """Compare the frames of a capture that the plugin decrypts with those of `ikeanalyze`."""
    rows = fields(tshark, case.capture, *COLUMNS, only="ikex.verified", keys=case.key_content())
    shown = {int(number): payload for number, _, payload, _ in rows}
    verified = sum(row[1] == "True" for row in rows)
    # the frames of a fragmented message that do not complete it have no payloads
    parts = {int(number) for number, _, payload, fragment in rows if fragment and not payload}
    wrong = [number for number in reported.keys() | shown.keys() if number not in shown or number not in reported]
    wrong += [n for n in shown.keys() & reported.keys() if n not in parts and shown[n] != reported[n]]
    return Count(len(shown), verified, len(wrong))


def print_row(name: str, reported: int, counts: list[Count]) -> None:
    """Print a row of the table."""
    print(f"| {name} | {reported} |", *(f"{count} |" for count in counts), flush=True)


def print_table(names: list[str]) -> None:
    """Print a row for each capture, and the sums; `names`: of captures, empty for all."""
    tsharks = [tshark for tshark in map(find, NAMES) if isinstance(tshark, Tshark)]
    versions = [".".join(map(str, tshark.version)) for tshark in tsharks]
    print("| capture | `ikeanalyze` |", *(f"{version} |" for version in versions))
    print("|---|" + "---|" * (len(versions) + 1))
    total, sums = 0, [Count() for _ in tsharks]
    with TemporaryDirectory() as folder:
        for case in [*generated_cases(Path(folder)), *recorded_cases()]:
            if not names or case.name in names:
                reported = read_reported(case)
                counts = [compare(case, reported, tshark) for tshark in tsharks]
                print_row(case.name, len(reported), counts)
                total += len(reported)
                for count, add in zip(sums, counts, strict=True):
                    count.decrypted += add.decrypted
                    count.verified += add.verified
                    count.different += add.different
    print_row("all", total, sums)


if __name__ == "__main__":
    print_table(sys.argv[1:])
