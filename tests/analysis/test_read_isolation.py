"""A bug that one capture brings to light costs the report of no other capture."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from ikeanalyze.analysis import pipeline
from ikeanalyze.analysis import read as reading
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.capture.decode.ip import get_capture_numbers
from ikeanalyze.cli.app import app
from tests.craft import SECOND, Handshake, Trace


def failing(monkeypatch, *sizes: int, error: type[BaseException] = ZeroDivisionError) -> None:
    """Make the analysis fail if it has the frames of a capture of so many frames: a bug that is not known yet."""
    build = pipeline.build_tables

    def wrong(numbering, traffic, *rest):
        captures = np.bincount(get_capture_numbers(traffic.columns["source"]).astype(np.int64))
        if set(sizes) & set(captures.tolist()):
            raise error("what")
        return build(numbering, traffic, *rest)

    monkeypatch.setattr(pipeline, "build_tables", wrong)


def written(directory: Path, *handshakes: int) -> list[str]:
    """Captures of so many handshakes of four frames each."""
    paths = []
    for number, count in enumerate(handshakes):
        trace = Trace()
        for place in range(count):
            trace.play(Handshake(100 * number + place).setup(), at=place * SECOND)
        paths.append(str(trace.write(directory / f"{number}.pcap")))
    return paths


@pytest.mark.parametrize("error", [ZeroDivisionError, MemoryError, pl.exceptions.PanicException])
def test_a_capture_that_shows_a_bug_costs_no_other(tmp_path, monkeypatch, error):
    paths = written(tmp_path, 1, 2, 3)
    expected = read_captures([paths[0], paths[2]])
    failing(monkeypatch, 8, error=error)
    analysis = read_captures(paths)
    for name in ("frames", "messages", "exchanges", "handshakes"):
        assert getattr(analysis, name).equals(getattr(expected, name))
    assert [summary.path for summary in analysis.captures] == [paths[0], paths[2]]
    (skipped,) = analysis.skipped
    assert (skipped.path, skipped.internal_error) == (paths[1], True)
    if error is MemoryError:
        assert skipped.reason == "not enough memory. Split it (editcap -c)"
    else:
        assert skipped.reason.startswith(f"internal error: {error.__name__}: what. This is a bug in ikeanalyze.")


def test_a_bug_in_reading_a_capture_costs_no_other(tmp_path, monkeypatch):
    paths = written(tmp_path, 1, 1)
    read_frames = reading.read_frames

    def wrong(path, *rest, **options):
        if path == paths[0]:
            raise IndexError("what")
        return read_frames(path, *rest, **options)

    monkeypatch.setattr(reading, "read_frames", wrong)
    analysis = read_captures(paths)
    assert [summary.path for summary in analysis.captures] == [paths[1]]
    assert [skipped.path for skipped in analysis.skipped] == [paths[0]]


def test_a_bug_in_the_only_capture_is_an_error(tmp_path, monkeypatch):
    failing(monkeypatch, 4)
    with pytest.raises(ZeroDivisionError):
        read_captures(written(tmp_path, 1))


def test_the_exit_status_is_that_of_a_skipped_capture(tmp_path, monkeypatch):
    paths = written(tmp_path, 1, 2)
    failing(monkeypatch, 8)
    result = CliRunner().invoke(app, ["report", *paths, "--format", "json"])
    assert result.exit_code == 3
    assert [capture["path"] for capture in json.loads(result.stdout)["captures"]] == [paths[0]]
    assert f"{paths[1]}: internal error: ZeroDivisionError: what." in result.stderr
