"""Measure the memory of a live capture of days in minutes: python -m benchmarks.live.soak [--days 7] [--write]

The same generated handshakes come every ten minutes of the capture's time, each time with other SPIs. Their failures
and retransmissions are those of benchmarks.live.measure. --write updates docs/live.md.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from textwrap import fill
from typing import Final

import dpkt
import numpy as np
from msgspec.structs import replace

from benchmarks.generated_section import replace_section
from benchmarks.live.measure import PAGE, make_input, read_rss
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.formats.records import RecordBatch
from ikeanalyze.capture.reader import open_capture
from ikeanalyze.live.engine import LiveEngine
from ikeanalyze.live.rules import EndingRules

COUNT: Final = 500
ROUND_NS: Final = 600 * 10**9
DAY_NS: Final = 24 * 3600 * 10**9
#: Samples of the memory that are shown.
SAMPLES: Final = 14


def find_spis(batch: RecordBatch) -> Int64Array:
    """The offset of the initiator's SPI of each packet in the buffer. (n,)"""
    offsets = []
    for begin, size in zip(batch.offset.tolist(), batch.captured.tolist(), strict=True):
        frame = batch.buffer[begin : begin + size].tobytes()
        udp = dpkt.ethernet.Ethernet(frame).data.data
        offsets.append(begin + size - len(udp.data) + (4 if 4500 in (udp.sport, udp.dport) else 0))
    return np.array(offsets, np.int64)


def run(source: Path, days: float) -> str:
    """Feed the packets again and again; return the section of the documentation."""
    reported = 0

    def count(analysis: Analysis) -> None:
        nonlocal reported
        reported += analysis.handshakes.height

    rounds = round(days * DAY_NS / ROUND_NS)
    start = time.process_time()
    memory: list[int] = []
    with open_capture(source) as reader:
        batches = [replace(batch, buffer=batch.buffer.copy()) for batch in reader.iterate_batches()]
        places = [find_spis(batch)[:, None] + np.arange(3) for batch in batches]
        originals = [batch.buffer[place].copy() for batch, place in zip(batches, places, strict=True)]
        engine = LiveEngine("soak", reader.interfaces, count, ReadOptions(), EndingRules())
        for number in range(rounds):
            change = np.array([number >> 16 & 255, number >> 8 & 255, number & 255], np.uint8)
            for batch, place, original in zip(batches, places, originals, strict=True):
                batch.buffer[place] = original ^ change
                engine.add(replace(batch, time_ns=batch.time_ns + number * ROUND_NS))
            if number % max(rounds // SAMPLES, 1) == 0:
                memory.append(read_rss(os.getpid()))
        engine.finish()
    seconds = time.process_time() - start
    samples = " ".join(f"{rss / 2**20:.0f}" for rss in memory)
    text = f"{days:g} days of the capture's time, {COUNT} handshakes every ten minutes: {reported:,} handshakes in "
    text += f"{engine.counts.packets:,} packets, {seconds:.0f} s of processor time. Memory in MiB, every "
    return f"{fill(f'{text}{24 * days / SAMPLES:g} hours:', 120)}\n\n    {samples}\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live.soak", description=__doc__)
    parser.add_argument("--days", type=float, default=7)
    parser.add_argument("--write", action="store_true", help="update docs/live.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "source.pcap"
        make_input(COUNT, source)
        text = run(source, options.days)
    sys.stdout.write(text)
    if options.write:
        replace_section(PAGE, "soak", text)


if __name__ == "__main__":
    main()
