"""Tables that the core writes as Parquet have the schema and the values of those that polars writes."""

import errno
import os
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
from ikeanalyze.render.core.output import OutputError
from ikeanalyze.render.report import parquet
from ikeanalyze.render.report.parquet import TABLES, ParquetWriter
from ikeanalyze.render.report.parquet_columns import ColumnFile, ConvertedColumns
from tests.core.inputs import flood, recorded
from tests.paths import CAPTURES

ROWS = 3000
_RNG = np.random.default_rng(7)
_TIMES = np.cumsum(_RNG.integers(-(10**5), 10**7, ROWS)) + 1_700_000_000_000_000_000


def write_report(path: Path, directory: Path, **options) -> list[str]:
    """Write a report with all tables; returns the tables that the core wrote."""
    with ParquetWriter(str(directory)) as writer:
        options |= {"on_columns": writer.add_columns, "on_first_columns": writer.add_first_columns}
        writer.finish(read_captures(path, ReadOptions(on_table=writer.add, **options)))
    programs = {name: pq.ParquetFile(directory / f"{name}.parquet").metadata.created_by for name in TABLES}
    return sorted(name for name, program in programs.items() if program == "ikeanalyze")


def assert_same_tables(first: Path, second: Path) -> None:
    for name in TABLES:
        one, two = (pl.read_parquet(directory / f"{name}.parquet") for directory in (first, second))
        assert one.schema == two.schema, name
        assert one.equals(two), name
        assert pq.read_schema(first / f"{name}.parquet").equals(pq.read_schema(second / f"{name}.parquet"))


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.name)
def test_recorded_captures(path: Path, tmp_path: Path):
    assert write_report(path, tmp_path / "compiled") == sorted(TABLES)
    with without_core():
        assert write_report(path, tmp_path / "polars") == []
    assert_same_tables(tmp_path / "compiled", tmp_path / "polars")


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.name)
def test_tables_that_are_written_in_two_steps(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert write_report(path, tmp_path / "one") == sorted(TABLES)
    begun: list[str] = []

    class ListeningWriter(ParquetWriter):
        def add_first_columns(self, name, columns):
            assert {"frames": "message", "handshakes": "diagnosis"}[name] not in columns.layout
            begun.append(name)
            return super().add_first_columns(name, columns)

    monkeypatch.setattr(parquet, "MIN_ROWS_IN_STEPS", 1)
    with ListeningWriter(str(tmp_path / "two")) as writer:
        options = ReadOptions(on_columns=writer.add_columns, on_first_columns=writer.add_first_columns)
        analysis = read_captures(path, options)
        writer.finish(analysis)
    assert begun == ["frames", "handshakes"]
    assert_same_tables(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("ip_id", id="a first column, written in another thread"),
        pytest.param("capture_duplicate", id="a later column"),
    ],
)
def test_an_error_names_the_table_that_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str):
    write = ColumnFile.write

    def fail_with_column(file: ColumnFile, columns: ConvertedColumns) -> None:
        if column in dict(columns.leaves):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, columns)

    monkeypatch.setattr(parquet, "MIN_ROWS_IN_STEPS", 1)
    monkeypatch.setattr(ColumnFile, "write", fail_with_column)
    with pytest.raises(OutputError, match=r"/frames\.parquet: cannot be written: No space left on device"):
        write_report(CAPTURES / "psk-classic.pcap", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_flood_in_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "flood.pcap"
    path.write_bytes(flood("one_request_from_many_addresses"))
    monkeypatch.setattr(parquet, "_ROW_GROUP", 8)
    assert write_report(path, tmp_path / "compiled") == sorted(TABLES)
    with without_core():
        write_report(path, tmp_path / "polars")
    assert_same_tables(tmp_path / "compiled", tmp_path / "polars")
    assert pq.ParquetFile(tmp_path / "compiled" / "frames.parquet").num_row_groups > 2


def test_lists_of_key_exchanges(tmp_path: Path):
    path = next(path for path in recorded() if path.name == "psk-classic.pcap")
    assert write_report(path, tmp_path / "compiled", payloads=True) == sorted(TABLES)
    with without_core():
        write_report(path, tmp_path / "polars", payloads=True)
    assert_same_tables(tmp_path / "compiled", tmp_path / "polars")


def test_a_capture_without_packets(tmp_path: Path):
    path = tmp_path / "empty.pcap"
    path.write_bytes((CAPTURES / "psk-classic.pcap").read_bytes()[:24])
    assert write_report(path, tmp_path / "compiled") == sorted(TABLES)
    with without_core():
        write_report(path, tmp_path / "polars")
    assert_same_tables(tmp_path / "compiled", tmp_path / "polars")


def test_a_written_table_of_handshakes_can_still_be_counted(tmp_path: Path):
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
def test_numbers_with_nulls_survive_a_round_trip(name: str, rows: int, nulls: str, tmp_path: Path):
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
def test_texts_survive_a_round_trip(count: int, tmp_path: Path):
    texts = [f"2001:db8::{number:x} é" * (number % 3) for number in range(count)]
    places = _RNG.integers(0, count, ROWS).astype(np.uint32)
    expected = pl.DataFrame({"x": [texts[place] for place in places], "y": ["same"] * ROWS})
    ends = np.cumsum([len(text.encode()) for text in texts])
    assert_round_trip(expected, [(places, None, ("".join(texts), ends), None), ("same", None, None, None)], tmp_path)


def test_columns_without_values(tmp_path: Path):
    kinds = {"a": pl.Int64, "b": pl.String, "c": pl.Boolean, "d": pl.List(pl.List(pl.String))}
    expected = pl.DataFrame({name: [None] * 9 for name in kinds}, schema=kinds)
    assert_round_trip(expected, [(None, None, None, None)] * 4, tmp_path)


def test_spis_are_written_as_16_hex_digits(tmp_path: Path):
    spis = NUMBERS["digests"]
    expected = pl.DataFrame({"x": [f"{spi:016x}" for spi in spis.tolist()]})
    assert_round_trip(expected, [(spis, None, None, None)], tmp_path)


def test_address_codes_are_written_as_addresses(tmp_path: Path):
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


def test_floats_survive_a_round_trip(tmp_path: Path):
    few = _RNG.choice(np.array([1.0, 1.5, -0.0, np.inf]), ROWS)
    many = _RNG.random(ROWS)
    known = _RNG.random(ROWS) < 0.5
    expected = pl.DataFrame({"x": few, "y": many}).with_columns(pl.when(pl.Series(known)).then("y").alias("y"))
    assert_round_trip(expected, [(few, None, None, None), (many, known, None, None)], tmp_path)


def write_table(path: Path | str, expected: pl.DataFrame, leaves, order=None, *, row_group: int, steps: int) -> None:
    """Write leaves with the schema of the expected table, in so many steps, the last columns first."""
    template = BytesIO()
    expected.clear().write_parquet(template)
    rest = list(leaves)
    columns = []
    for name, dtype in expected.schema.items():
        count = count_leaves(dtype)
        columns.append((name, rest[:count]))
        rest = rest[count:]
    table = core.compiled.ParquetTable(str(path), template.getvalue(), len(expected), row_group)
    for step in reversed(range(steps)):
        table.write([column for column in columns[step::steps] if column[1]], order)
    table.finish()


def count_leaves(dtype) -> int:
    if isinstance(dtype, pl.List):
        return count_leaves(dtype.inner)
    return sum(count_leaves(field.dtype) for field in dtype.fields) if isinstance(dtype, pl.Struct) else 1


def assert_round_trip(expected: pl.DataFrame, leaves, directory: Path, order=None) -> None:
    path = directory / "table.parquet"
    for steps in (1, 2):
        write_table(path, expected, leaves, order, row_group=1000, steps=steps)
        assert pl.read_parquet(path).equals(expected)
        arrow = pq.read_table(path)
        assert pl.from_arrow(arrow).equals(expected)


def test_columns_of_wrong_lengths_and_types_are_refused(tmp_path: Path):
    number, text = np.zeros(3, np.int64), np.zeros(3, np.uint32)
    for leaves, rows in (
        ([(number, None, None, None)], 4),
        ([], 3),
        ([(number, np.ones(2, np.bool_), None, None)], 3),
        ([(text, None, ("a", np.ones(1, np.int64)), None)], 3),
        ([(number, None, ("a", np.ones(1, np.int64)), None)], 3),
        ([(number, None, None, (np.ones(3, np.uint8), np.ones(3, np.uint8)))], 3),
        ([(number, None, None, (np.ones(2, np.uint8), np.zeros(2, np.uint8)))], 2),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            write_table(tmp_path / "x", pl.DataFrame({"x": range(rows)}), leaves, row_group=10, steps=1)


def test_columns_must_be_those_of_the_schema_once_each(tmp_path: Path):
    template = BytesIO()
    pl.DataFrame(schema={"x": pl.Int64, "y": pl.Int64}).write_parquet(template)
    leaf = (np.zeros(3, np.int64), None, None, None)

    def write(*steps: str) -> None:
        table = core.compiled.ParquetTable(str(tmp_path / "x"), template.getvalue(), 3, 10)
        for names in steps:
            table.write([(name, [leaf]) for name in names], None)
        table.finish()

    write("yx")
    write("y", "x")
    for steps in (["xyx"], ["xz"], ["x"], ["x", "xy"]):
        with pytest.raises(ValueError, match="column"):
            write(*steps)


def test_a_table_is_finished_once(tmp_path: Path):
    template = BytesIO()
    pl.DataFrame(schema={"x": pl.Int64}).write_parquet(template)
    table = core.compiled.ParquetTable(str(tmp_path / "x"), template.getvalue(), 0, 10)
    table.finish()
    with pytest.raises(ValueError, match="finished"):
        table.finish()


def test_files_that_cannot_be_written_are_errors(tmp_path: Path):
    numbers, leaf = pl.DataFrame({"x": range(3)}), (np.zeros(3, np.int64), None, None, None)
    with pytest.raises(OSError, match="No space left"):
        write_table("/dev/full", numbers, [leaf], row_group=10, steps=1)
    with pytest.raises(OSError, match="No such file"):
        write_table(tmp_path / "none" / "x", numbers, [leaf], row_group=10, steps=1)
