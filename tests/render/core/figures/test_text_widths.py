import re

import pytest

from ikeanalyze.render.core.figures.style import FONT, MONO
from ikeanalyze.render.core.figures.text_widths import add_text_lengths

#: Widths of letters in thousandths of the size: Adobe's font metrics of Helvetica and Helvetica-Bold, which Liberation
#: Sans shares. None of the pairs below is kerned.
PLAIN = {"H": 722, "a": 556, "m": 833, "b": 556, "u": 556, "r": 333, "g": 556, "&": 667, "n": 556}
BOLD = {"H": 722, "a": 556, "m": 889, "b": 611, "u": 611, "r": 389, "g": 611}


def drawing(*texts):
    return f'<svg xmlns="http://www.w3.org/2000/svg" font-family="{FONT}" font-size="12">{"".join(texts)}</svg>'


def lengths(svg):
    return [float(length) for length in re.findall(r'textLength="([\d.]+)"', add_text_lengths(svg))]


@pytest.mark.parametrize(
    ("attributes", "size", "letters"),
    [
        (' x="1"', 12, PLAIN),
        (' font-size="7.5px"', 7.5, PLAIN),
        (' font-size="100" x="3"', 100, PLAIN),
        (' font-weight="bold" font-size="100"', 100, BOLD),
    ],
)
def test_as_wide_as_in_its_own_font(attributes, size, letters):
    wanted = sum(letters[letter] for letter in "Hamburg") / 1000 * size
    assert lengths(drawing(f"<text{attributes}>Hamburg</text>")) == [pytest.approx(wanted, rel=0.005, abs=0.01)]


def test_letters_that_xml_writes_otherwise():
    assert lengths(drawing('<text x="0" font-size="100">Ham&amp;n</text>')) == [
        pytest.approx(sum(PLAIN[letter] for letter in "Ham&n") / 10, rel=0.005)
    ]


def test_letters_of_one_width():
    # 1233 of 2048 units in DejaVu Sans Mono
    result = lengths(drawing(f'<text x="0" font-size="10" font-family="{MONO}">192.0.2.1</text>'))
    assert result == [pytest.approx(9 * 10 * 1233 / 2048, abs=0.01)]


def test_each_its_own_and_nothing_else_changes():
    svg = drawing('<text x="0">Ham</text>', "<g/>", '<text x="9" font-size="24">Ham</text>')
    first, second = lengths(svg)
    assert second == pytest.approx(2 * first, abs=0.02)
    assert re.sub(r' textLength="[\d.]+" lengthAdjust="spacingAndGlyphs"', "", add_text_lengths(svg)) == svg


def test_a_drawing_without_text_is_unchanged():
    assert add_text_lengths("<svg></svg>") == "<svg></svg>"
    assert add_text_lengths(drawing('<text x="0"></text>')) == drawing('<text x="0"></text>')
