import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.core.formats import (
    OutputFormats,
    make_csv_writer,
    make_json_writer,
    make_markdown_writer,
    make_terminal_writer,
    make_text_writer,
)
from ikeanalyze.render.core.output import OutputError
from ikeanalyze.render.core.section import FEW, KeyValueSection, TableSection
from ikeanalyze.render.core.table import TableColumn


def sections(numbers, *, every):
    """What a list of numbers says to people."""
    shown = numbers if every else numbers[:FEW]
    yield KeyValueSection("Numbers", [("sum", str(sum(numbers)))], level=1)
    yield TableSection(
        "All", (TableColumn("n", right=True),), [(str(n),) for n in shown], more=len(numbers) - len(shown)
    )


def made(folder, numbers):
    Path(f"{folder}.made").write_text(str(numbers))


NUMBERS: OutputFormats[list[int]] = OutputFormats(
    {
        Format.CSV: make_csv_writer(lambda numbers: ({"n": n, "square": n * n} for n in numbers)),
        Format.TERMINAL: make_terminal_writer(sections),
        Format.MARKDOWN: make_markdown_writer(sections),
        Format.JSON: make_json_writer(lambda numbers: {"numbers": numbers}),
        Format.HTML: make_text_writer(lambda numbers, out: print(*numbers, file=out)),
    },
    directories={Format.PARQUET: lambda numbers, path: made(path, numbers)},
)


def written(numbers, form, tmp_path, **view):
    path = tmp_path / "x"
    NUMBERS.write(numbers, form, str(path), RenderOptions(**view))
    return path.read_text()


def test_formats_are_in_one_order_whatever_the_table_has():
    assert [*NUMBERS] == ["terminal", "json", "csv", "parquet", "markdown", "html"]


def test_terminal_and_markdown_have_the_sections(tmp_path):
    assert written([1, 2], Format.TERMINAL, tmp_path) == "Numbers\n  sum  3\n\nAll\n  n\n  1\n  2\n"
    assert written([1, 2], Format.MARKDOWN, tmp_path) == (
        "# Numbers\n\n| | |\n|---|---|\n| sum | 3 |\n\n## All\n\n| n |\n|---:|\n| 1 |\n| 2 |\n"
    )


@pytest.mark.parametrize("form", [Format.TERMINAL, Format.MARKDOWN])
def test_all_rows_if_that_is_asked_for(form, tmp_path):
    few, every = (written([*range(40)], form, tmp_path, every=every) for every in (False, True))
    assert "... and 10 more (--no-limit shows them)" in few
    assert "more (" not in every
    assert "39" in every.split()


def test_json_csv_and_html_are_made_by_their_own_functions(tmp_path):
    assert json.loads(written([1, 2], Format.JSON, tmp_path)) == {"numbers": [1, 2]}
    rows = csv.DictReader(io.StringIO(written([2, 3], Format.CSV, tmp_path)))
    assert [*rows] == [{"n": "2", "square": "4"}, {"n": "3", "square": "9"}]
    assert written([], Format.CSV, tmp_path) == ""
    assert written([4, 5], Format.HTML, tmp_path) == "4 5\n"


def test_standard_output_and_directories(tmp_path, capsys):
    NUMBERS.write([7], Format.HTML)
    assert capsys.readouterr().out == "7\n"
    NUMBERS.write([8], Format.PARQUET, str(tmp_path / "d"))
    assert (tmp_path / "d.made").read_text() == "[8]"


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(OutputError, match="is a directory"):
        NUMBERS.write([1], Format.JSON, str(tmp_path))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("result", ["prediction", "verification", "replay"])
def test_formats_are_known_without_polars(result):
    """Else a large capture would be read by one process, see `capture.forked`."""
    code = f"import sys, ikeanalyze.render.{result}.formats; print('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize("result", ["report", "comparison", "prediction"])
def test_formats_are_known_without_altair(result):
    """Loading it takes a quarter of a second, and only pages and figures need it."""
    code = f"import sys, ikeanalyze.render.{result}.formats; print('altair' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
