import numpy as np
import pytest

from ikeanalyze.capture.buffers import LAYOUT, FrameRows

TWO = {"number": np.uint32, "flag": np.bool_}


def test_an_empty_buffer_has_all_columns() -> None:
    columns = FrameRows(LAYOUT).columns()
    assert {name: column.dtype for name, column in columns.items()} == {
        name: np.dtype(dtype) for name, dtype in LAYOUT.items()
    }
    assert {len(column) for column in columns.values()} == {0}


@pytest.mark.parametrize("share", [None, 0.001, 0.5, 1.0])
def test_appended_rows_are_columns(share: float | None) -> None:
    rows = FrameRows(TWO)
    rows.share = share
    for begin in range(0, 5000, 100):
        rows.append(100, {"number": np.arange(begin, begin + 100), "flag": begin % 200 == 0})
    assert len(rows) == 5000
    columns = rows.columns()
    assert columns["number"].dtype == np.uint32
    assert columns["number"].tolist() == list(range(5000))
    assert columns["flag"].tolist() == [number // 100 % 2 == 0 for number in range(5000)]


@pytest.mark.parametrize("take", [False, True])
def test_a_value_that_all_rows_have_takes_no_memory(take: bool) -> None:
    rows = FrameRows(TWO)
    for begin in range(0, 300, 100):
        rows.append(100, {"number": np.arange(begin, begin + 100, dtype=np.uint32), "flag": False}, take=take)
    flag = rows.columns()["flag"]
    assert (flag.dtype, flag.strides, flag.tolist()) == (np.bool_, (0,), [False] * 300)
    rows.append(0, {"number": np.zeros(0, np.uint32), "flag": True})
    rows.append(2, {"number": np.arange(2), "flag": np.array([True, False])})
    rows.append(1000, {"number": np.arange(1000), "flag": True})
    assert rows.columns()["flag"].tolist() == [False] * 300 + [True, False] + [True] * 1000


def test_shared_rows_have_their_final_size() -> None:
    rows = FrameRows.shared(TWO, 7)
    rows.append(7, {"number": np.arange(7), "flag": True})
    whole = rows.columns(whole=True)
    assert rows.columns()["number"].tolist() == whole["number"][:7].tolist() == list(range(7))
