import polars as pl
import pytest

import ikeanalyze
from ikeanalyze.analysis import schema
from ikeanalyze.dataset.columns import (
    add_label_columns,
    describe_columns,
    get_columns,
    get_reserved_names,
    to_portable_types,
)
from tests.dataset.made import TABLES, capture

SIGNED = {pl.Int32, pl.Int64, pl.Float64, pl.String, pl.Boolean}


def leaves(dtype):
    match dtype:
        case pl.List():
            yield from leaves(dtype.inner)
        case pl.Struct():
            for field in dtype.fields:
                yield from leaves(field.dtype)
        case _:
            yield dtype


@pytest.mark.parametrize("table", TABLES)
def test_types_that_every_reader_has(table):
    for dtype in get_columns(table, {"a": "int", "b": "float", "c": "str", "d": "bool"}).values():
        assert set(leaves(dtype)) <= SIGNED


@pytest.mark.parametrize(
    ("table", "columns"),
    [("handshakes", schema.HANDSHAKES), ("exchanges", schema.EXCHANGES), ("messages", schema.MESSAGES)],
)
def test_columns_are_those_of_the_analysis(table, columns):
    assert list(get_columns(table, {})) == list(columns)


def test_labels_stand_last_where_they_stand():
    for table in ("captures", "handshakes"):
        assert list(get_columns(table, {"x": "int", "y": "str"}).items())[-2:] == [
            ("x", pl.Int64()),
            ("y", pl.String()),
        ]
    assert "x" not in get_columns("messages", {"x": "int"})
    assert {"capture", "outcome", "sha256"} <= get_reserved_names()
    assert "x" not in get_reserved_names()


def test_described_for_the_manifest():
    assert describe_columns({"x": "int"})["handshakes"]["x"] == "Int64"
    assert set(describe_columns({})) == set(TABLES)


def test_made_plain_keeps_the_values(tmp_path):
    (tmp_path / "a.pcap").write_bytes(capture(1))
    analysis = ikeanalyze.read(tmp_path / "a.pcap")
    for name in TABLES[1:]:
        table = getattr(analysis, name)
        plain = to_portable_types(table.lazy(), name).collect()
        assert dict(plain.schema) == get_columns(name, {})
        for row, before in zip(plain.iter_rows(named=True), table.iter_rows(named=True), strict=True):
            if name == "messages":
                row["digest"] %= 1 << 64
            assert row == before


def test_label_columns_are_added_or_replaced():
    table = pl.DataFrame({"capture": ["b", "a", "b"], "handshake": [1, 1, 2]})
    result = add_label_columns(table, {"a": {"run": 3}, "b": {"config": "x"}}, {"run": "int", "config": "str"})
    assert result.rows() == [("b", 1, None, "x"), ("a", 1, 3, None), ("b", 2, None, "x")]
    again = add_label_columns(result, {"a": {}, "b": {"loss": 5.0}}, {"loss": "float"})
    assert again.rows() == [("b", 1, 5.0), ("a", 1, None), ("b", 2, 5.0)]
    assert add_label_columns(table.clear(), {}, {"loss": "float"}).schema["loss"] == pl.Float64
