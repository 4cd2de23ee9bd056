"""Writes empty Parquet files for the compiled core, which copies their schemas.

polars writes them, from the layouts of the tables. Run `python -m tests.render.report.parquet_schemas` after a column
was added or changed.
"""

from io import BytesIO
from pathlib import Path

import polars as pl

from ikeanalyze.analysis.schema import convert_layout
from ikeanalyze.analysis.tables import layouts
from ikeanalyze.analysis.tables.column_types import Layout
from ikeanalyze.dataset.columns import to_portable_types
from ikeanalyze.render.report import parquet_columns
from ikeanalyze.render.report.parquet_captures import CAPTURES

FOLDER = Path(parquet_columns.__file__).with_name("parquet_schemas")
LAYOUTS: dict[str, Layout] = {
    "captures": CAPTURES,
    "handshakes": layouts.HANDSHAKES,
    "exchanges": layouts.EXCHANGES,
    "messages": layouts.MESSAGES,
    "frames": layouts.FRAMES,
}


def make_empty_file(name: str) -> bytes:
    """An empty Parquet file with the columns of a table of a report."""
    table = pl.DataFrame(schema=convert_layout(LAYOUTS[name])).lazy()
    content = BytesIO()
    (table if name == "captures" else to_portable_types(table, name)).collect().write_parquet(content)
    return content.getvalue()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for table in LAYOUTS:
        (FOLDER / f"{table}.parquet").write_bytes(make_empty_file(table))
