"""Computes the quantities of a report: SQL over its tables, or formulas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from ikeanalyze.dataset.compare import statistics
from ikeanalyze.dataset.compare.regression import estimate_r_squared, fit_line
from ikeanalyze.dataset.compare.result import Estimate, LineFit, Values
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import Quantity
from ikeanalyze.papers.formulas import compute_formula

_CONFIDENCE: Final = 0.95

Tables = Mapping[str, pl.DataFrame]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A quantity and its value."""

    estimate: Estimate
    n: int | None = None  # observations; None: computed by the query or a formula


def run_sql(sql: str, tables: Tables) -> pl.DataFrame:
    """Run a query; the names of its tables are those of the files in `data`.

    Raises:
        PaperError: polars cannot run it.
    """
    try:
        return pl.SQLContext(dict(tables), eager=True).execute(sql)
    except pl.exceptions.PolarsError as error:
        raise PaperError(f"its query fails: {' '.join(str(error).split())}") from None


def measure(quantity: Quantity, tables: Tables, data: Path) -> Measurement | None:
    """Return the value of a quantity; None: it has neither query nor formula, or the query returns no values.

    The rows of a query are observations: a column `value`, and for a ratio of two means a column `baseline` that is
    true in the rows of the denominator; with a column `x`, the result is the slope of the line through the points, or
    with the statistic `r_squared` its coefficient of determination. A single row with `low`, `high` and `n` is taken as
    it is.

    Raises:
        PaperError: the query or formula is invalid; the text does not name the quantity.
    """
    if quantity.formula:
        return Measurement(Estimate(compute_formula(quantity.formula, quantity.arguments, data)))
    if not quantity.sql:
        return None
    frame = run_sql(quantity.sql, tables)
    if "value" not in frame.columns:
        raise PaperError("its query returns no column named value")
    frame = frame.drop_nulls("value")
    if frame.is_empty():
        return None
    if {"low", "high", "n"} <= set(frame.columns):
        row = frame.row(0, named=True)
        return Measurement(Estimate(float(row["value"]), row["low"], row["high"]), row["n"])
    if "baseline" in frame.columns:
        return _measure_ratio(frame)
    if "x" in frame.columns:
        slope = fit_points(frame).slope
        if quantity.statistic == "r_squared":
            return Measurement(estimate_r_squared(*_get_points(frame), _CONFIDENCE), len(frame))
        return Measurement(slope, len(frame))
    if quantity.statistic == "r_squared":
        raise PaperError("the statistic r_squared needs a column named x")
    sample = make_sample(frame["value"])
    # a single row is a number that the query has computed
    return Measurement(_estimate(sample, quantity.statistic), len(sample) if len(sample) > 1 else None)


def _measure_ratio(frame: pl.DataFrame) -> Measurement | None:
    pair = tuple(make_sample(frame.filter(pl.col("baseline") == part)["value"]) for part in (False, True))
    if not all(map(len, pair)):
        return None
    ratio = statistics.estimate_ratios([(pair[0], pair[1])], _CONFIDENCE)[0]
    return None if ratio is None else Measurement(ratio, min(map(len, pair)))


def fit_points(frame: pl.DataFrame) -> LineFit:
    """Fit a straight line to the columns `x` and `value`.

    Raises:
        PaperError: fewer than two different x.
    """
    line = fit_line(*_get_points(frame), _CONFIDENCE)
    if line is None:
        raise PaperError("a line needs two different values of x")
    return line


def _get_points(frame: pl.DataFrame) -> tuple[Values, Values]:
    x, y = (frame[name].cast(pl.Float64).to_numpy() for name in ("x", "value"))
    return x, y


def make_sample(column: pl.Series) -> Values:
    """Return the known values of a column in ascending order."""
    return np.sort(column.drop_nulls().cast(pl.Float64).to_numpy())


def _estimate(sample: Values, statistic: str) -> Estimate:
    if statistic == "sum":
        return Estimate(float(sample.sum()))
    if statistic == "median":
        return statistics.estimate_quantile(sample, 0.5, _CONFIDENCE)
    return statistics.estimate_means([sample], _CONFIDENCE)[0]


def estimate_groups(frame: pl.DataFrame, by: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each group in the order of the frame: the values of `by`, `n`, and an Estimate of each column.

    `n` is the largest number of known values of a column. A column without known values in a group is None.

    Raises:
        PaperError: the frame lacks a column of `by`.
    """
    if missing := [name for name in by if name not in frame.columns]:
        raise PaperError(f"its query returns no column named {missing[0]}")
    metrics = [name for name in frame.columns if name not in by]
    rows = []
    for values, group in frame.group_by(list(by), maintain_order=True):
        samples = {name: make_sample(group[name]) for name in metrics}
        row: dict[str, Any] = dict(zip(by, values, strict=True))
        row["n"] = max(map(len, samples.values()), default=0)
        row |= {name: _estimate(sample, "mean") if len(sample) else None for name, sample in samples.items()}
        rows.append(row)
    return rows
