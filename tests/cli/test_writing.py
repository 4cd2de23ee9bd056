"""`--figures` where it names no directory."""

import os

import pytest

from tests.render.handmade import CAPTURE


@pytest.mark.parametrize("directory", ["", "-"])
@pytest.mark.parametrize(
    "command", [("report", CAPTURE), ("compare", "dataset", "--by", "capture")], ids=" ".join
)
def test_no_directory(run, reader, tmp_path, monkeypatch, command, directory):
    monkeypatch.chdir(tmp_path)
    done = run(*command, "--figures", directory)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{directory!r} names no directory" in done.stderr
    assert os.listdir(tmp_path) == []
    assert reader.asked == {}  # nobody waited for it
