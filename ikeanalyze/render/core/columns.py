"""Expressions that convert columns of the tables to text and to milliseconds."""

import polars as pl


def format_time_columns(columns: list[str]) -> list[pl.Expr]:
    """Return `*_ns` columns of points in time as ISO 8601."""
    return [pl.from_epoch(c, time_unit="ns").dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").alias(c) for c in columns]


def format_duration_columns(columns: list[str]) -> list[pl.Expr]:
    """Return `*_ns` columns of durations in milliseconds."""
    return [(pl.col(c) / 1e6).round(6).alias(c) for c in columns]


def cast_text_columns(frame: pl.DataFrame) -> list[pl.Expr]:
    """Return the enum and categorical columns as strings."""
    return [
        pl.col(name).cast(pl.String)
        for name, kind in frame.schema.items()
        if isinstance(kind, pl.Enum | pl.Categorical)
    ]
