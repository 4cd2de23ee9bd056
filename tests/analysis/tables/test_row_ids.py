import numpy as np
import polars as pl
import pytest

from ikeanalyze.analysis.tables.column_types import CATEGORY, UINT32
from ikeanalyze.analysis.tables.columns import TableColumns
from ikeanalyze.analysis.tables.polars_columns import make_table
from ikeanalyze.analysis.tables.row_ids import FirstRowIds, RowNumbering

CAPTURES = np.array([0, 0, 2, 2, 2, 3])
PATHS = ["a", "b", "c", "d"]


def test_ids_through_all_captures():
    assert RowNumbering(PATHS, FirstRowIds(7, 0, 0)).get_ids(CAPTURES, 7).tolist() == [7, 8, 9, 10, 11, 12]


def test_row_ids_count_within_each_capture():
    assert RowNumbering(PATHS, own=True).get_ids(CAPTURES, 1).tolist() == [1, 2, 1, 2, 3, 1]
    assert RowNumbering(PATHS, own=True).get_ids(CAPTURES[:0], 1).tolist() == []


@pytest.mark.parametrize(("paths", "expected"), [(PATHS, list("aacccd")), (["x"], ["x"] * 6)])
def test_the_column_of_captures(paths, expected):
    columns = {"handshake": np.arange(6, dtype=np.uint32)}
    layout = {"capture": CATEGORY, "handshake": UINT32}
    table = make_table(TableColumns(columns, layout, RowNumbering(paths).select_paths(CAPTURES), 6))
    assert table["capture"].dtype == pl.Categorical
    assert table["capture"].to_list() == expected
