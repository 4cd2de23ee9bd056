"""Charts as they can be read: what stands on an axis stands apart."""

import itertools
import re
from xml.etree import ElementTree as ET

import pytest

from ikeanalyze.render.core.figures import charts
from ikeanalyze.render.core.figures.style import PAGE, SINGLE

SVG = "{http://www.w3.org/2000/svg}"
DIGIT = 0.556  # width of a digit of Liberation Sans, of its size; a comma has half of it


def ticks(svg: str, size: float) -> list[tuple[float, float]]:
    """From where to where each number below the horizontal axis stands, about."""
    (axis,) = (
        node
        for node in ET.fromstring(svg).iter(f"{SVG}g")
        if (node.get("aria-label") or "").startswith("X-axis") and node.find(f".//{SVG}text") is not None
    )
    labels = next(node for node in axis.iter(f"{SVG}g") if "role-axis-label" in (node.get("class") or ""))
    result = []
    for node in labels.iter(f"{SVG}text"):
        if node.get("opacity") == "0":
            continue
        at = float(re.match(r"translate\(([\d.]+)", node.get("transform"))[1])
        width = (len(node.text) - node.text.count(",") / 2) * DIGIT * size
        # the first and the last may stand inside of the ends of the axis
        begin = at - width * {"start": 0, "middle": 0.5, "end": 1}[node.get("text-anchor") or "start"]
        result.append((begin, begin + width))
    return result


@pytest.mark.parametrize("style", [PAGE, SINGLE])
@pytest.mark.parametrize("largest", [950, 1326, 9800, 92588, 1_234_567])
def test_numbers_of_an_axis_stand_apart(style, largest):
    names = ("initiator → responder", "responder → initiator", "responder → AAA")
    rows = [
        {"label": name, "part": "needed once", "value": largest / (i + 1), "said": ""} for i, name in enumerate(names)
    ]
    svg = charts.draw_stacked_bars(
        rows, style, totals=dict.fromkeys(names, f"{largest:,}"), parts={"needed once": "initiator"}, x_title="bytes"
    )
    result = ticks(svg, style.font)
    assert len(result) > 1
    assert all(begin - end > 0.5 * style.font for (_, end), (begin, _) in itertools.pairwise(result))
