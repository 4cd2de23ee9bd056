"""The empty files that the compiled core copies have the schemas that polars writes."""

from io import BytesIO

import pyarrow.parquet as pq
import pytest

from tests.render.report.parquet_schemas import FOLDER, LAYOUTS, make_empty_file


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_stored_schema_is_what_polars_writes(name):
    stored, written = pq.ParquetFile(FOLDER / f"{name}.parquet"), pq.ParquetFile(BytesIO(make_empty_file(name)))
    assert stored.schema.equals(written.schema)
    assert stored.schema_arrow.equals(written.schema_arrow, check_metadata=True)


def test_there_is_one_for_each_table():
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(LAYOUTS)
