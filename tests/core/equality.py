"""Compares generated captures with and without the compiled core.

`python -m tests.core.equality --captures 20000` compares that many; each difference names the seed of its group.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

from fuzz.equality import PORTS, compare_early_tables, compare_frames, compare_tables
from tests.core.inputs import generate

#: Captures that are analysed together.
GROUP = 8


def compare_generated(seed: int, folder: Path, *, tables: bool = True) -> list[str]:
    """Differences in a group of generated captures."""
    rng = Random(seed)
    ports, paths, differences = rng.choice(PORTS), [], []
    for number in range(GROUP):
        path = folder / f"{number}.pcap"
        path.write_bytes(generate(rng))
        paths.append(str(path))
        differences += compare_frames(str(path), ports, rng.choice(((), None)))
        differences += compare_early_tables(str(path), ports) if tables else []
    if tables:
        differences += compare_tables(paths, ports)
    return [f"seed {seed}: {difference}" for difference in differences]


def main() -> int:
    """Compare generated captures; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captures", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first group of captures")
    arguments = parser.parse_args()
    groups = -(-arguments.captures // GROUP)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.seed, arguments.seed + groups):
            for difference in compare_generated(seed, Path(folder)):
                failed += 1
                print(difference[:600], flush=True)
    print(f"{groups * GROUP} captures, {failed} differences")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
