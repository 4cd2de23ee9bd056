import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ikeanalyze.io.atomic_write import is_device_or_pipe, open_output, replace_atomically, write_private


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with open_output(str(path)) as stream:
        stream.write(b"all ")
        assert not path.exists()
        stream.write(b"of it")
    assert path.read_bytes() == b"all of it"
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def fail(path: Path, error: type[BaseException]) -> None:
    with open_output(str(path)) as stream:
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
    with open_output(str(link)) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_long_names_are_written(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)
    with open_output(str(path)) as stream:
        stream.write(b"x")
    assert path.read_bytes() == b"x"


def test_a_pipe_is_written_to_directly(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
        with open_output(str(path)) as stream:
            stream.write(b"through")
        assert reader.communicate()[0] == b"through"
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_stream_stays_open() -> None:
    target = io.BytesIO()
    with open_output(target) as stream:
        stream.write(b"x")
    assert target.getvalue() == b"x"


def test_standard_output_is_written(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    with open_output("-") as stream:
        stream.write(b"\xff")
    assert capfdbinary.readouterr().out == b"\xff"
    monkeypatch.setattr(sys, "stdout", None)  # what Python makes of a closed one
    with pytest.raises(OSError, match="closed"), open_output("-"):
        pass


@pytest.mark.parametrize("name", [".", "no/such/out"])
def test_what_the_system_refuses(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match="directory"), open_output(str(tmp_path / name)):
        pass
    assert list(tmp_path.iterdir()) == []


def write(path, text, error=None):
    with replace_atomically(str(path)) as temporary:
        temporary.write_text(text)
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt()])
def test_a_failed_write_keeps_the_old_file(tmp_path, error):
    path = tmp_path / "out"
    with pytest.raises(type(error)):
        write(path, "first", error)
    assert os.listdir(tmp_path) == []
    write(path, "second")
    with pytest.raises(type(error)):
        write(path, "third", error)
    assert (path.read_text(), os.listdir(tmp_path)) == ("second", ["out"])


@pytest.mark.parametrize("letter", ["a", "\u00e4", "\u732b"])
def test_the_longest_name_is_written(tmp_path, letter):
    path = tmp_path / (letter * (255 // len(letter.encode())))
    write(path, "x")
    assert path.read_text() == "x"


def test_a_replaced_link_is_followed_and_permissions_stay(tmp_path):
    (tmp_path / "real").touch()
    (tmp_path / "real").chmod(0o604)
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o604


def test_paths_that_cannot_be_replaced(tmp_path):
    with pytest.raises(IsADirectoryError):
        write(tmp_path, "x")
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "no" / "out", "x")


def test_devices_and_pipes_are_written_directly(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert is_device_or_pipe("/dev/null")
    assert is_device_or_pipe(str(tmp_path / "pipe"))
    assert not is_device_or_pipe(str(tmp_path))
    assert not is_device_or_pipe(str(tmp_path / "nothing"))


def get_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0, 0o022, 0o277])
def test_only_its_owner_can_read_a_private_file(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        write_private(str(tmp_path / "new"), "x")
    finally:
        os.umask(old)
    assert get_mode(tmp_path / "new") == 0o600


def test_a_private_file_replaces_one_that_all_could_read(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_text("old")
    path.chmod(0o644)
    with path.open() as watched:
        write_private(str(path), "new")
        assert (path.read_text(), get_mode(path)) == ("new", 0o600)
        assert watched.read() == "old"  # who had it open does not see the new content


def test_a_private_file_with_the_longest_name(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)
    write_private(str(path), "x")
    assert (path.read_text(), get_mode(path)) == ("x", 0o600)


def test_a_private_file_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_private(str(tmp_path / "link"), "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
    assert get_mode(tmp_path / "target") == 0o600


@pytest.mark.parametrize("name", [".", "no/such", "pipe"])
def test_a_private_file_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError):  # noqa: PT011 - which one is the system's business
        write_private(str(tmp_path / name), "x")
    assert sorted(os.listdir(tmp_path)) == ["pipe"]
