from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ikeanalyze.render.table import Column, clip, fit, lines, pad, telling

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
    rows = [tuple("".join(c for c in cell if c.isprintable()) for cell in (row[0][:3], *row[1:])) for row in rows]
    fitted = fit(COLUMNS, rows, width)
    assert all(cell_len(line) <= width for line in lines(COLUMNS, rows, fitted))


@given(st.text(st.characters(categories=["L", "N", "P", "S"])), st.integers(1, 30), st.booleans())
def test_pad_is_exact(text, width, middle):
    assert cell_len(pad(text, width, middle=middle)) == width
    assert cell_len(clip(text, width, middle=middle)) <= width


def test_cut_in_the_middle():
    assert clip("abcdefgh", 8, middle=True) == "abcdefgh"
    assert clip("abcdefgh", 6, middle=True) == "abc…gh"
    assert [clip("abcdefgh", width, middle=True) for width in (3, 2, 1, 0)] == ["a…h", "a…", "…", ""]


def test_as_wide_as_tells_apart():
    assert telling(["a", "b"], 10) == 10
    assert telling(["same", "same"], 2) == 2
    # abc1xyz and abc2xyz: three in front, three behind, and the digit, which is all
    assert telling(["abc1xyz", "abc2xyz"], 3) == 7
    assert telling(["run1-long-name", "run2-long-name"], 3) == 8  # "run1…ame"
