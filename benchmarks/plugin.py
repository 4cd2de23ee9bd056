"""Measure what the Wireshark plugin costs: python -m benchmarks.plugin [--before COMMIT] [--runs N] [--update]

Each work is done by tshark without the plugin and with it, in turns, in every version of Wireshark that the tests use
(`make trees`). Times are processor times, the least of all runs; --before adds the plugin of an earlier commit.
--update writes the table into docs/wireshark.md.
"""

import argparse
import io
import struct
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path
from typing import Final

from benchmarks.generate import generate
from benchmarks.generated_section import replace_section
from tests.floods.generate import FLOODS
from tests.floods.measure import Cost, measure_program
from tests.tsharks import NAMES, Room, Tshark, find

ROOT: Final = Path(__file__).resolve().parent.parent
DOCUMENT: Final = ROOT / "docs" / "wireshark.md"
PLUGIN: Final = "dissectors"
PACKETS: Final = 100_000
#: Bytes of generated captures for each packet, at least.
BYTES: Final = {"ike-heavy": 950, "esp-heavy": 1500}
TCP_BYTES: Final = 1200
TCP_CONNECTIONS: Final = 50
FILTER: Final = ("-2", "-Y", "isakmp.exchangetype == 35")
OWN_FILTER: Final = ("-2", "-Y", "ikex.retransmission == 1")
FILE_HEADER: Final = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
RECORD: Final = struct.Struct("<IIII")

Records = Iterator[tuple[int, int, bytes]]


@dataclass(frozen=True, slots=True)
class Work:
    """What tshark does with a capture, without and with the plugin, and how many times as long it may take with it."""

    name: str
    capture: str
    limit: float | None
    without: tuple[str, ...] = ()
    with_it: tuple[str, ...] = ()


WORKS: Final = (
    Work("packet list, 1 % IKE, else TCP", "tcp-1", 1.3),
    Work("packet list, 1 % IKE, else ESP in UDP", "esp-1", 1.3),
    Work("packet list, 10 % IKE, else TCP and ESP in UDP", "mixed-10", 1.6),
    Work("packet list, IKE alone", "ike", 2.5),
    Work("filter on one field, IKE alone", "ike", 2.5, FILTER, OWN_FILTER),
    Work("the same, requests with other SPIs", "half_open", None, FILTER, OWN_FILTER),
    Work("the same, fragments of one message", "fragments_of_one_message", None, FILTER, OWN_FILTER),
)
FLOOD_NAMES: Final = ("half_open", "fragments_of_one_message")
#: A message has no more fragments (RFC 7383, 2.5).
MAX_FRAGMENTS: Final = 60_000


def read_records(path: Path) -> Records:
    """Seconds, microseconds and bytes of the frames of a pcap file."""
    with path.open("rb") as file:
        file.seek(len(FILE_HEADER))
        while header := file.read(RECORD.size):
            seconds, microseconds, size, _ = RECORD.unpack(header)
            yield seconds, microseconds, file.read(size)


def tcp_frames() -> Iterator[bytes]:
    """TCP segments of connections to port 8443, in turns: two with data and one that acknowledges them.

    Without acknowledgments, tshark would compare each segment with all before it.
    """
    payload = (bytes(range(256)) * 5)[:TCP_BYTES]
    for number in count():
        turn, connection = divmod(number, TCP_CONNECTIONS)
        hosts = bytes([10, 0, connection % 7, 1]), bytes([10, 1, 0, connection % 5])
        ports = 40000 + connection, 8443
        sent = 2 * turn * TCP_BYTES
        for sequence in (sent, sent + TCP_BYTES):
            yield make_segment(hosts, ports, (sequence, 1), payload)
        yield make_segment(hosts[::-1], ports[::-1], (1, sent + 2 * TCP_BYTES), b"")


def make_segment(hosts: tuple[bytes, bytes], ports: tuple[int, int], numbers: tuple[int, int], payload: bytes) -> bytes:
    """A TCP segment in IPv4 and Ethernet; `numbers` are its sequence and acknowledgment number."""
    ethernet = bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0])
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(payload), 0, 0x4000, 64, 6, 0) + b"".join(hosts)
    places = (number & 0xFFFFFFFF for number in numbers)
    return ethernet + ip + struct.pack(">HHIIBBHHH", *ports, *places, 0x50, 0x10, 1000, 0, 0) + payload


def esp_frames(path: Path) -> Iterator[bytes]:
    """The ESP packets of a generated capture, again and again."""
    for _, _, data in cycle(list(read_records(path))):
        # IPv4 in Ethernet with UDP, without the marker of IKE (RFC 3948), and not a keepalive
        if data[12:15] == b"\x08\0\x45" and data[23] == 17 and len(data) > 60 and any(data[42:46]):
            yield data


def write_mix(path: Path, packets: int, ike: Records, others: Sequence[Iterator[bytes]], share: int) -> None:
    """Write a capture in which one packet in `share` is IKE, and the others have its time."""
    turns = cycle(others)
    with path.open("wb") as out:
        out.write(FILE_HEADER)
        for number in range(packets):
            if number % share == 0:
                seconds, microseconds, data = next(ike)
            else:
                data = next(next(turns))
            out.write(RECORD.pack(seconds, microseconds, len(data), len(data)) + data)


def make_captures(folder: Path, packets: int) -> None:
    """Write a capture for each work into the folder."""
    for kind, size in BYTES.items():
        generate(kind, size * packets, folder / kind, 1)
    ike: Callable[[], Records] = lambda: read_records(folder / "ike-heavy")  # noqa: E731
    tcp, esp = tcp_frames(), esp_frames(folder / "esp-heavy")
    write_mix(folder / "tcp-1", packets, ike(), [tcp], 100)
    write_mix(folder / "esp-1", packets, ike(), [esp], 100)
    write_mix(folder / "mixed-10", packets, ike(), [tcp, esp], 10)
    write_mix(folder / "ike", packets, ike(), [], 1)
    for flood in FLOOD_NAMES:
        (folder / flood).write_bytes(FLOODS[flood].generate(min(packets, MAX_FRAGMENTS)))


def measure(room: Room, *words: str) -> Cost:
    """What a run of tshark costs."""
    return measure_program(room.command("tshark", "-n", *words))


def find_least(costs: Sequence[Cost]) -> Cost:
    """The least time and memory of several runs."""
    return Cost(min(cost.seconds for cost in costs), min(cost.peak for cost in costs))


def format_memory(work: Work, packets: int, base: Cost, cost: Cost) -> str:
    """Memory in kB of each IKE packet, where all packets are IKE and all messages were needed."""
    if not work.with_it:
        return ""
    count = min(packets, MAX_FRAGMENTS) if work.capture in FLOOD_NAMES else packets
    return f"{(cost.peak - base.peak) / count / 1000:.1f}"


def measure_work(work: Work, packets: int, room: Room, plugins: Sequence[str], runs: int) -> list[str]:
    """The cells of a row: time without the plugin, and how many times as long it takes with each of the plugins."""
    capture = str(room.path / "captures" / work.capture)
    commands = [("-r", capture, *work.without)]
    commands += [("-X", f"lua_script:{name}/ikex.lua", "-r", capture, *work.with_it) for name in plugins]
    turns = [[measure(room, *words) for words in commands] for _ in range(runs)]
    base, *others = (find_least(costs) for costs in zip(*turns, strict=True))
    ratios = [f"{cost.seconds / base.seconds:.1f}" for cost in others]
    return [f"{base.seconds:.2f}", *ratios, *(format_memory(work, packets, base, cost) for cost in others)]


def extract_plugin(commit: str, folder: Path) -> None:
    """The plugin of a commit, as the folder `before`."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, PLUGIN], check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    (folder / PLUGIN).rename(folder / "before")


def make_table(packets: int, runs: int, before: str | None) -> str:
    """The table in Markdown."""
    tsharks = [tshark for tshark in map(find, NAMES) if isinstance(tshark, Tshark)]
    plugins = (["before"] if before else []) + [PLUGIN]
    names = ["times, before", "times, now", "kB, before", "kB, now"] if before else ["times", "kB"]
    lines = [
        f"| work | Wireshark | tshark alone, s | {' | '.join(names)} | limit |",
        "|---|---|" + "---:|" * (len(names) + 2),
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "captures").mkdir()
        make_captures(folder / "captures", packets)
        if before:
            extract_plugin(before, folder)
        for tshark in tsharks:
            version = ".".join(map(str, tshark.version))
            with tshark.room() as room:
                room.put(PLUGIN, ROOT / PLUGIN)
                if before:
                    room.put("before", folder / "before")
                for work in WORKS:
                    room.put(f"captures/{work.capture}", folder / "captures" / work.capture)
                    cells = measure_work(work, packets, room, plugins, runs)
                    limit = f"{work.limit} times" if work.limit else ""
                    lines.append(f"| {work.name} | {version} | {' | '.join(cells)} | {limit} |")
                    print(lines[-1], flush=True)
                    (room.path / "captures" / work.capture).unlink()
    first = lines[:2]
    order = {work.name: number for number, work in enumerate(WORKS)}
    rows = sorted(lines[2:], key=lambda line: order[line.split(" | ")[0].removeprefix("| ")])
    return "\n".join([*first, *rows]) + "\n"


def main() -> None:
    """Print the table, and write it into the documentation if asked to."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plugin",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--before", metavar="COMMIT", help="measure the plugin of this commit too")
    parser.add_argument("--packets", type=int, default=PACKETS, help="of each capture (default: 100,000)")
    parser.add_argument("--runs", type=int, default=2, help="runs of each command (default: 2)")
    parser.add_argument("--update", action="store_true", help="write the table into docs/wireshark.md")
    options = parser.parse_args()
    table = make_table(options.packets, options.runs, options.before)
    print(table)
    if options.update:
        replace_section(DOCUMENT, "plugin", table)


if __name__ == "__main__":
    main()
