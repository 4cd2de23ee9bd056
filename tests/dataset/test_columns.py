import polars as pl
import pytest

import ikeanalyze
from ikeanalyze.analysis import schema
from ikeanalyze.dataset.columns import columns_of, described, labelled, made_plain, reserved
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
    for dtype in columns_of(table, {"a": "int", "b": "float", "c": "str", "d": "bool"}).values():
        assert set(leaves(dtype)) <= SIGNED


@pytest.mark.parametrize(
    ("table", "columns"),
    [("handshakes", schema.HANDSHAKES), ("exchanges", schema.EXCHANGES), ("messages", schema.MESSAGES)],
)
def test_columns_are_those_of_the_analysis(table, columns):
    assert list(columns_of(table, {})) == list(columns)


def test_labels_stand_last_where_they_stand():
    for table in ("captures", "handshakes"):
        assert list(columns_of(table, {"x": "int", "y": "str"}).items())[-2:] == [
            ("x", pl.Int64()),
            ("y", pl.String()),
        ]
    assert "x" not in columns_of("messages", {"x": "int"})
    assert {"capture", "outcome", "sha256"} <= reserved()
    assert "x" not in reserved()


def test_described_for_the_manifest():
    assert described({"x": "int"})["handshakes"]["x"] == "Int64"
    assert set(described({})) == set(TABLES)


def test_made_plain_keeps_the_values(tmp_path):
    (tmp_path / "a.pcap").write_bytes(capture(1))
    analysis = ikeanalyze.read(tmp_path / "a.pcap")
    for name in TABLES[1:]:
        table = getattr(analysis, name)
        plain = made_plain(table, name)
        assert dict(plain.schema) == columns_of(name, {})
        for row, before in zip(plain.iter_rows(named=True), table.iter_rows(named=True), strict=True):
            if name == "messages":
                row["digest"] %= 1 << 64
            assert row == before


def test_labelled():
    table = pl.DataFrame({"capture": ["b", "a", "b"], "handshake": [1, 1, 2]})
    found = labelled(table, {"a": {"run": 3}, "b": {"config": "x"}}, {"run": "int", "config": "str"})
    assert found.rows() == [("b", 1, None, "x"), ("a", 1, 3, None), ("b", 2, None, "x")]
    again = labelled(found, {"a": {}, "b": {"loss": 5.0}}, {"loss": "float"})
    assert again.rows() == [("b", 1, 5.0), ("a", 1, None), ("b", 2, 5.0)]
    assert labelled(table.clear(), {}, {"loss": "float"}).schema["loss"] == pl.Float64
