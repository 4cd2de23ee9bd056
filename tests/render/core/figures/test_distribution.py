import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm

from ikeanalyze.render.core.figures.distribution import compute_ecdf, estimate_density, make_distribution_figures


def test_the_density_is_that_of_its_kernels():
    """Two values 1 apart: a sum of two normal densities whose deviation is s n^(-1/5) (Scott 1992), s = 0.7071."""
    rows = estimate_density({"a": [4.0, 5.0]}, log=False)
    width = np.std([4.0, 5.0], ddof=1) * 2 ** (-1 / 5)
    for row in rows[::20]:
        expected = (norm.pdf(row["x"], 4, width) + norm.pdf(row["x"], 5, width)) / 2
        assert row["y"] == pytest.approx(expected, rel=1e-3)


def test_a_density_has_area_one():
    rng = np.random.default_rng(1)
    rows = estimate_density({"a": rng.lognormal(3, 1, 200).tolist()}, log=True)
    x, y = np.log10([row["x"] for row in rows]), [row["y"] for row in rows]
    assert trapezoid(y, x) == pytest.approx(1, abs=0.05)


def test_no_density_below_zero():
    assert min(row["x"] for row in estimate_density({"a": [0.1, 0.2, 5.0]}, log=False)) == 0


def test_a_cumulative_distribution_has_a_step_for_each_value():
    rows = compute_ecdf({"a": [3.0, 1.0, 2.0, 2.0]})
    assert [(row["x"], row["y"]) for row in rows] == [(1, 0), (1, 0.25), (2, 0.5), (2, 0.75), (3, 1)]


def test_a_large_sample_keeps_its_ends():
    values = np.arange(50_000, dtype=float)
    rows = compute_ecdf({"a": values.tolist()})
    assert len(rows) < 500
    assert (rows[1]["x"], rows[-1]["x"], rows[-1]["y"]) == (0, 49_999, 1)
    assert all(row["y"] == pytest.approx((row["x"] + 1) / 50_000) for row in rows[1:])


def names(values, **groups):
    distribution_figures = make_distribution_figures(
        {"a": values, **groups}, name="x", quantity="time", unit="ms", population="runs"
    )
    return [figure.name for figure in distribution_figures]


def test_only_what_the_values_can_show():
    assert names([1.5, 2.5, 3.5, 4.5, 5.5]) == ["x-density", "x-cumulative"]
    assert names([1.5, 2.5, 3.5]) == ["x-cumulative"]  # five different values make a density
    assert names([1.0, 2.0, 3.0, 4.0, 5.0]) == ["x-cumulative"]  # counts
    assert names([2.5, 2.5]) == []
    assert names([2.5]) == []
    assert names([]) == []


def test_groups_are_counted_in_the_caption():
    figure = make_distribution_figures(
        {"a": [1.5, 2.5], "b": [3.5, 4.5, 5.0]}, name="x", quantity="time", unit="ms", population="runs"
    )[0]
    assert figure.caption.startswith("5 runs: 2 of a, 3 of b.")
