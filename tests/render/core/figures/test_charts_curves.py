import re

from ikeanalyze.render.core.figures.charts import Axes, draw_curves
from ikeanalyze.render.core.figures.style import SINGLE


def drawn(*, log=False, **more):
    rows = [{"group": group, "x": x, "y": x * (2 if group == "b" else 1)} for group in "ab" for x in (1, 2, 4)]
    return draw_curves(rows, SINGLE, Axes("size", "cost", log=log), groups=["a", "b"], **more)


def lines(svg):
    return [path for path in re.findall(r' d="(M[^"]*)"', svg) if path.count("L") >= 2 and "Z" not in path]


def test_a_line_for_each_group():
    svg = drawn()
    assert "size" in svg
    assert "cost" in svg
    assert len(set(lines(svg))) >= 2


def test_steps_have_more_corners():
    corners = [max(path.count("L") for path in lines(drawn(stepped=stepped))) for stepped in (False, True)]
    assert corners[1] > corners[0]


def test_a_marked_value_is_a_dashed_line():
    assert drawn(marks=[2]).count("stroke-dasharray") > drawn().count("stroke-dasharray")


def test_a_logarithmic_scale():
    assert drawn(log=True) != drawn()
