"""Formats that there are not, and `--figures` where it names no directory."""

import os

import pytest
import typer

from ikeanalyze.cli.writing import chosen_format
from ikeanalyze.render import Format
from ikeanalyze.render.comparison_formats import FORMATS
from tests.render.handmade import CAPTURE


@pytest.mark.parametrize("directory", ["", "-"])
@pytest.mark.parametrize("command", [("report", CAPTURE), ("compare", "dataset", "--by", "capture")], ids=" ".join)
def test_no_directory(run, reader, tmp_path, monkeypatch, command, directory):
    monkeypatch.chdir(tmp_path)
    done = run(*command, "--figures", directory)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{directory!r} names no directory" in done.stderr
    assert os.listdir(tmp_path) == []
    assert reader.asked == {}  # nobody waited for it


def test_a_format_that_there_is_not():
    assert chosen_format(FORMATS, "csv") is Format.CSV
    with pytest.raises(
        typer.BadParameter, match="there is no format 'xml'; there are terminal, json, csv, markdown, html"
    ):
        chosen_format(FORMATS, "xml")
