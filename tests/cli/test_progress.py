import io
import sys

import pytest

from ikeanalyze.cli import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A function that makes standard error a terminal; pytest puts its own there before each test."""

    def make() -> Terminal:
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        return stream

    return make


def test_none_where_nobody_sees_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.make_progress_bar(quiet=False) as report:
        assert report is None


def test_quiet_shows_no_progress(terminal):
    terminal()
    with progress.make_progress_bar(quiet=True) as report:
        assert report is None


def test_not_within_the_first_second(terminal):
    stderr = terminal()
    with progress.make_progress_bar(quiet=False) as report:
        report(1, 100)
    assert stderr.getvalue() == ""


@pytest.mark.parametrize("total", [100, None])
def test_progress_appears_after_a_delay(terminal, monkeypatch, total):
    stderr = terminal()
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    with progress.make_progress_bar(quiet=False) as report:
        report(1, total)
        report(100, total)
    assert "reading" in stderr.getvalue()


def test_of_something_else_than_bytes(terminal, monkeypatch):
    stderr = terminal()
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    with progress.make_progress_bar(quiet=False, label="predicting", counts=True) as report:
        report(1, 40)
        report(40, 40)
    assert "predicting" in stderr.getvalue()
    assert "40/40" in stderr.getvalue()


def test_output_to_a_file_is_not_written_to_the_terminal_with_the_bar(terminal, monkeypatch):
    stderr, stdout = terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    with progress.make_progress_bar(quiet=False, counts=True) as report:
        report(1, 40)
        print("out/x.manifest.json")
        print("x failed", file=sys.stderr)
    assert stdout.getvalue() == "out/x.manifest.json\n"
    assert "out/x" not in stderr.getvalue()
    assert "x failed" in stderr.getvalue()
