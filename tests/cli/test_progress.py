import io
import sys

import pytest

from ikeanalyze.cli import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def stderr(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def test_none_where_nobody_sees_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.bar(quiet=False) as report:
        assert report is None


def test_none_if_quiet(stderr):
    with progress.bar(quiet=True) as report:
        assert report is None


def test_not_within_the_first_second(stderr):
    with progress.bar(quiet=False) as report:
        report(1, 100)
    assert stderr.getvalue() == ""


@pytest.mark.parametrize("total", [100, None])
def test_later(stderr, monkeypatch, total):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with progress.bar(quiet=False) as report:
        report(1, total)
        report(100, total)
    assert "reading" in stderr.getvalue()
