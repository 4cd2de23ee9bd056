import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from ikeanalyze.render.core.output import OutputError, check_output, open_output


def test_the_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "out.json"
    path.write_text("old")
    with open_output(str(path)) as out:
        out.write("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_long_names_are_written(tmp_path):
    path = tmp_path / ("\u00e4" * 127)
    with open_output(str(path)) as out:
        out.write("x")
    assert path.read_text() == "x"


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "out.json"
    path.write_text("old")
    with pytest.raises(TypeError), open_output(str(path)) as out:
        out.writelines(["new", None])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_of_a_file_are_kept(tmp_path):
    path = tmp_path / "out"
    before = os.umask(0o027)
    try:
        with open_output(str(path)) as out:
            out.write("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    with open_output(str(path)) as out:
        out.write("y")
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with open_output(str(tmp_path / "link")) as out:
        out.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_devices_are_written_directly():
    with open_output("/dev/null") as out:
        out.write("x")
    assert Path("/dev/null").is_char_device()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_device_is_an_error():
    with (
        pytest.raises(OutputError, match="/dev/full: cannot be written: No space left"),
        open_output("/dev/full") as out,
    ):
        out.write("x")


def test_standard_output_is_written(capsys):
    with open_output("-") as out:
        assert out is sys.stdout
        out.write("x")
    assert capsys.readouterr().out == "x"


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(OutputError, match=r"the directory .* does not exist"):
        check_output(str(tmp_path / "no" / "out"))
    with pytest.raises(OutputError, match="is a directory"):
        check_output(str(tmp_path))
    (tmp_path / "file").touch()
    for directory in (False, True):
        with pytest.raises(OutputError, match=r"out: .*/file is a file, not a directory\. Name another output with -o"):
            check_output(str(tmp_path / "file" / "out"), directory=directory)
    with pytest.raises(OutputError, match="is a file"):
        check_output(str(tmp_path / "file"), directory=True)
    for directory in (False, True):  # as of a variable of the shell that is not set
        with pytest.raises(OutputError, match=r'^"": is not the name of an output\. Name one with --figures$'):
            check_output("", directory=directory, option="--figures")
    check_output("-")
    check_output(str(tmp_path / "new" / "deep"), directory=True)


def test_a_missing_permission_is_an_error():
    # root may write anywhere, so root becomes somebody else for a moment
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.setresuid(65534, 65534, 0)
        try:
            with pytest.raises(OutputError, match="no permission"):
                check_output(str(Path(folder) / "out"))
        finally:
            if root:
                os.setresuid(0, 0, 0)
            Path(folder).chmod(0o755)
