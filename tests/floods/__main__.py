"""Prints what each flood costs at two sizes, as a Markdown table: `python -m tests.floods [NAME...]`.

The exponent is the binary logarithm of the ratio of the two processor times, without that of a flood of 100 packets,
which is mostly that of starting. Below 0.15 s it means nothing, and is left out.
"""

import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.floods.generate import FLOODS, Flood
from tests.floods.measure import Cost, measure

_START: Final = 100
_SHORTEST_S: Final = 0.15
_HEADINGS: Final = ("flood", "n", "2n", "s at n", "s at 2n", "MB at n", "MB at 2n", "exponent")


def main(names: Sequence[str]) -> None:
    """Print a row for each of these floods; no names: all."""
    print(f"| {' | '.join(_HEADINGS)} |")
    print("|---" + "|---:" * (len(_HEADINGS) - 1) + "|")
    for name in names or FLOODS:
        flood = FLOODS[name]
        sizes = flood.size, 2 * flood.size
        start, once, twice = (_cost(flood, size) for size in (_START, *sizes))
        cells = [
            name,
            *(f"{size:,}" for size in sizes),
            *(f"{cost.seconds:.2f}" for cost in (once, twice)),
            *(f"{cost.peak / 1e6:,.0f}" for cost in (once, twice)),
            _exponent(start, once, twice),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def _cost(flood: Flood, size: int) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flood.pcapng"
        path.write_bytes(flood.generate(size))
        out = str(Path(folder) / "out.json")
        return measure([*flood.command, str(path), "--quiet", "--format", "json", "-o", out])


def _exponent(start: Cost, once: Cost, twice: Cost) -> str:
    small, large = once.seconds - start.seconds, twice.seconds - start.seconds
    return f"{math.log2(large / small):.2f}" if small >= _SHORTEST_S and large > 0 else "-"


if __name__ == "__main__":
    main(sys.argv[1:])
