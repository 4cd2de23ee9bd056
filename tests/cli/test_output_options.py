"""Formats that a command cannot write, and `--figures` without a directory."""

import os
import re
from importlib import import_module

import pytest

from tests.render.analysis_examples import CAPTURE


@pytest.mark.parametrize("directory", ["", "-"])
@pytest.mark.parametrize("command", [("report", CAPTURE), ("compare", "dataset", "--by", "capture")], ids=" ".join)
def test_figures_need_a_directory(run, reader, tmp_path, monkeypatch, command, directory):
    monkeypatch.chdir(tmp_path)
    done = run(*command, "--figures", directory)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{directory!r} is not a directory" in done.stderr
    assert os.listdir(tmp_path) == []
    assert reader.asked == {}  # nobody waited for it


#: The package in `render` for the result of each command that has an option --format.
FORMATS = {
    "report": "report.formats",
    "keys": "keys.formats",
    "verify": "verification.formats",
    "compare": "comparison.formats",
    "replay": "replay.formats",
    "predict": "prediction.formats",
    "rank": "ranking.formats",
    "overhead compute": "overhead.formats",
    "overhead measure": "overhead.formats",
    "overhead paper": "overhead.formats",
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_command_takes_the_formats_that_its_result_has(run, name):
    formats = [str(form) for form in import_module(f"ikeanalyze.render.{FORMATS[name]}").FORMATS]
    done = run(*name.split(), "x", "--format", "pdf")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "Invalid value for '--format': 'pdf' is not one of" in done.stderr
    assert re.findall(r"'(\w+)'", done.stderr.partition("is not one of ")[2]) == formats
    usage = run(*name.split(), "--help").stdout.replace("\n", " ")
    assert re.findall(r"\w+", re.search(r"--format [<[](.*?)[]>]", usage)[1]) == formats
