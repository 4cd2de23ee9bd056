"""Figures of a report."""

import re

import pytest

from ikeanalyze.papers import PaperError
from ikeanalyze.papers.report import ReportFolder, evaluate_report
from ikeanalyze.render.core.figures.style import PAGE
from ikeanalyze.render.papers.figures import make_report_figures
from tests.papers.examples import CLAIMS, write_report

CURVES = """
[[figures]]
id = "curves"
kind = "curves"
x_title = "bytes"
y_title = "twice"
sql = "SELECT experiment AS \\"group\\", bytes AS x, 2 * bytes AS value, 1050 AS mark FROM handshakes ORDER BY bytes"
"""


def draw(tmp_path, claims: str) -> str:
    report = evaluate_report(ReportFolder(write_report(tmp_path, claims)))
    figures = {figure.name: figure for figure in make_report_figures(report)}
    return figures["curves"].draw(PAGE)


def test_curves_are_a_line_for_each_group_and_one_for_the_mark(tmp_path):
    drawing = draw(tmp_path, CLAIMS + CURVES)
    assert {"rsa", "psk", "bytes", "twice"} <= set(re.findall(r">([^<]+)</text>", drawing))
    # two groups, told apart by their dashes, and the mark
    assert len(re.findall('class="mark-line', drawing)) == 2
    assert re.findall(r'stroke-dasharray="(\d[^"]*)"', drawing) == ["1,0", "4,2", "2,2"]
    assert "2,2" not in draw(tmp_path / "without", CLAIMS + CURVES.replace(", 1050 AS mark", ""))


def test_curves_need_their_columns(tmp_path):
    with pytest.raises(PaperError, match="figure curves: its query returns no column named x"):
        draw(tmp_path, CLAIMS + CURVES.replace("bytes AS x", "bytes"))
