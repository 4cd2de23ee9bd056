"""Figures of distributions: the estimated density and the exact cumulative distribution of each group of values."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ikeanalyze.render.core.figures import charts
from ikeanalyze.render.core.figures.files import Figure
from ikeanalyze.render.core.figures.style import Style

#: Minimum distinct values for which a density is estimated.
_MIN_DISTINCT: Final = 5
#: Up to this many distinct values, all of them integers, are treated as counts, which have no density.
_MAX_COUNTS: Final = 20
_POINTS: Final = 160  # of a curve
_MAX_TICKS: Final = 300  # values that are drawn one by one
_STEPS: Final = 400  # of a cumulative distribution

Groups = Mapping[str, Sequence[float]]


def make_distribution_figures(groups: Groups, *, name: str, quantity: str, unit: str, population: str) -> list[Figure]:
    """Return the density and the cumulative distribution of each group; neither with fewer than two distinct values.

    `name` is the prefix of the file names. `quantity` is in `unit` (empty: a number), `population` names the
    handshakes.
    """
    samples = {group: sorted(values) for group, values in groups.items() if len(values) > 1}
    values_of_all = [value for values in samples.values() for value in values]
    if len(set(values_of_all)) < 2:
        return []
    title = f"{quantity}, {unit}" if unit and unit != quantity else quantity
    log = charts.needs_log_scale(values_of_all)
    counts = ", ".join(f"{len(values):,} of {group}" for group, values in samples.items())
    runs = f"{len(values_of_all):,} {population}" + (f": {counts}" if len(samples) > 1 else "")
    figures = []
    curves = {group: values for group, values in samples.items() if len(set(values)) >= _MIN_DISTINCT}
    if curves and not (len(set(values_of_all)) <= _MAX_COUNTS and all(value == int(value) for value in values_of_all)):
        figures.append(
            Figure(
                f"{name}-density",
                f"{quantity[:1].upper()}{quantity[1:]}: density",
                f"{runs}. Estimated with a Gaussian kernel (Scott's bandwidth)"
                + (", of the logarithm" if log else "")
                + (". The ticks below are the single values." if len(values_of_all) <= _MAX_TICKS else "."),
                lambda style: draw_density(curves, style, title, unit, log),
            )
        )
    figures.append(
        Figure(
            f"{name}-cumulative",
            f"{quantity[:1].upper()}{quantity[1:]}: cumulative distribution",
            f"{runs}. The share of them that have no more than that.",
            lambda style: _draw_cumulative(samples, style, title, log),
        )
    )
    return figures


def draw_density(groups: Groups, style: Style, title: str, unit: str, log: bool) -> str:
    """Draw the density of each group; with few values, a tick for each. Needs two distinct values in each group."""
    rows = estimate_density(groups, log=log)
    if sum(map(len, groups.values())) <= _MAX_TICKS:
        rows += [
            {"group": group, "tick": value, "said": f"{group}: {value:,.3f} {unit}".strip()}
            for group, values in groups.items()
            for value in values
        ]
    singular = unit if unit == "ms" else unit.removesuffix("s")
    per = "density per decade" if log else f"density per {singular}" if singular else "density"
    return charts.draw_areas(rows, style, groups=list(groups), x_title=title, y_title=per, log=log)


def _draw_cumulative(groups: Groups, style: Style, title: str, log: bool) -> str:
    rows = compute_ecdf(groups)
    return charts.draw_steps(rows, style, groups=list(groups), x_title=title, y_title="share", log=log)


def estimate_density(groups: Groups, *, log: bool) -> list[dict[str, Any]]:
    """Return points of the density of each group, of the value or its decimal logarithm; needs two distinct values."""
    from scipy.stats import gaussian_kde  # slow to load

    kernels = {}
    for group, values in groups.items():
        sample = np.log10(values) if log else np.asarray(values, float)
        kernels[group] = (sample, gaussian_kde(sample))
    widths = [float(np.sqrt(kernel.covariance[0, 0])) for _, kernel in kernels.values()]
    low = min(float(sample.min()) for sample, _ in kernels.values()) - 2 * max(widths)
    high = max(float(sample.max()) for sample, _ in kernels.values()) + 2 * max(widths)
    if not log and min(min(values) for values in groups.values()) >= 0:
        low = max(low, 0.0)
    points = np.linspace(low, high, _POINTS)
    xs = np.power(10.0, points) if log else points
    return [
        {"group": group, "x": float(f"{x:.5g}"), "y": float(f"{y:.5g}")}
        for group, (_, kernel) in kernels.items()
        for x, y in zip(xs.tolist(), kernel(points).tolist(), strict=True)
    ]


def compute_ecdf(groups: Groups) -> list[dict[str, Any]]:
    """Return the steps of the empirical distribution of each group, at most 400 with the first and the last value."""
    rows: list[dict[str, Any]] = []
    for group, values in groups.items():
        ordered = np.sort(np.asarray(values, float))
        chosen = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), _STEPS)).round().astype(int))
        rows.append({"group": group, "x": float(ordered[0]), "y": 0.0})
        rows += [{"group": group, "x": float(ordered[i]), "y": (int(i) + 1) / len(ordered)} for i in chosen]
    return rows
