import os
from dataclasses import replace
from pathlib import Path

import pytest

from ikeanalyze.dataset.compare.result import Estimate
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.comparison.formats import FORMATS
from ikeanalyze.render.comparison.text import format_interval, format_p_value, format_significant, render_sections
from tests.render.comparison_examples import comparison, group, measured

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(
    ("name", "form", "width"),
    [
        ("comparison", Format.TERMINAL, 80),
        ("comparison-wide", Format.TERMINAL, 200),
        ("comparison-markdown", Format.MARKDOWN, None),
    ],
)
def test_the_text_equals_the_golden_file(name, form, width, tmp_path):
    path = tmp_path / "out"
    FORMATS.write(comparison(), form, str(path), RenderOptions(width=width))
    text = path.read_text()
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()
    assert "\x1b" not in text
    if width:
        assert max(map(len, text.splitlines())) <= width


def test_many_groups_are_cut_unless_all_are_wanted():
    several = [group((f"c{i}", 1.0), None, 10, completed=10) for i in range(40)]
    metric = comparison().metrics[0]
    many = comparison(
        groups=tuple(several), metrics=(type(metric)("setup_ms", "ms", tuple(measured(5.0) for _ in several)),)
    )
    tables = list(render_sections(many, every=False))[1:]
    assert [(len(table.rows), table.more) for table in tables] == [(30, 10)] * 2
    tables = list(render_sections(many, every=True))[1:]
    assert [(len(table.rows), table.more) for table in tables] == [(40, 0)] * 2


def test_resamples_that_were_taken():
    """Not those that were asked for."""
    result = comparison()
    (setup, bytes_) = result.metrics
    mean = replace(setup.groups[0].mean, resamples=833)
    fewer = replace(setup, groups=(replace(setup.groups[0], mean=mean), *setup.groups[1:]))
    facts = dict(next(iter(render_sections(replace(result, metrics=(fewer, bytes_)), every=False))).rows)
    assert "by 833 (the largest groups) to 2,000 bootstrap resamples" in facts["intervals"]


#: Cases of the lab, whose names differ in the middle or at the end.
CASES = [f"eap-tls_initiator-chain-{n}_aaa-chain-{m}" for n in (2, 3, 4) for m in (2, 4)]


@pytest.mark.parametrize("width", [80, 120])
def test_rows_can_be_told_apart(width, tmp_path):
    """Where there is little room, columns go before labels are the same."""
    several = [group((case,), 0 if i else None, 10, completed=10) for i, case in enumerate(CASES)]
    against = comparison().metrics[0].groups[2].against
    measures = tuple(measured(1234.5, against=against if i else None) for i in range(len(CASES)))
    metric = replace(comparison().metrics[0], groups=measures)
    FORMATS.write(
        comparison(by=("scenario",), groups=tuple(several), metrics=(metric,)),
        Format.TERMINAL,
        str(tmp_path / "out"),
        RenderOptions(width=width),
    )
    lines = (tmp_path / "out").read_text().splitlines()
    assert max(map(len, lines)) <= width
    labels = [line.split()[0] for line in lines if line.startswith("  eap-tls")]
    assert len(labels) == 6 + 6 + 5  # groups, metric, differences
    assert len(set(labels[:6])) == len(set(labels[6:12])) == 6
    assert len(set(labels[12:])) == 5


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0, "0"),
        (2.0, "2"),
        (1230.0, "1,230"),
        (1234567.0, "1,234,567"),
        (1234567.4, "1,234,567"),
        (1234.5, "1,234"),
        (123.46, "123.5"),
        (6.12345, "6.123"),
        (0.0123456, "0.01235"),
        (-6.12345, "-6.123"),
    ],
)
def test_values_have_four_digits_and_integers_all(value, shown):
    assert format_significant(value) == shown


def test_an_unknown_bound_of_an_interval_is_a_question_mark():
    assert format_interval(Estimate(5.0, 4.5, None, "order statistics")) == "4.500 to ?"
    assert format_interval(Estimate(5.0)) == format_interval(None) == "-"


def test_p_values_have_two_digits_and_a_least_value():
    assert [format_p_value(p) for p in (1.0, 0.05, 0.0312, 0.00012, 0.00009)] == [
        "1",
        "0.05",
        "0.031",
        "0.00012",
        "< 0.0001",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (9.99e14, "999,000,000,000,000"),
        (1.7e99, "1.700e+99"),
        (-2e15, "-2.000e+15"),
        (5e-324, "4.941e-324"),
        (float("inf"), "inf"),
    ],
)
def test_digits_of_what_is_very_large_or_small(value, shown):
    assert format_significant(value) == shown
