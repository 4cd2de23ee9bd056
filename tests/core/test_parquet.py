"""Tables that the core writes as Parquet have the schema and the values of those that polars writes."""

from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from fuzz.equality import without_core
from ikeanalyze import core
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.render.report import parquet
from ikeanalyze.render.report.parquet import TABLES, ParquetWriter
from tests.core.inputs import flood, recorded

ROWS = 3000
_RNG = np.random.default_rng(7)
_TIMES = np.cumsum(_RNG.integers(-(10**5), 10**7, ROWS)) + 1_700_000_000_000_000_000


def write_report(path: Path, directory: Path, **options) -> list[str]:
    """Write a report with all tables; returns the tables that the core wrote."""
    with ParquetWriter(str(directory)) as writer:
        writer.finish(read_captures(path, ReadOptions(on_table=writer.add, on_columns=writer.add_columns, **options)))
    programs = {name: pq.ParquetFile(directory / f"{name}.parquet").metadata.created_by for name in TABLES}
    return sorted(name for name, program in programs.items() if program == "ikeanalyze")


def assert_same_tables(first: Path, second: Path) -> None:
    for name in TABLES:
        one, two = (pl.read_parquet(directory / f"{name}.parquet") for directory in (first, second))
        assert one.schema == two.schema, name
        assert one.equals(two), name
        assert pq.read_schema(first / f"{name}.parquet").equals(pq.read_schema(second / f"{name}.parquet"))


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.name)
def test_recorded_captures(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parquet, "MIN_COMPILED_ROWS", 1)
    write_report(path, tmp_path / "compiled")
    with without_core():
        assert write_report(path, tmp_path / "polars") == []
    assert_same_tables(tmp_path / "compiled", tmp_path / "polars")


def test_a_flood_in_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "flood.pcap"
    path.write_bytes(flood("one_request_from_many_addresses"))
    monkeypatch.setattr(parquet, "MIN_COMPILED_ROWS", 1)
    monkeypatch.setattr(parquet, "_ROW_GROUP", 8)
    assert write_report(path, tmp_path / "compiled") == ["exchanges", "frames", "handshakes", "messages"]
    with without_core():
        write_report(path, tmp_path / "polars")
    assert_same_tables(tmp_path / "compiled", tmp_path / "polars")
    assert pq.ParquetFile(tmp_path / "compiled" / "frames.parquet").num_row_groups > 2


def test_small_tables_are_written_by_polars(tmp_path: Path):
    assert write_report(recorded()[0], tmp_path / "tables") == []


def test_lists_that_differ_in_each_row_are_written_by_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parquet, "MIN_COMPILED_ROWS", 1)
    path = next(path for path in recorded() if path.name == "psk-classic.pcap")
    assert write_report(path, tmp_path / "compiled", payloads=True) == ["exchanges", "frames", "messages"]
    with without_core():
        write_report(path, tmp_path / "polars", payloads=True)
    assert_same_tables(tmp_path / "compiled", tmp_path / "polars")


def test_a_written_table_of_handshakes_can_still_be_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parquet, "MIN_COMPILED_ROWS", 1)
    path = recorded()[0]
    with ParquetWriter(str(tmp_path / "tables")) as writer:
        analysis = read_captures(path, ReadOptions(on_table=writer.add, on_columns=writer.add_columns))
        writer.finish(analysis)
    whole = read_captures(path).handshakes
    assert analysis.handshakes.schema == whole.schema
    assert analysis.handshakes.select("handshake", "rekeyed").equals(whole.select("handshake", "rekeyed"))


NUMBERS = {
    "constant": np.full(ROWS, 7, np.uint8),
    "flags": _RNG.choice([8, 32, 40], ROWS).astype(np.uint8),
    "bytes": _RNG.integers(0, 256, ROWS).astype(np.uint8),
    "ports": _RNG.integers(0, 65536, ROWS).astype(np.uint16),
    "wide ports": _RNG.choice([0, 500, 4500, 65535], ROWS).astype(np.uint16),
    "rising": np.arange(ROWS, dtype=np.uint32),
    "identifiers": _RNG.integers(0, 2**32, ROWS).astype(np.uint32),
    "few large": _RNG.choice(np.array([0, 2**31, 2**32 - 1], np.uint32), ROWS),
    "repeated": np.repeat(_RNG.integers(0, 2**64, ROWS // 10, np.uint64), 10),
    "digests": _RNG.integers(0, 2**64, ROWS, np.uint64),
    "times": _TIMES,
    "ends of the range": _RNG.choice(np.array([-(2**63), -1, 0, 2**63 - 1]), ROWS),
    "signed": _RNG.integers(-100, 100, ROWS).astype(np.int32),
    "truths": _RNG.random(ROWS) < 0.3,
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("rows", [1, 7, 8, 129, ROWS])
@pytest.mark.parametrize("nulls", ["none", "some", "all but one"])
def test_numbers(name: str, rows: int, nulls: str, tmp_path: Path):
    values = NUMBERS[name][:rows]
    known = {
        "none": np.ones(rows, np.bool_),
        "some": _RNG.random(rows) < 0.8,
        "all but one": np.arange(rows) == rows // 2,
    }[nulls]
    expected = pl.DataFrame({"x": values}).with_columns(pl.when(pl.Series(known)).then("x").alias("x"))
    assert_round_trip(expected, [(np.ascontiguousarray(values), known, None, None)], tmp_path)


@pytest.mark.parametrize("rows", [1, 2, ROWS])
def test_a_number_that_all_rows_have(rows: int, tmp_path: Path):
    values, known = np.broadcast_to(np.uint32(2**32 - 1), rows), np.arange(rows) % 3 == 0
    numbers = pl.Series(np.full(rows, 2**32 - 1, np.uint32))
    expected = pl.DataFrame({"x": numbers, "y": numbers}).with_columns(pl.when(pl.Series(known)).then("y").alias("y"))
    assert_round_trip(expected, [(values, None, None, None), (values, known, None, None)], tmp_path)


def test_rows_in_another_order(tmp_path: Path):
    order = _RNG.permutation(ROWS).astype(np.int32)
    numbers, known, places = (
        NUMBERS["identifiers"],
        _RNG.random(ROWS) < 0.5,
        _RNG.integers(0, 2, ROWS).astype(np.uint32),
    )
    table = pl.DataFrame({"x": numbers, "y": numbers, "z": pl.Series(["a", "b"]).gather(places)})
    expected = table.with_columns(pl.when(pl.Series(known)).then("y").alias("y"))[order.tolist()]
    columns = [
        (numbers, None, None, None),
        (numbers, known, None, None),
        (places, None, ("ab", np.array([1, 2])), None),
    ]
    assert_round_trip(expected, columns, tmp_path, order)
    for wrong in (order[1:], order - 1, order + 1):
        with pytest.raises(ValueError, match="order"):
            assert_round_trip(expected, columns, tmp_path, wrong)


@pytest.mark.parametrize("count", [1, 2, 200])
def test_texts(count: int, tmp_path: Path):
    texts = [f"2001:db8::{number:x} é" * (number % 3) for number in range(count)]
    places = _RNG.integers(0, count, ROWS).astype(np.uint32)
    expected = pl.DataFrame({"x": [texts[place] for place in places], "y": ["same"] * ROWS})
    ends = np.cumsum([len(text.encode()) for text in texts])
    assert_round_trip(expected, [(places, None, ("".join(texts), ends), None), ("same", None, None, None)], tmp_path)


def test_columns_without_values(tmp_path: Path):
    kinds = {"a": pl.Int64, "b": pl.String, "c": pl.Boolean, "d": pl.List(pl.List(pl.String))}
    expected = pl.DataFrame({name: [None] * 9 for name in kinds}, schema=kinds)
    assert_round_trip(expected, [(None, None, None, None)] * 4, tmp_path)


def test_spis(tmp_path: Path):
    spis = NUMBERS["digests"]
    expected = pl.DataFrame({"x": [f"{spi:016x}" for spi in spis.tolist()]})
    assert_round_trip(expected, [(spis, None, None, None)], tmp_path)


def test_addresses(tmp_path: Path):
    book = ["2001:db8::1", "::ffff:c000:201"]
    codes = np.array([0, 0x0A000001, 0xC0A86409, 0xFFFFFFFF, 1 << 32, (1 << 32) + 1], np.uint64)
    texts = ["0.0.0.0", "10.0.0.1", "192.168.100.9", "255.255.255.255", *book]
    places = _RNG.integers(0, len(codes), ROWS)
    captures = _RNG.integers(0, 3, ROWS, np.uint64) << np.uint64(33)
    ends = np.cumsum([len(text) for text in book])
    expected = pl.DataFrame({"x": [texts[place] for place in places]})
    assert_round_trip(expected, [(codes[places] | captures, None, ("".join(book), ends), None)], tmp_path)
    outside = [(codes[-1:] + np.uint64(1), None, ("".join(book), ends), None)]
    with pytest.raises(ValueError, match="outside"):
        assert_round_trip(expected[:1], outside, tmp_path)


def test_floats(tmp_path: Path):
    few = _RNG.choice(np.array([1.0, 1.5, -0.0, np.inf]), ROWS)
    many = _RNG.random(ROWS)
    known = _RNG.random(ROWS) < 0.5
    expected = pl.DataFrame({"x": few, "y": many}).with_columns(pl.when(pl.Series(known)).then("y").alias("y"))
    assert_round_trip(expected, [(few, None, None, None), (many, known, None, None)], tmp_path)


def assert_round_trip(expected: pl.DataFrame, columns, directory: Path, order=None) -> None:
    template = BytesIO()
    expected.clear().write_parquet(template)
    path = directory / "table.parquet"
    for threads in (1, 2):
        core.compiled.write_parquet(str(path), template.getvalue(), columns, len(expected), order, 1000, threads)
        assert pl.read_parquet(path).equals(expected)
        arrow = pq.read_table(path)
        assert pl.from_arrow(arrow).equals(expected)


def test_columns_of_wrong_lengths_and_types_are_refused(tmp_path: Path):
    template = BytesIO()
    pl.DataFrame(schema={"x": pl.Int64}).write_parquet(template)
    number, text = np.zeros(3, np.int64), np.zeros(3, np.uint32)
    for columns, rows in (
        ([(number, None, None, None)], 4),
        ([], 3),
        ([(number, np.ones(2, np.bool_), None, None)], 3),
        ([(text, None, ("a", np.ones(1, np.int64)), None)], 3),
        ([(number, None, ("a", np.ones(1, np.int64)), None)], 3),
        ([(number, None, None, (np.ones(3, np.uint8), np.ones(3, np.uint8)))], 3),
        ([(number, None, None, (np.ones(2, np.uint8), np.zeros(2, np.uint8)))], 2),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            core.compiled.write_parquet(str(tmp_path / "x"), template.getvalue(), columns, rows, None, 10, 2)
    with pytest.raises(OSError, match="No space left"):
        core.compiled.write_parquet("/dev/full", template.getvalue(), [(number, None, None, None)], 3, None, 10, 1)
    with pytest.raises(OSError, match="No such file"):
        core.compiled.write_parquet(
            str(tmp_path / "none" / "x"), template.getvalue(), [(number, None, None, None)], 3, None, 10, 1
        )
