"""The table of the captures of a report: a row for each, with the packets and bytes of each kind in its accounting."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ikeanalyze.analysis.result import ACCOUNTING, CaptureSummary
from ikeanalyze.analysis.tables.column_types import BOOLEAN, INT64, TEXT, Layout
from ikeanalyze.analysis.tables.columns import TableColumns, TextColumn, make_column

#: The columns of the captures table of a dataset (`dataset.columns`), except those of a batch alone.
_SUMMARY: Final[Layout] = {
    "format": TEXT,
    "packets": INT64,
    "bytes": INT64,
    "first_ns": INT64,
    "last_ns": INT64,
    "snaplen_truncated": INT64,
    "damaged": BOOLEAN,
}
CAPTURES: Final[Layout] = {
    "capture": TEXT,
    **_SUMMARY,
    **{f"{use}_{unit}": INT64 for use in ACCOUNTING for unit in ("packets", "bytes")},
}


def build_captures_columns(captures: Sequence[CaptureSummary]) -> TableColumns:
    """Return the columns of the table."""
    paths = [summary.path for summary in captures]
    columns = {name: make_column([getattr(each, name) for each in captures], kind) for name, kind in _SUMMARY.items()}
    for use in ACCOUNTING:
        columns[f"{use}_packets"] = np.array([each.accounting.get(use, 0) for each in captures], np.int64)
        columns[f"{use}_bytes"] = np.array([each.accounting_bytes.get(use, 0) for each in captures], np.int64)
    return TableColumns(columns, CAPTURES, TextColumn(paths, np.arange(len(paths))), len(captures))
