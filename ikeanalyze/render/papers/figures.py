"""The figures of a report, drawn from queries over its tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from ikeanalyze.dataset.compare.regression import compute_band
from ikeanalyze.dataset.compare.result import Estimate
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import ReportFigure
from ikeanalyze.papers.queries import Tables, estimate_groups, fit_points, make_sample, run_sql
from ikeanalyze.papers.report import EvaluatedReport
from ikeanalyze.render.core.figures import charts
from ikeanalyze.render.core.figures.distribution import draw_density
from ikeanalyze.render.core.figures.files import Figure
from ikeanalyze.render.core.figures.style import SERIES, Style
from ikeanalyze.render.overhead.figures import make_paper_figures
from ikeanalyze.render.papers.text import format_estimate, format_number

#: Places at which a line and its band are drawn.
_LINE_POINTS: Final = 21

Row = Mapping[str, Any]
Draw = Callable[[Style], str]

#: Colours of up to three parts of a bar, which also differ in grey: dark, light, black.
_SHADES: Final = ("initiator", "waiting", "ink")


def make_report_figures(report: EvaluatedReport) -> Iterator[Figure]:
    """Return the figures that `claims.toml` describes.

    Raises:
        PaperError: a query fails or lacks a column.
    """
    overhead = {}
    if any(spec.kind == "paper-overhead" for spec in report.file.figures):
        overhead = {figure.name: figure for figure in make_paper_figures()}
    for spec in report.file.figures:
        try:
            if spec.kind == "paper-overhead":
                if spec.id not in overhead:
                    raise PaperError(f"no figure of the paper has this id; there are: {', '.join(overhead)}")
                yield overhead[spec.id]
            else:
                yield Figure(spec.id, spec.title, spec.caption, _make_drawing(spec, report.tables))
        except PaperError as error:
            if report.is_variant:
                continue
            raise PaperError(f"{report.folder.claims}: figure {spec.id}: {error}") from None


def _make_drawing(spec: ReportFigure, tables: Tables) -> Draw:
    frame = run_sql(spec.sql, tables)
    if spec.kind == "means":
        return _draw_means(spec, frame, run_sql(spec.predicted, tables))
    return _KINDS[spec.kind](spec, frame)


def _get_columns(frame: pl.DataFrame, *names: str) -> Sequence[Row]:
    """Return the rows of a frame that must have these columns."""
    if missing := [name for name in names if name not in frame.columns]:
        raise PaperError(f"its query returns no column named {missing[0]}")
    return frame.rows(named=True)


def _draw_bars(spec: ReportFigure, frame: pl.DataFrame) -> Draw:
    rows = [
        {**row, "text": format_number(row["value"]), "said": f"{row['label']}: {format_number(row['value'])}"}
        for row in _get_columns(frame, "label", "value")
    ]
    return lambda style: charts.draw_bars(rows, style, x_title=spec.x_title)


def _draw_stacked(spec: ReportFigure, frame: pl.DataFrame) -> Draw:
    rows = [
        {**row, "said": f"{row['label']}, {row['part']}: {format_number(row['value'])}"}
        for row in _get_columns(frame, "label", "part", "value")
    ]
    sums: dict[str, float] = {}
    for row in rows:
        sums[row["label"]] = sums.get(row["label"], 0) + row["value"]
    totals = {label: format_number(value) for label, value in sums.items()}
    names = dict.fromkeys(row["part"] for row in rows)
    colours = _SHADES if len(names) <= len(_SHADES) else SERIES
    parts = {part: colours[i % len(colours)] for i, part in enumerate(names)}
    return lambda style: charts.draw_stacked_bars(rows, style, totals=totals, parts=parts, x_title=spec.x_title)


def _draw_intervals(spec: ReportFigure, frame: pl.DataFrame) -> Draw:
    _get_columns(frame, "label", "value")
    rows = [_add_bounds(group, group["value"]) for group in estimate_groups(frame, ["label"]) if group["value"]]
    return lambda style: charts.draw_intervals(rows, style, x_title=spec.x_title)


def _draw_densities(spec: ReportFigure, frame: pl.DataFrame) -> Draw:
    _get_columns(frame, "group", "value")
    samples = {
        str(name): make_sample(group["value"]) for (name,), group in frame.group_by("group", maintain_order=True)
    }
    if constant := [name for name, values in samples.items() if len(set(values.tolist())) < 2]:
        raise PaperError(f"the group {constant[0]} needs two different values")
    log = spec.log or charts.needs_log_scale(np.concatenate(list(samples.values())).tolist())
    groups = {name: values.tolist() for name, values in samples.items()}
    return lambda style: draw_density(groups, style, spec.x_title, "", log)


def _draw_means(spec: ReportFigure, frame: pl.DataFrame, prediction: pl.DataFrame) -> Draw:
    rows = _make_means(frame)
    predicted = []
    for row in _get_columns(prediction, "group", "x", "value", "low", "high"):
        bounds = _add_bounds(row, Estimate(row["value"], row["low"], row["high"]))
        predicted.append({**bounds, "y": row["value"], "series": row["group"]})
    groups = list(dict.fromkeys(row["group"] for row in (*rows, *predicted)))
    axes = charts.Axes(spec.x_title, spec.y_title, spec.log)
    return lambda style: charts.draw_means(rows, predicted, style, axes, groups=groups)


def _draw_points(spec: ReportFigure, frame: pl.DataFrame) -> Draw:
    rows = _make_means(frame)
    groups = list(dict.fromkeys(row["group"] for row in rows))
    return lambda style: charts.draw_points(
        rows, style, groups=groups, x_title=spec.x_title, y_title=spec.y_title, log=spec.log
    )


def _make_means(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the mean of each group at each x, with its bounds."""
    _get_columns(frame, "group", "x", "value")
    means = [group for group in estimate_groups(frame, ["group", "x"]) if group["value"]]
    return [{**_add_bounds(group, group["value"]), "y": group["value"].value} for group in means]


def _draw_line(spec: ReportFigure, frame: pl.DataFrame) -> Draw:
    rows = _make_means(frame)
    groups = list(dict.fromkeys(row["group"] for row in rows))
    fit = fit_points(frame.drop_nulls("value"))
    xs = [fit.x_least + (fit.x_greatest - fit.x_least) * i / (_LINE_POINTS - 1) for i in range(_LINE_POINTS)]
    line = [
        {"group": "line through all", "x": point.x, "y": point.mean, "low": point.low, "high": point.high}
        for point in compute_band(fit, xs)
    ]
    axes = charts.Axes(spec.x_title, spec.y_title)
    return lambda style: charts.draw_fits(rows, line, style, axes, groups=groups)


def _draw_curves(spec: ReportFigure, frame: pl.DataFrame) -> Draw:
    rows = [{**row, "y": row["value"]} for row in _get_columns(frame, "group", "x", "value")]
    groups = list(dict.fromkeys(row["group"] for row in rows))
    marks = sorted({row["mark"] for row in rows if row.get("mark") is not None})
    axes = charts.Axes(spec.x_title, spec.y_title)
    return lambda style: charts.draw_curves(rows, style, axes, groups=groups, marks=marks)


def _add_bounds(group: Row, estimate: Estimate) -> dict[str, Any]:
    """Return the row of a mark with its bounds; equal values have no interval, and their bounds are the value."""
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    said = ", ".join(str(group[name]) for name in ("label", "group", "x") if name in group)
    bounds = {"value": estimate.value, "low": low, "high": high}
    return {**group, **bounds, "said": f"{said}: {format_estimate(estimate)}"}


_KINDS: Final[Mapping[str, Callable[[ReportFigure, pl.DataFrame], Draw]]] = {
    "bars": _draw_bars,
    "stacked": _draw_stacked,
    "intervals": _draw_intervals,
    "points": _draw_points,
    "line": _draw_line,
    "curves": _draw_curves,
    "densities": _draw_densities,
}
