"""Print the costs that the lab measured as a table: python -m benchmarks.costs.table RUN [RUN] [--update]

A run is a folder of recordings: ikeanalyze lab run benchmarks/costs/costs.toml --interleave -o RUN. The table has the
median processor time of each kind of handshake and side with its 95 % interval, and its ratio to the first kind. With a
second run, it also has the ratio of that run. --update writes the table into docs/lab.md.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.generated_section import replace_section
from ikeanalyze.dataset.compare.statistics import estimate_quantile

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "lab.md"
SIDES = ("initiator", "responder")
HEADING = (
    "| processor time in ms | side | handshakes | `keys` | 95 % | `costs` | 95 % | ratio | second run |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|---:|\n"
)

#: Processor times in ms of one daemon, ascending. (handshakes,)
Values = npt.NDArray[np.float64]
#: By kind of handshake, side and `measure`.
Costs = Mapping[tuple[str, str, str], Values]


def read_costs(folder: Path) -> dict[tuple[str, str, str], Values]:
    """Read the costs of the established handshakes in a folder's manifests, without those for warming up."""
    costs: dict[tuple[str, str, str], Values] = {}
    for path in sorted(folder.glob("*.manifest.json")):
        manifest = json.loads(path.read_text())
        rows = [row for row in manifest["handshakes"] if row["established"] and not row["warm_up"]]
        for side in SIDES:
            times = [row["costs"][side]["processor_ms"] for row in rows]
            key = (describe_kind(manifest["scenario"]), side, manifest["scenario"]["measure"])
            costs[key] = np.sort(np.array(times, np.float64))
    return costs


def describe_kind(scenario: Mapping[str, Any]) -> str:
    """Return the authentication and the key exchange of a case, such as "psk, ecp384-ke1_mlkem768"."""
    return f"{scenario['initiator.auth']}, {scenario['ike.proposals'].split('-', 2)[2]}"


def format_table(runs: Sequence[Costs]) -> Iterator[str]:
    """Yield the lines of the table in Markdown, the kind with the least costs first."""
    yield HEADING
    kinds = sorted({kind for kind, *_ in runs[0]}, key=lambda kind: np.median(runs[0][kind, SIDES[0], "costs"]))
    for kind in kinds:
        for side in SIDES:
            cells = [cell for measure in ("keys", "costs") for cell in _format_median(runs[0][kind, side, measure])]
            ratios = [np.median(run[kind, side, "costs"]) / np.median(run[kinds[0], side, "costs"]) for run in runs]
            cells += [f"{ratio:.2f}" for ratio in ratios] + [""] * (2 - len(ratios))
            yield f"| {kind} | {side} | {len(runs[0][kind, side, 'costs'])} | {' | '.join(cells)} |\n"


def _format_median(values: Values) -> tuple[str, str]:
    median = estimate_quantile(values, 0.5, 0.95)
    low, high = ("?" if bound is None else f"{bound:.2f}" for bound in (median.low, median.high))
    return f"{median.value:.2f}", f"{low} to {high}"


def main() -> None:
    """Read the runs and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n\n")[2], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--update", action="store_true", help="write the table into docs/lab.md")
    options = parser.parse_args()
    table = "".join(format_table([read_costs(folder) for folder in options.runs[:2]]))
    print(table, end="")
    if options.update:
        replace_section(DOCUMENT, "costs", table)


if __name__ == "__main__":
    main()
