from rich.text import Text

from ikeanalyze.view.text_lines import TextLine, make_fact_lines, make_line, wrap_lines


def test_texts_that_fit_are_unchanged():
    assert [row.plain for row in wrap_lines([make_line("abc"), make_line("")], 3)] == ["abc", ""]


def test_a_fact_hangs_below_its_value():
    rows = [row.plain for row in wrap_lines(make_fact_lines([("a", "seven two three"), ("long", "x")]), 16)]
    assert rows == ["  a     seven", "        two", "        three", "  long  x"]


def test_long_words_are_broken_and_nothing_is_lost():
    text = "0123456789abcdef" * 5
    rows = [row.plain for row in wrap_lines([TextLine(Text(text), 4)], 20)]
    assert "".join(row.strip() for row in rows) == text
    assert max(map(len, rows)) <= 20


def test_a_pane_of_no_width_ends():
    assert wrap_lines([make_line("abc def", hang=10)], 1)
    assert "".join(row.plain.strip() for row in wrap_lines([make_line("abc def", hang=10)], 2)) == "abcdef"
