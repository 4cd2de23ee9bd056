"""Columns of the tables as text and units for the reader."""

import polars as pl


def format_time_columns(columns: list[str]) -> list[pl.Expr]:
    """Columns `*_ns` that are points in time, as text."""
    return [pl.from_epoch(c, time_unit="ns").dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").alias(c) for c in columns]


def format_duration_columns(columns: list[str]) -> list[pl.Expr]:
    """Columns `*_ns` that are durations, in milliseconds."""
    return [(pl.col(c) / 1e6).round(6).alias(c) for c in columns]


def cast_text_columns(frame: pl.DataFrame) -> list[pl.Expr]:
    """Enum and categorical columns as plain text."""
    return [
        pl.col(name).cast(pl.String)
        for name, kind in frame.schema.items()
        if isinstance(kind, pl.Enum | pl.Categorical)
    ]
