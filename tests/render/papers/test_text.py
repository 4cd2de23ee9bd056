"""Numbers, verdicts and placeholders on the pages of reports."""

import pytest

from ikeanalyze.dataset.compare.result import Estimate
from ikeanalyze.papers.claims import Verdict
from ikeanalyze.papers.queries import Measurement
from ikeanalyze.papers.verdicts import Judgement
from ikeanalyze.render.core.figures.files import round_coordinates
from ikeanalyze.render.papers.text import format_measurement, format_number, format_verdict


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4, "4"),
        (4.0, "4"),
        (4184, "4,184"),
        (1218.42, "1,218"),
        (999.96, "1000"),
        (12.345, "12.35"),
        (0.05, "0.05"),
        (-3, "-3"),
    ],
)
def test_whole_numbers_are_exact_and_others_have_four_digits(value, text):
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("ours", "text"),
    [
        (None, "-"),
        (Measurement(Estimate(96.0)), "96 bytes"),
        (Measurement(Estimate(4.5, 4.25, 4.75), 10), "4.5 (4.25 to 4.75) bytes, n = 10"),
        (Measurement(Estimate(6.0, 6.0, 6.0), 20), "6 bytes, n = 20"),
        (Measurement(Estimate(5206.02, 5205.98, 5206.06), 100), "5,206 bytes, n = 100"),
        (Measurement(Estimate(5206.4, 5205.9, 5206.9), 100), "5,206 (5,206 to 5,207) bytes, n = 100"),
    ],
)
def test_a_measurement_has_its_interval_and_its_number_of_observations(ours, text):
    assert format_measurement(ours, "bytes") == text


@pytest.mark.parametrize(
    ("judgement", "text"),
    [
        (Judgement(Verdict.REPRODUCED), "reproduced"),
        (Judgement(Verdict.WITHIN, 2.93), "reproduced within 2.9 %"),
        (Judgement(Verdict.WITHIN, 3.14, is_factor=True), "reproduced within a factor of 3.1"),
        (Judgement(Verdict.WITHIN, 1.0401, is_factor=True), "reproduced within a factor of 1.04"),
        (Judgement(Verdict.CONTRADICTED, 24.5), "contradicted"),
    ],
)
def test_a_verdict_has_its_deviation(judgement, text):
    assert format_verdict(judgement) == text


def test_only_coordinates_are_rounded():
    svg = '<path d="M0.12345,-7.00004L-1.5e-16,3" x="2.50000001" aria-label="0.12345 ms"/><text>0.12345</text>'
    assert round_coordinates(svg) == ('<path d="M0.123,-7L0,3" x="2.5" aria-label="0.12345 ms"/><text>0.12345</text>')
