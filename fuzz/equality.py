"""Compares what is read with and without the compiled core, in every column of every table."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from ikeanalyze import core
from ikeanalyze.analysis import read as analysis_read
from ikeanalyze.analysis.exchanges.init_messages import InitReadings
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.frames import CaptureFrames, read_frames

Result = TypeVar("Result")

TABLES: Final = ("frames", "messages", "exchanges", "handshakes")
#: Bytes of the blocks that the threads of the core take in turns: a few packets, and all.
BLOCKS: Final = (2000, 1 << 30)
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


@contextmanager
def in_blocks(size: int, rest: int = core.REST_BYTES) -> Iterator[None]:
    """Let the core read the files of small captures too, in blocks of so many bytes, and analyse each alone.

    `rest`: bytes of packets that the core hands back at once.
    """
    before = core.MIN_FILE_BYTES, core.BLOCK_BYTES, core.REST_BYTES, analysis_read.SMALL_BYTES
    core.MIN_FILE_BYTES, core.BLOCK_BYTES, core.REST_BYTES, analysis_read.SMALL_BYTES = 1, size, rest, -1
    try:
        yield
    finally:
        core.MIN_FILE_BYTES, core.BLOCK_BYTES, core.REST_BYTES, analysis_read.SMALL_BYTES = before


def compare_frames(path: str, ports: Collection[int] = (), spis: Collection[int] | None = ()) -> list[str]:
    """Differences of the frames of a capture, and of everything that is counted in it."""

    def read(make_readings: type[InitReadings] | None = None) -> dict[str, Any]:
        try:
            return _describe(read_frames(path, ports, spis=spis, make_readings=make_readings))
        except CaptureError as error:
            return {"error": str(error)}

    first, second = both(read)
    differences = list(_compare_descriptions(first, second))
    for size in BLOCKS:
        for make_readings in (None, InitReadings):
            with in_blocks(size, rest=core.REST_BYTES if make_readings is None else 500):
                found = _compare_descriptions(read(make_readings), second)
            differences += (f"blocks of {size}, {make_readings}: {text}" for text in found)
    return differences


def _compare_descriptions(first: dict[str, Any], second: dict[str, Any]) -> Iterator[str]:
    for name in {**first, **second}:
        if first.get(name) != second.get(name):
            yield f"{name}: {first.get(name)} != {second.get(name)}"


def _describe(capture: CaptureFrames) -> dict[str, Any]:
    """All of a capture, with messages as bytes, and addresses and tunnels as text: their order has no meaning."""
    described: dict[str, Any] = {name: getattr(capture, name) for name in CaptureFrames.__struct_fields__}
    columns = described.pop("columns")
    described.pop("addresses")
    described.pop("readings")
    errors = described.pop("icmp_errors")
    described["icmp_errors"] = {name: (column.dtype, column.tolist()) for name, column in errors.items()}
    for name in ("sender", "source", "destination"):
        described["icmp_errors"][name] = [capture.address(code) for code in errors[name].tolist()]
    texts: dict[str, Any] = {
        name: [capture.address(code) for code in columns[name].tolist()] for name in ("source", "destination")
    }
    tunnels = [None, *described["tunnels"]]
    texts["tunnel"] = [tunnels[number] for number in columns["tunnel"].tolist()]
    described["tunnels"] = sorted(described["tunnels"])
    stores = {name: dict(described.pop(name)) for name in ("clear", "encrypted")}
    kinds = {name: column.dtype for name, column in columns.items()}
    return {
        **described,
        **stores,
        **{name: column.tolist() for name, column in columns.items()},
        **texts,
        "kinds": kinds,
    }


def compare_tables(paths: Sequence[str], ports: Sequence[int] = (), keys: Sequence[str] = ()) -> list[str]:
    """Differences of the tables, summaries and warnings of captures that are analysed together."""
    options = ReadOptions(ports=ports, keys=keys, payloads=True)
    first, second = both(lambda: read_captures(list(paths), options))
    return list(_compare_analyses(first, second))


def compare_early_tables(path: str, ports: Sequence[int] = ()) -> list[str]:
    """Differences of the tables of a capture whose IKE_SA_INIT messages are parsed while it is read."""
    options = ReadOptions(ports=ports)
    with without_core():
        expected = read_captures(path, options)
    differences: list[str] = []
    for size in BLOCKS:
        with in_blocks(size):
            found = _compare_analyses(read_captures(path, options), expected)
            differences += (f"blocks of {size}: {text}" for text in found)
    return differences


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
