"""Compares what is read with and without the compiled core, in every column of every table.

`python -m tests.core.equality --captures 20000` compares that many generated captures; each difference names the seed.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from ikeanalyze import core
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.frames import CaptureFrames, read_frames
from tests.core.inputs import generate

Result = TypeVar("Result")

TABLES = ("frames", "messages", "exchanges", "handshakes")
#: Ports in addition to 500 and 4500: none, of RADIUS, of a tunnel, of IKE itself.
PORTS: tuple[tuple[int, ...], ...] = ((), (), (), (1812,), (4789,), (500,), (4500, 53))
#: Captures that are analysed together.
GROUP = 8


@contextmanager
def without_core() -> Iterator[None]:
    """Leave the core out."""
    compiled, core.compiled = core.compiled, None
    try:
        yield
    finally:
        core.compiled = compiled


def both(function: Callable[[], Result]) -> tuple[Result, Result]:
    """The result of a function with and without the core."""
    assert core.compiled is not None, core.problem
    compiled = function()
    with without_core():
        return compiled, function()


def compare_frames(path: str, ports: Collection[int] = (), spis: Collection[int] | None = ()) -> list[str]:
    """Differences of the frames of a capture, and of everything that is counted in it."""

    def read() -> dict[str, Any]:
        try:
            return _describe(read_frames(path, ports, spis=spis))
        except CaptureError as error:
            return {"error": str(error)}

    first, second = both(read)
    return [
        f"{name}: {first.get(name)} != {second.get(name)}"
        for name in {**first, **second}
        if first.get(name) != second.get(name)
    ]


def _describe(capture: CaptureFrames) -> dict[str, Any]:
    """All of a capture; messages as bytes."""
    described: dict[str, Any] = {name: getattr(capture, name) for name in CaptureFrames.__slots__}
    columns = described.pop("columns")
    stores = {name: dict(described.pop(name)) for name in ("clear", "sealed")}
    kinds = {name: column.dtype for name, column in columns.items()}
    return {**described, **stores, **{name: column.tolist() for name, column in columns.items()}, "kinds": kinds}


def compare_tables(paths: Sequence[str], ports: Sequence[int] = (), keys: Sequence[str] = ()) -> list[str]:
    """Differences of the tables, summaries and warnings of captures that are analysed together."""
    options = ReadOptions(ports=ports, keys=keys, payloads=True)
    first, second = both(lambda: read_captures(list(paths), options))
    return list(_compare_analyses(first, second))


def _compare_analyses(first: Analysis, second: Analysis) -> Iterator[str]:
    for name in TABLES:
        table, expected = getattr(first, name), getattr(second, name)
        if not table.equals(expected):
            differ = [column for column in expected.columns if not table[column].equals(expected[column])]
            yield f"{name}: {len(table)} rows, expected {len(expected)}; columns {differ}"
        if table.schema != expected.schema:
            yield f"{name}: other types"
    for name in ("captures", "warnings", "skipped"):
        if getattr(first, name) != getattr(second, name):
            yield f"{name}: {getattr(first, name)} != {getattr(second, name)}"


def compare_generated(seed: int, folder: Path, *, tables: bool = True) -> list[str]:
    """Differences in a group of generated captures."""
    rng = Random(seed)
    ports, paths, differences = rng.choice(PORTS), [], []
    for number in range(GROUP):
        path = folder / f"{number}.pcap"
        path.write_bytes(generate(rng))
        paths.append(str(path))
        differences += compare_frames(str(path), ports, rng.choice(((), None)))
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
