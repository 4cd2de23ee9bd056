"""Report handshakes that cross a veth while they are captured: python -m benchmarks.live.measure [--write]

Sends generated handshakes (benchmarks.generate, ike-heavy, 2 % of the messages retransmitted; one handshake in a
hundred loses all frames of its responder) through a pair of virtual interfaces in a network namespace. dumpcap captures
them, and what it writes goes to a file and to `ikeanalyze live` at once. Afterwards `ikeanalyze report` reads the file,
and the records of the two are compared. Needs root and dumpcap. --write updates docs/live.md.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import dpkt

from benchmarks.generate import generate
from benchmarks.generated_section import replace_section
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox, wait_until_ready

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PAGE: Final = ROOT / "docs" / "live.md"
OURS: Final = [sys.executable, "-m", "ikeanalyze"]
#: Handshakes a second in a generated capture, and bytes of the file for each.
GENERATED_RATE: Final = 1000
GENERATED_BYTES: Final = 11_000
PORT: Final = 9465
#: Seconds of silence after which `live` reports a handshake here: memory is flat from then on.
SETTLE: Final = 5
#: The responder of one handshake in this many is not heard.
FAILURES: Final = 100
#: Lines of the terminal that are shown.
ROWS: Final = 8
#: Keys of a record that differ between the two by their nature.
OWN_KEYS: Final = ("id", "capture")

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory of `live` at a time."""

    seconds: float  # since the first packet
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """What was seen in a run."""

    sent: int  # packets
    sending_seconds: float
    capture: Path  # what dumpcap wrote
    records: list[Record]  # of `live`
    samples: list[Sample]
    processor_seconds: float  # of `live`
    metrics: str  # at the end of sending
    messages: str  # of dumpcap


def make_input(count: int, path: Path) -> None:
    """Write the packets of `count` generated handshakes, of which some lack those of the responder."""
    source = path.with_suffix(".all.pcap")
    generate("ike-heavy", count * GENERATED_BYTES * 11 // 10, source)
    numbers: dict[bytes, int] = {}
    with source.open("rb") as file, path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        for seconds, frame in dpkt.pcap.Reader(file):
            udp = dpkt.ethernet.Ethernet(frame).data.data
            ike = udp.data[4:] if 4500 in (udp.sport, udp.dport) else udp.data
            number = numbers.setdefault(bytes(ike[:8]), len(numbers))
            is_init = ike[18] == 34
            by_initiator = bool(ike[19] & 0x08)
            if number >= count or (number % FAILURES == 0 and not is_init and not by_initiator):
                continue
            ns = round(float(seconds) * 1e9)
            out.write(struct.pack("<4I", ns // 10**9, ns % 10**9, len(frame), len(frame)) + frame)
    source.unlink()


def connect(sandbox: NetnsSandbox) -> Netns:
    """Create a namespace with the interfaces `out` and `in`, which are the ends of one cable."""
    host = sandbox.create_netns("live")
    host.run("ip", "link", "add", "out", "type", "veth", "peer", "name", "in")
    for interface in ("out", "in"):
        host.run("ip", "link", "set", interface, "arp", "off", "addrgenmode", "none", "up")
    return host


def read_rss(pid: int) -> int:
    """Resident memory of a process in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise ProcessLookupError(pid)


def run(source: Path, folder: Path, slower: float) -> Run:
    """Send the packets of a file and report them live."""
    with NetnsSandbox() as sandbox:
        host = connect(sandbox)
        capture, lines, messages = folder / "capture.pcapng", folder / "live.jsonl", folder / "dumpcap.txt"
        dumpcap = subprocess.Popen(
            host.command("dumpcap", "-q", "-B", "64", "-i", "in", "-w", "-"),
            stdout=subprocess.PIPE,
            stderr=messages.open("wb"),
        )
        tee = subprocess.Popen(["tee", str(capture)], stdin=dumpcap.stdout, stdout=subprocess.PIPE)
        live = subprocess.Popen(
            [*OURS, "live", "-", "--format", "jsonl", "--settle", str(SETTLE), "--metrics", str(PORT)],
            stdin=tee.stdout,
            stdout=lines.open("wb"),
            stderr=(folder / "live.txt").open("wb"),
            cwd=ROOT,
        )
        for pipe in (dumpcap.stdout, tee.stdout):
            assert pipe is not None
            pipe.close()  # the processes have it
        if not wait_until_ready(lambda: b"Capturing" in messages.read_bytes(), dumpcap, 30):
            raise SystemExit(f"dumpcap does not capture: {messages.read_text()}")
        time.sleep(2)  # until the interface is in use and live has read the file header
        command = host.command(
            sys.executable, "-m", "benchmarks.live.send", str(source), "out", "--slower", str(slower)
        )
        sender = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert sender.stdout is not None
        sender.stdout.readline()  # the first frame is sent
        start = time.monotonic()
        samples = []
        while sender.poll() is None:
            samples.append(Sample(time.monotonic() - start, read_rss(live.pid)))
            time.sleep(0.5)
        sent, sending = sender.stdout.read().split()
        time.sleep(SETTLE + 4)
        samples.append(Sample(time.monotonic() - start, read_rss(live.pid)))
        metrics = urlopen(f"http://127.0.0.1:{PORT}/metrics").read().decode()
        dumpcap.terminate()
        _, status, usage = os.wait4(live.pid, 0)
        live.returncode = os.waitstatus_to_exitcode(status)
        dumpcap.wait()
        tee.wait()
        records = [json.loads(line) for line in lines.read_text().splitlines()]
        processor = usage.ru_utime + usage.ru_stime
        return Run(int(sent), float(sending), capture, records, samples, processor, metrics, messages.read_text())


def report(capture: Path) -> list[Record]:
    """The records of a report of the file."""
    done = subprocess.run(
        [*OURS, "report", str(capture), "--format", "jsonl"], stdout=subprocess.PIPE, check=True, cwd=ROOT
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def print_rows(capture: Path) -> str:
    """The first lines that `live` prints in a terminal of 120 columns."""
    command = [*OURS, "live", str(capture), "--quiet"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, cwd=ROOT)
    return "".join(done.stdout.splitlines(keepends=True)[:ROWS])


def count_packets(capture: Path) -> int:
    """The packets in a capture, as capinfos counts them."""
    done = subprocess.run(["capinfos", "-c", "-M", str(capture)], stdout=subprocess.PIPE, check=True, text=True)
    return int(done.stdout.split()[-1])


def find_differences(ours: Sequence[Record], theirs: Sequence[Record]) -> tuple[int, int, list[str]]:
    """The handshakes that both have, those of them that are equal, and the keys in which the others differ."""
    expected = {(record["spi_i"], record["spi_r"]): record for record in theirs}
    common = equal = 0
    keys: set[str] = set()
    for record in ours:
        other = expected.pop((record["spi_i"], record["spi_r"]), None)
        if other is None:
            continue
        common += 1
        different = [key for key in record.keys() | other.keys() if record.get(key) != other.get(key)]
        different = [key for key in different if key not in OWN_KEYS]
        keys.update(different)
        equal += not different
    return common, equal, sorted(keys)


def describe(count: int, result: Run, expected: Sequence[Record]) -> str:
    """The section of the documentation."""
    common, equal, keys = find_differences(result.records, expected)
    flat = [sample for sample in result.samples if sample.seconds > SETTLE + 2]
    memory = [sample.rss_bytes / 2**20 for sample in flat]
    dropped = [line.split(":")[1].split()[0] for line in result.messages.splitlines() if "received/dropped" in line]
    starts = sorted(datetime.fromisoformat(record["start_time"]) for record in result.records)
    begun = (starts[-1] - starts[0]).total_seconds()
    failed = sum(record["outcome"] in ("failed", "unanswered", "half-open", "cut") for record in result.records)
    rows = [
        ("handshakes sent", f"{count:,}, which begin within {begun:.1f} s: {count / begun:.0f}/s"),
        ("packets sent", f"{result.sent:,} in {result.sending_seconds:.1f} s"),
        ("packets that dumpcap wrote", f"{count_packets(result.capture):,}"),
        ("received and dropped, by dumpcap", ", ".join(dropped) or "unknown"),
        ("records of `live`", f"{len(result.records):,}, of which {failed:,} failed or are cut"),
        ("handshakes in `report` of the same file", f"{len(expected):,}"),
        ("handshakes in both", f"{common:,}"),
        (
            "records that are equal in every key",
            f"{equal:,}" + (f"; others differ in {', '.join(keys)}" if keys else ""),
        ),
        ("processor time of `live`", f"{result.processor_seconds:.1f} s"),
        (
            f"memory of `live` from {SETTLE + 2} s on",
            f"{min(memory):.0f} to {max(memory):.0f} MiB; "
            f"{' '.join(f'{sample.rss_bytes / 2**20:.0f}' for sample in result.samples[::4])} every 2 s",
        ),
    ]
    table = "".join(f"| {name} | {value} |\n" for name, value in rows)
    shown = [line for line in result.metrics.splitlines() if not line.startswith("#") and not line.endswith(" 0.0")]
    metrics = "\n".join(shown)
    return (
        f"| | |\n|---|---|\n{table}\n"
        f"The first rows of the same handshakes in the terminal:\n\n```text\n{print_rows(result.capture)}```\n\n"
        f"The metrics at the end, without those that are 0:\n\n```text\n{metrics}\n```\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live.measure", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="handshakes")
    parser.add_argument("--rate", type=int, default=500, help="handshakes a second")
    parser.add_argument("--write", action="store_true", help="update docs/live.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        source = folder / "sent.pcap"
        make_input(options.count, source)
        result = run(source, folder, GENERATED_RATE / options.rate)
        text = describe(options.count, result, report(result.capture))
    sys.stdout.write(text)
    if options.write:
        replace_section(PAGE, "live", text)


if __name__ == "__main__":
    main()
