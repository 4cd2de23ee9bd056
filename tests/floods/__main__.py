"""Prints what each flood costs at two sizes, as a Markdown table: `python -m tests.floods [NAME...]`.

The exponent is the logarithm, with base 4, of the ratio of the two processor times, without that of a flood of 100
packets, which is mostly that of starting. Below 0.15 s it means nothing, and is left out.
"""

import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.floods.generate import FLOODS, GROWTH, Flood
from tests.floods.measure import Cost, measure

_START: Final = 100
_SHORTEST_S: Final = 0.15
_HEADINGS: Final = ("flood", "n", "4n", "s at n", "s at 4n", "MB at n", "MB at 4n", "exponent")


def main(names: Sequence[str]) -> None:
    """Print a row for each of these floods; no names: all."""
    print(f"| {' | '.join(_HEADINGS)} |")
    print("|---" + "|---:" * (len(_HEADINGS) - 1) + "|")
    for name in names or FLOODS:
        flood = FLOODS[name]
        sizes = flood.size, GROWTH * flood.size
        start, small, large = (_cost(flood, size) for size in (_START, *sizes))
        cells = [
            name,
            *(f"{size:,}" for size in sizes),
            *(f"{cost.seconds:.2f}" for cost in (small, large)),
            *(f"{cost.peak / 1e6:,.0f}" for cost in (small, large)),
            _exponent(start, small, large),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def _cost(flood: Flood, size: int) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flood.pcapng"
        path.write_bytes(flood.generate(size))
        out = str(Path(folder) / "out.json")
        return measure([*flood.command, str(path), "--quiet", "--format", "json", "-o", out])


def _exponent(start: Cost, small: Cost, large: Cost) -> str:
    at_n, at_4n = small.seconds - start.seconds, large.seconds - start.seconds
    return f"{math.log(at_4n / at_n, GROWTH):.2f}" if at_n >= _SHORTEST_S and at_4n > 0 else "-"


if __name__ == "__main__":
    main(sys.argv[1:])
