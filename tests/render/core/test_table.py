from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ikeanalyze.render.core.table import TableColumn, clip_text, fit_columns, format_lines, min_distinct_width, pad_text

COLUMNS = (
    TableColumn("#", right=True),
    TableColumn("name", narrow=6),
    TableColumn("extra", narrow=5, optional=1),
    TableColumn("other", optional=2),
)


def test_columns_are_aligned():
    rows = [("1", "a", "b", "c"), ("10", "abc", "", "")]
    assert list(format_lines(COLUMNS, rows, fit_columns(COLUMNS, rows, 40))) == [
        " #  name  extra  other",
        " 1  a     b      c",
        "10  abc",
    ]


def test_the_optional_goes_first_then_the_widest_is_cut():
    rows = [("1", "x" * 20, "y" * 10, "z" * 10)]
    assert fit_columns(COLUMNS, rows, 60).left_out == ()
    assert fit_columns(COLUMNS, rows, 25).left_out == (3,)
    fitted = fit_columns(COLUMNS, rows, 12)
    assert fitted.left_out == (2, 3)
    assert list(format_lines(COLUMNS, rows, fitted))[1] == "1  xxxxxxxx…"


@given(st.lists(st.tuples(*[st.text(max_size=40)] * 4), max_size=5), st.integers(20, 100))
def test_lines_fit_the_width(rows, width):
    rows = [tuple("".join(c for c in cell if c.isprintable()) for cell in (row[0][:3], *row[1:])) for row in rows]
    fitted = fit_columns(COLUMNS, rows, width)
    assert all(cell_len(line) <= width for line in format_lines(COLUMNS, rows, fitted))


@given(st.text(st.characters(categories=["L", "N", "P", "S"])), st.integers(1, 30), st.booleans())
def test_pad_is_exact(text, width, middle):
    assert cell_len(pad_text(text, width, middle=middle)) == width
    assert cell_len(clip_text(text, width, middle=middle)) <= width


def test_long_texts_are_shortened_in_the_middle():
    assert clip_text("abcdefgh", 8, middle=True) == "abcdefgh"
    assert clip_text("abcdefgh", 6, middle=True) == "abc…gh"
    assert [clip_text("abcdefgh", width, middle=True) for width in (3, 2, 1, 0)] == ["a…h", "a…", "…", ""]


def test_as_wide_as_tells_apart():
    assert min_distinct_width(["a", "b"], 10) == 10
    assert min_distinct_width(["same", "same"], 2) == 2
    # abc1xyz and abc2xyz: three in front, three behind, and the digit, which is all
    assert min_distinct_width(["abc1xyz", "abc2xyz"], 3) == 7
    assert min_distinct_width(["run1-long-name", "run2-long-name"], 3) == 8  # "run1…ame"
