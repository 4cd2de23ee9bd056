import io
from dataclasses import replace

import polars as pl
import pytest

from ikeanalyze.render import View, ladder, select
from tests.render.handmade import analysis


def draw(number: int, encoding: str = "utf-8", **view) -> list[str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    ladder.write(select.handshake(analysis(), number), out, View(**view))
    return out.buffer.getvalue().decode(encoding).splitlines()


def test_a_line_per_message():
    assert sum("▶" in line or "◀" in line for line in draw(1)) == 8
    assert sum("▶" in line or "◀" in line for line in draw(2)) == 14


def test_what_is_special():
    text = "\n".join(draw(3))
    assert "retransmission 2, 1/2 fragments seen" in text
    assert text.count("extra round trip: INVALID_KE_PAYLOAD") == 1
    assert "after the set-up" not in text


def test_what_follows_the_set_up():
    lines = draw(1)
    rule = next(i for i, line in enumerate(lines) if "after the set-up" in line)
    assert [("INFORMATIONAL" in line) for line in lines[rule - 1 :]] == [False, False, True, True]


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_plain_ascii(number):
    assert max(map(len, draw(number, "ascii"))) <= 80


@pytest.mark.parametrize("width", [60, 80, 200])
def test_lifelines_are_straight(width):
    lines = [line for line in draw(2, width=width) if line.count("│") >= 2]
    places = {tuple(i for i, c in enumerate(line) if c in "│") for line in lines}
    assert len(places) == 1


def test_long_names_are_cut():
    a = select.handshake(analysis(), 1)
    a = replace(a, messages=a.messages.with_columns(pl.lit("X" * 90).cast(pl.Categorical).alias("type")))
    out = io.StringIO()
    ladder.write(a, out, View())
    assert max(map(len, out.getvalue().splitlines())) <= 80
