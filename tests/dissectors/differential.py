"""Compare the plugin with `ikeanalyze report` on the recorded captures and on damaged copies of them.

.venv/bin/python -m tests.dissectors.differential [COPIES [TSHARK]]

reads COPIES damaged copies (1,000) with TSHARK (forky), prints each difference without a known reason, and counts the
captures by reason. Copies are numbered; a number always stands for the same copy.
"""

import re
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import dpkt
import polars as pl

import ikeanalyze
from tests.craft import Packet, pcap
from tests.dissectors.run_plugin import run_plugin
from tests.paths import CAPTURES
from tests.tsharks import Tshark, find

RECORDED = [
    *sorted([*CAPTURES.glob("*.pcap*"), *(CAPTURES / "lab").glob("*.pcapng")]),
    *sorted((CAPTURES / "faults").glob("*.pcapng")),
]
IKE = pl.col("protocol").cast(pl.String).is_in(["IKEv2", "IKEv1"])
MAX_PACKETS = 400
FIRST_NS = 10**18  # time of the first packet of a copy
TITLE = "IKE handshakes: set-up messages from the initiator and from the responder"


@dataclass(frozen=True)
class Frame:
    """A packet of a recorded capture: ns since the first one, and its bytes."""

    time_ns: int
    data: bytes


@cache
def read_frames(path: Path) -> tuple[int, tuple[Frame, ...]]:
    """The link type and the first packets of a capture."""
    with path.open("rb") as file:
        reader = dpkt.pcapng.Reader(file) if path.suffix == ".pcapng" else dpkt.pcap.Reader(file)
        packets = [(round(float(time) * 1e6) * 1000, data) for time, data in reader][:MAX_PACKETS]
        return reader.datalink(), tuple(Frame(time - packets[0][0], data) for time, data in packets)


def drop(frames: list[Frame], rng: Random) -> list[Frame]:
    """Some packets are missing."""
    probability = rng.choice([0.05, 0.2, 0.5])
    return [frame for frame in frames if rng.random() > probability] or frames


def double(frames: list[Frame], rng: Random) -> list[Frame]:
    """Some packets are there twice: at once, or later, as retransmissions are."""
    pause = rng.choice([1_000, 300_000, 5_000_000, 2_000_000_000])
    copies = [Frame(frame.time_ns + pause, frame.data) for frame in frames if rng.random() < 0.2]
    return sorted([*frames, *copies], key=lambda frame: frame.time_ns)


def reorder(frames: list[Frame], rng: Random) -> list[Frame]:
    """Some neighbours change places; the times stay in order."""
    frames = list(frames)
    for index in range(len(frames) - 1):
        if rng.random() < 0.1:
            a, b = frames[index], frames[index + 1]
            frames[index], frames[index + 1] = Frame(a.time_ns, b.data), Frame(b.time_ns, a.data)
    return frames


def disorder(frames: list[Frame], rng: Random) -> list[Frame]:
    """Some neighbours change places in the file, with their times."""
    frames = list(frames)
    for index in range(len(frames) - 1):
        if rng.random() < 0.1:
            frames[index], frames[index + 1] = frames[index + 1], frames[index]
    return frames


def cut(frames: list[Frame], rng: Random) -> list[Frame]:
    """The capture begins later or ends earlier."""
    first = rng.randrange(len(frames)) if rng.random() < 0.5 else 0
    return frames[first : rng.randrange(first + 1, len(frames) + 1)]


def snap(frames: list[Frame], rng: Random) -> list[Frame]:
    """Packets are truncated."""
    size = rng.choice([60, 96, 128, 200, 256, 512])
    return [Frame(frame.time_ns, frame.data[:size]) for frame in frames]


DAMAGES = (drop, double, reorder, disorder, cut, snap)


@dataclass(frozen=True)
class Reason:
    """Why the plugin may differ in copies of these captures with these damages; dissectors/README.md explains each."""

    text: str
    captures: str  # the beginnings of their names, as a regular expression
    damages: str = ".*"  # their names, and "recorded"
    column: str = ".*"  # the beginning of the difference


KNOWN = (Reason("the report knows the round-trip time from the manifest of the lab", "slow-link", "recorded"),)


def find_reason(capture: str, damage: str, difference: str) -> str | None:
    """Why this difference is known; None: it is not."""
    for reason in KNOWN:
        fits = re.match(reason.captures, capture) and re.fullmatch(reason.damages, damage)
        if fits and re.match(reason.column, difference):
            return reason.text
    return None


def make_copy(number: int) -> tuple[str, str, bytes]:
    """A damaged copy: names of the capture and of the damage, and the content."""
    rng = Random(number)
    path, damage = RECORDED[number // len(DAMAGES) % len(RECORDED)], DAMAGES[number % len(DAMAGES)]
    linktype, frames = read_frames(path)
    damaged = damage(list(frames), rng)
    lengths = {frame.time_ns: len(frame.data) for frame in frames} if damage is snap else {}
    packets = [Packet(FIRST_NS + frame.time_ns, frame.data, length=lengths.get(frame.time_ns)) for frame in damaged]
    return path.name, damage.__name__, pcap(packets, linktype=linktype, nanoseconds=True)


def format_ms(value: int | float | None, *, uncertain: bool = False) -> str:
    """Milliseconds of ns, as the statistics print them; "-": unknown, "~": uncertain."""
    return "-" if value is None else f"{'~' * uncertain}{value / 1e6:.3f}"


def format_setup(row: dict[str, Any]) -> str:
    """The set-up time of a handshake of the report, as the statistics print it."""
    return format_ms(row["setup_ns"], uncertain=row["uncertain"] is not None)


def format_remark(row: dict[str, Any]) -> str:
    """The reason of the outcome, and of extra round trips, as the statistics print them."""
    return ", ".join([*([row["reason"]] if row["reason"] else []), *(f"+{name}" for name in row["extra_round_trips"])])


Row = tuple[str, ...]


def list_reported(path: Path) -> tuple[list[Row], dict[str, Row]]:
    """Handshakes and round trips by exchange type, as the plugin's statistics have them."""
    analysis = ikeanalyze.read(path)
    sides = [f"{side}_{unit}" for side in ("initiator", "responder") for unit in ("messages", "frames", "bytes")]
    names = ["spi_i", "spi_r", "initiator_address", "responder_address", *sides, "retransmitted_messages"]
    handshakes = [
        (
            str(number),
            *(str(row[name]) for name in names),
            format_setup(row),
            str(row["outcome"] or "-"),
            ",".join(entry["code"] for entry in row["diagnosis"] or []) or "-",
            format_remark(row),
        )
        for number, row in enumerate(analysis.handshakes.filter(IKE).iter_rows(named=True), 1)
    ]
    exchanges = {}
    of_ike = analysis.exchanges.filter(~pl.col("type").cast(pl.String).str.starts_with("Access"))
    for (kind,), rows in of_ike.group_by(pl.col("type").cast(pl.String)):
        times = rows["rtt_ns"].drop_nulls()
        unanswered = rows["response_messages"].is_null().sum()
        values = [times.min(), times.mean(), times.max()]
        exchanges[str(kind)] = (str(len(rows)), str(unanswered), str(len(times)), *map(format_ms, values))
    return handshakes, exchanges


def list_shown(tshark: Tshark, path: Path) -> tuple[list[Row], dict[str, Row]]:
    """The statistics of the plugin."""
    lines = [
        line for line in run_plugin(tshark, path, "-q", "-z", "ikex,handshakes", "-z", "ikex,exchanges").lines if line
    ]
    if lines and all(line.startswith("no handshake found") for line in lines):
        return [], {}
    border = next(index for index, line in enumerate(lines) if line.startswith(TITLE))
    handshakes = [tuple([*line.split(None, 15), ""][:16]) for line in lines[border + 2 :] if line.split()[0].isdigit()]
    exchanges = {
        kind: tuple(values) for kind, *values in (re.split(r"\s{2,}", line.rstrip()) for line in lines[2:border])
    }
    return handshakes, exchanges


def are_equal(left: str, right: str) -> bool:
    """Whether two values are equal; times may differ by a microsecond of rounding."""
    if (
        left == right
        or "." not in left
        or "." not in right
        or left.count(".") > 1
        or left.startswith("~") != right.startswith("~")
    ):
        return left == right
    return abs(float(left.lstrip("~")) - float(right.lstrip("~"))) < 0.0015


def find_differences(tshark: Tshark, path: Path) -> list[str]:
    """Each number that differs, in words."""
    shown, reported = list_shown(tshark, path), list_reported(path)
    differences = []
    if len(shown[0]) != len(reported[0]):
        differences.append(f"handshakes: {len(shown[0])}, ikeanalyze {len(reported[0])}")
    else:
        for left, right in zip(shown[0], reported[0], strict=True):
            differences += [
                f"handshake {left[0]}, column {column}: {a}, ikeanalyze {b}"
                for column, (a, b) in enumerate(zip(left, right, strict=True))
                if not are_equal(a, b)
            ]
    for kind in shown[1].keys() | reported[1].keys():
        left, right = shown[1].get(kind, ()), reported[1].get(kind, ())
        if len(left) != len(right) or not all(map(are_equal, left, right)):
            differences.append(f"{kind}: {' '.join(left)}, ikeanalyze {' '.join(right)}")
    return differences


def find_differences_of_copy(tshark: Tshark, number: int) -> tuple[str, str, list[str]]:
    """Names of the capture and of the damage of a copy, and its differences."""
    capture, damage, content = make_copy(number)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "capture.pcap"
        path.write_bytes(content)
        return capture, damage, find_differences(tshark, path)


def main(copies: int, name: str) -> None:
    """Print the differences of the recorded captures and of damaged copies, and count them by their reasons."""
    tshark = find(name)
    if not isinstance(tshark, Tshark):
        sys.exit(tshark)
    counts: Counter[str] = Counter()
    for number in range(-len(RECORDED), copies):
        if number < 0:
            path = RECORDED[number]
            capture, damage, differences = path.name, "recorded", find_differences(tshark, path)
        else:
            capture, damage, differences = find_differences_of_copy(tshark, number)
        reasons = {find_reason(capture, damage, difference) or "no known reason" for difference in differences}
        counts.update(reasons or {"equal"})
        for difference in differences:
            if find_reason(capture, damage, difference) is None:
                print(f"copy {number} ({capture}, {damage}): {difference}", flush=True)
    print(f"{len(RECORDED)} captures and {copies} copies:")
    for reason, count in counts.most_common():
        print(f"{count:6} {reason}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, sys.argv[2] if len(sys.argv) > 2 else "forky")
