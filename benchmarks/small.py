"""Generate many small captures: python -m benchmarks.small COUNT -o DIRECTORY

Each has one handshake as in 'python -m benchmarks.generate ike-heavy', without retransmissions: 12 packets with their
own SPIs, addresses and contents. The files are DIRECTORY/00000.pcap and so on; count and seed determine them.
"""

import argparse
import io
from pathlib import Path

import numpy as np

from benchmarks.generate import write
from benchmarks.schedule import (
    FILE_HEADER,
    HANDSHAKES_PER_SECOND,
    START_US,
    Drawing,
    Plan,
    draw_handshakes,
    peers,
    take,
)

PACKETS = 12
#: Handshakes made in one go, some of which have retransmissions and are left out.
AT_ONCE = 2000


def generate(count: int, directory: Path, seed: int = 1) -> list[Path]:
    """Write the captures; their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    turn = 0
    while len(paths) < count:
        for data in captures(np.random.default_rng([seed, turn]))[: count - len(paths)]:
            paths.append(directory / f"{len(paths):05}.pcap")
            paths[-1].write_bytes(data)
        turn += 1
    return paths


def captures(rng: np.random.Generator) -> list[bytes]:
    """Captures of one handshake each, a little fewer than AT_ONCE."""
    who = peers(rng, AT_ONCE)
    start = START_US + np.cumsum(rng.exponential(1e6 / HANDSHAKES_PER_SECOND, AT_ONCE)).astype(np.int64)
    drawing = Drawing()
    draw_handshakes(drawing, rng, who, start)
    frames = drawing.joined()
    rows = np.lexsort((frames.time_us, frames.peer))
    rows = rows[np.bincount(frames.peer)[frames.peer[rows]] == PACKETS]
    plan = Plan(drawing.templates, who, take(frames, rows))
    out = io.BytesIO()
    write(plan, out, rng)
    data = out.getvalue()
    ends = FILE_HEADER + np.cumsum(plan.record_bytes[plan.frames.template])[PACKETS - 1 :: PACKETS]
    begins = [FILE_HEADER, *ends[:-1].tolist()]
    return [data[:FILE_HEADER] + data[low:high] for low, high in zip(begins, ends.tolist(), strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.small",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("count", type=int, help="how many captures")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIRECTORY")
    options = parser.parse_args()
    generate(options.count, options.output, options.seed)


if __name__ == "__main__":
    main()
