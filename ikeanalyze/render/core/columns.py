"""Expressions that convert columns of the tables to text and to milliseconds."""

import polars as pl


def format_time_columns(columns: list[str]) -> list[pl.Expr]:
    """Return `*_ns` columns of points in time as ISO 8601."""
    return [pl.from_epoch(c, time_unit="ns").dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").alias(c) for c in columns]


def format_duration_columns(columns: list[str]) -> list[pl.Expr]:
    """Return `*_ns` columns of durations in milliseconds."""
    return [(pl.col(c) / 1e6).round(6).alias(c) for c in columns]


def cast_text_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table with its enum and categorical columns as strings."""
    return frame.with_columns(pl.selectors.enum().cast(pl.String), pl.selectors.categorical().cast(pl.String))
