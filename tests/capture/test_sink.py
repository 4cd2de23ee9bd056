import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ikeanalyze.capture.sink import open_sink


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with open_sink(str(path)) as stream:
        stream.write(b"all ")
        assert not path.exists()
        stream.write(b"of it")
    assert path.read_bytes() == b"all of it"
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def fail(path: Path, error: type[BaseException]) -> None:
    with open_sink(str(path)) as stream:
        stream.write(b"new")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_on_an_error_nothing_is_left_and_the_old_file_stays(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(error):
        fail(path, error)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_permissions_stay_and_links_are_written_through(tmp_path: Path) -> None:
    path, link = tmp_path / "out", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    with open_sink(str(link)) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_long_name(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)
    with open_sink(str(path)) as stream:
        stream.write(b"x")
    assert path.read_bytes() == b"x"


def test_a_pipe_is_written_to_directly(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
        with open_sink(str(path)) as stream:
            stream.write(b"through")
        assert reader.communicate()[0] == b"through"
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_stream_stays_open() -> None:
    target = io.BytesIO()
    with open_sink(target) as stream:
        stream.write(b"x")
    assert target.getvalue() == b"x"


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    with open_sink("-") as stream:
        stream.write(b"\xff")
    assert capfdbinary.readouterr().out == b"\xff"
    monkeypatch.setattr(sys, "stdout", None)  # what Python makes of a closed one
    with pytest.raises(OSError, match="closed"), open_sink("-"):
        pass


@pytest.mark.parametrize("name", [".", "no/such/out"])
def test_what_the_system_refuses(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match="directory"), open_sink(str(tmp_path / name)):
        pass
    assert list(tmp_path.iterdir()) == []
