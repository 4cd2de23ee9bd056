import polars as pl

from ikeanalyze.render.core import columns


def test_times_and_durations():
    table = pl.DataFrame({"at_ns": [1_764_000_000_123_456_789, None], "took_ns": [1_500_000, None]})
    # date -u -d @1764000000 says 2025-11-24 16:00:00
    assert table.select(
        *columns.format_time_columns(["at_ns"]), *columns.format_duration_columns(["took_ns"])
    ).rows() == [
        ("2025-11-24T16:00:00.123456789Z", 1.5),
        (None, None),
    ]


def test_enums_and_categories_become_text():
    table = pl.DataFrame(
        {"a": ["x"], "b": ["y"], "n": [1]}, schema={"a": pl.Enum(["x"]), "b": pl.Categorical, "n": pl.UInt8}
    )
    assert columns.cast_text_columns(table).dtypes == [pl.String, pl.String, pl.UInt8]
