import os
from pathlib import Path

import pytest

from ikeanalyze.dataset.comparison import Estimate
from ikeanalyze.render import View
from ikeanalyze.render.comparison import Format, digits, interval, probability, sections, write
from tests.render.compared import comparison, group, measured

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(("name", "form", "width"), [
    ("comparison", Format.TERMINAL, 80),
    ("comparison-wide", Format.TERMINAL, 200),
    ("comparison-markdown", Format.MARKDOWN, None),
])  # fmt: skip
def test_golden(name, form, width, tmp_path):
    path = tmp_path / "out"
    write(comparison(), form, str(path), View(width=width))
    text = path.read_text()
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()
    assert "\x1b" not in text
    if width:
        assert max(map(len, text.splitlines())) <= width


def test_many_groups():
    several = [group((f"c{i}", 1.0), None, 10, completed=10) for i in range(40)]
    metric = comparison().metrics[0]
    many = comparison(
        groups=tuple(several),
        metrics=(type(metric)("setup_ms", "ms", tuple(measured(5.0) for _ in several)),),
    )
    tables = list(sections(many, every=False))[1:]
    assert [(len(one.rows), one.more) for one in tables] == [(30, 10)] * 2
    tables = list(sections(many, every=True))[1:]
    assert [(len(one.rows), one.more) for one in tables] == [(40, 0)] * 2


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
def test_digits(value, shown):
    assert digits(value) == shown


def test_interval():
    assert interval(Estimate(5.0, 4.5, None, "order statistics")) == "4.500 to ?"
    assert interval(Estimate(5.0)) == interval(None) == "-"


def test_probability():
    assert [probability(p) for p in (1.0, 0.05, 0.0312, 0.00012, 0.00009)] == [
        "1", "0.05", "0.031", "0.00012", "< 0.0001",
    ]  # fmt: skip
