from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ikeanalyze.render.table import Column, clip, fit, lines, pad

COLUMNS = (
    Column("#", right=True),
    Column("name", narrow=6),
    Column("extra", narrow=5, optional=1),
    Column("other", optional=2),
)


def test_columns_are_aligned():
    rows = [("1", "a", "b", "c"), ("10", "abc", "", "")]
    assert list(lines(COLUMNS, rows, fit(COLUMNS, rows, 40))) == [
        " #  name  extra  other",
        " 1  a     b      c",
        "10  abc",
    ]


def test_the_optional_goes_first_then_the_widest_is_cut():
    rows = [("1", "x" * 20, "y" * 10, "z" * 10)]
    assert fit(COLUMNS, rows, 60).left_out == ()
    assert fit(COLUMNS, rows, 25).left_out == (3,)
    fitted = fit(COLUMNS, rows, 12)
    assert fitted.left_out == (2, 3)
    assert list(lines(COLUMNS, rows, fitted))[1] == "1  xxxxxxxx…"


@given(st.lists(st.tuples(*[st.text(max_size=40)] * 4), max_size=5), st.integers(20, 100))
def test_lines_fit(rows, width):
    rows = [
        tuple("".join(c for c in cell if c.isprintable()) for cell in (row[0][:3], *row[1:])) for row in rows
    ]
    fitted = fit(COLUMNS, rows, width)
    assert all(cell_len(line) <= width for line in lines(COLUMNS, rows, fitted))


@given(st.text(st.characters(categories=["L", "N", "P", "S"])), st.integers(1, 30))
def test_pad_is_exact(text, width):
    assert cell_len(pad(text, width)) == width
    assert cell_len(clip(text, width)) <= width
