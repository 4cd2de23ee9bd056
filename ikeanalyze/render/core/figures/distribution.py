"""How values are distributed over runs: an estimate of their density, and the exact share up to each value."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ikeanalyze.render.core.figures import charts
from ikeanalyze.render.core.figures.figure import Figure
from ikeanalyze.render.core.figures.style import Style

#: Different values below which a density would be our invention.
_ENOUGH: Final = 5
#: So many different values, all whole numbers, are counts of something, which have no density.
_COUNTS: Final = 20
_POINTS: Final = 160  # of a curve
_TICKS: Final = 300  # values that are drawn one by one
_STEPS: Final = 400  # of a cumulative distribution

Groups = Mapping[str, Sequence[float]]


def make_distribution_figures(groups: Groups, *, name: str, what: str, unit: str, of: str) -> list[Figure]:
    """Density and cumulative distribution of the values of each group, as far as there are enough of them.

    `name` begins the files' names, `what` is measured in `unit` (empty: a number), of `of` (handshakes of what kind).
    """
    some = {group: sorted(values) for group, values in groups.items() if len(values) > 1}
    every = [value for values in some.values() for value in values]
    if len(set(every)) < 2:
        return []
    title = f"{what}, {unit}" if unit and unit != what else what
    log = charts.needs_log_scale(every)
    counts = ", ".join(f"{len(values):,} of {group}" for group, values in some.items())
    runs = f"{len(every):,} {of}" + (f": {counts}" if len(some) > 1 else "")
    found = []
    curves = {group: values for group, values in some.items() if len(set(values)) >= _ENOUGH}
    if curves and not (len(set(every)) <= _COUNTS and all(value == int(value) for value in every)):
        found.append(
            Figure(
                f"{name}-density",
                f"{what[:1].upper()}{what[1:]}: density",
                f"{runs}. Estimated with a Gaussian kernel (Scott's bandwidth)"
                + (", of the logarithm" if log else "")
                + (". The ticks below are the single values." if len(every) <= _TICKS else "."),
                lambda style: _draw_density(curves, style, title, unit, log),
            )
        )
    found.append(
        Figure(
            f"{name}-cumulative",
            f"{what[:1].upper()}{what[1:]}: cumulative distribution",
            f"{runs}. The share of them that have no more than that.",
            lambda style: _draw_cumulative(some, style, title, log),
        )
    )
    return found


def _draw_density(groups: Groups, style: Style, title: str, unit: str, log: bool) -> str:
    rows = estimate_density(groups, log=log)
    if sum(map(len, groups.values())) <= _TICKS:
        rows += [
            {"group": group, "tick": value, "said": f"{group}: {value:,.3f} {unit}".strip()}
            for group, values in groups.items()
            for value in values
        ]
    one = unit if unit == "ms" else unit.removesuffix("s")
    per = "density per decade" if log else f"density per {one}" if one else "density"
    return charts.draw_areas(rows, style, groups=list(groups), x_title=title, y_title=per, log=log)


def _draw_cumulative(groups: Groups, style: Style, title: str, log: bool) -> str:
    rows = compute_ecdf(groups)
    return charts.draw_steps(rows, style, groups=list(groups), x_title=title, y_title="share", log=log)


def estimate_density(groups: Groups, *, log: bool) -> list[dict[str, Any]]:
    """Points of each group's density: of the value, or of its decimal logarithm. Each needs two different values."""
    from scipy.stats import gaussian_kde

    kernels = {}
    for group, values in groups.items():
        sample = np.log10(values) if log else np.asarray(values, float)
        kernels[group] = (sample, gaussian_kde(sample))
    widths = [float(np.sqrt(kernel.covariance[0, 0])) for _, kernel in kernels.values()]
    low = min(float(sample.min()) for sample, _ in kernels.values()) - 2 * max(widths)
    high = max(float(sample.max()) for sample, _ in kernels.values()) + 2 * max(widths)
    if not log and min(min(values) for values in groups.values()) >= 0:
        low = max(low, 0.0)
    at = np.linspace(low, high, _POINTS)
    shown = np.power(10.0, at) if log else at
    return [
        {"group": group, "x": float(f"{x:.5g}"), "y": float(f"{y:.5g}")}
        for group, (_, kernel) in kernels.items()
        for x, y in zip(shown.tolist(), kernel(at).tolist(), strict=True)
    ]


def compute_ecdf(groups: Groups) -> list[dict[str, Any]]:
    """Steps of each group's empirical distribution; of a large group some hundred of them, the ends included."""
    rows: list[dict[str, Any]] = []
    for group, values in groups.items():
        ordered = np.sort(np.asarray(values, float))
        chosen = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), _STEPS)).round().astype(int))
        rows.append({"group": group, "x": float(ordered[0]), "y": 0.0})
        rows += [{"group": group, "x": float(ordered[i]), "y": (int(i) + 1) / len(ordered)} for i in chosen]
    return rows
