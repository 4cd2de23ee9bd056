"""Colours that can be read and told apart: WCAG 2.2, success criteria 1.4.3 and 1.4.11."""

import itertools

import pytest

from ikeanalyze.render.core.figures.style import COLOURS, DARK, insert_css_variables


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [COLOURS, DARK], ids=["light", "dark"])
def test_colours_have_enough_contrast(colours):
    ground = colours["ground"]
    for text in ("ink", "muted", "lost"):
        assert contrast(colours[text], ground) >= 4.5, text
    for mark in ("initiator", "responder", "aaa", "network", "waiting"):
        assert contrast(colours[mark], ground) >= 3, mark


def test_black_and_white_are_right():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


#: What is seen without one kind of cone: Viénot, Brettel and Mollon 1999 (protanopia, deuteranopia), linear RGB.
BLIND = {
    "protanopia": ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0)),
    "deuteranopia": ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0)),
}


@pytest.mark.parametrize("matrix", BLIND.values(), ids=BLIND)
@pytest.mark.parametrize("colours", [COLOURS, DARK], ids=["light", "dark"])
def test_hosts_are_told_apart_without_red_or_green(matrix, colours):
    def seen(name):
        channels = [int(colours[name][i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return [sum(a * b for a, b in zip(row, linear, strict=True)) for row in matrix]

    for one, other in itertools.combinations(("initiator", "responder", "waiting"), 2):
        assert sum((a - b) ** 2 for a, b in zip(seen(one), seen(other), strict=True)) ** 0.5 > 0.1, (one, other)


def test_both_grounds_have_the_same_colours():
    assert COLOURS.keys() == DARK.keys()
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_colours_become_variables():
    assert insert_css_variables(f'<path fill="{COLOURS["lost"]}"/>#000001') == '<path fill="var(--lost)"/>#000001'
