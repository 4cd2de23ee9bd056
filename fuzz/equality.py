"""Compares what is read with and without the compiled core, in every column of every table."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from ikeanalyze import core
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.frames import CaptureFrames, read_frames

Result = TypeVar("Result")

TABLES: Final = ("frames", "messages", "exchanges", "handshakes")
#: Ports in addition to 500 and 4500: none, of RADIUS, of a tunnel, of IKE itself.
PORTS: Final[tuple[tuple[int, ...], ...]] = ((), (), (), (1812,), (4789,), (500,), (4500, 53))


@contextmanager
def without_core() -> Iterator[None]:
    """Leave the core out."""
    compiled, core.compiled = core.compiled, None  # type: ignore[assignment]
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
