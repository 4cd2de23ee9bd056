import os
import stat

import pytest

from ikeanalyze.whole_file import is_special, replaced


def write(path, text, error=None):
    with replaced(str(path)) as temporary:
        temporary.write_text(text)
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt()])
def test_whole_or_not_at_all(tmp_path, error):
    path = tmp_path / "out"
    with pytest.raises(type(error)):
        write(path, "first", error)
    assert os.listdir(tmp_path) == []
    write(path, "second")
    with pytest.raises(type(error)):
        write(path, "third", error)
    assert (path.read_text(), os.listdir(tmp_path)) == ("second", ["out"])


@pytest.mark.parametrize("letter", ["a", "\u00e4", "\u732b"])
def test_a_name_as_long_as_a_name_can_be(tmp_path, letter):
    path = tmp_path / (letter * (255 // len(letter.encode())))
    write(path, "x")
    assert path.read_text() == "x"


def test_a_link_is_written_through_and_permissions_stay(tmp_path):
    (tmp_path / "real").touch()
    (tmp_path / "real").chmod(0o604)
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o604


def test_what_the_system_refuses(tmp_path):
    with pytest.raises(IsADirectoryError):
        write(tmp_path, "x")
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "no" / "out", "x")


def test_devices_and_pipes(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert is_special("/dev/null")
    assert is_special(str(tmp_path / "pipe"))
    assert not is_special(str(tmp_path))
    assert not is_special(str(tmp_path / "nothing"))
