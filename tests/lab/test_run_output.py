import fcntl
import os
from pathlib import Path

import pytest

from ikeanalyze.lab import LabError
from ikeanalyze.lab.run.output_folder import exclusive_output_dir


def test_a_folder_is_made_and_kept_with_what_is_written(tmp_path):
    with exclusive_output_dir(tmp_path / "a" / "b"):
        assert os.listdir(tmp_path / "a" / "b") == []
        (tmp_path / "a" / "b" / "file").touch()
    assert os.listdir(tmp_path / "a" / "b") == ["file"]


def test_folders_that_were_made_for_nothing_are_removed(tmp_path):
    with pytest.raises(KeyboardInterrupt), exclusive_output_dir(tmp_path / "a" / "b"):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_an_empty_folder_that_existed_before_stays(tmp_path):
    with exclusive_output_dir(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


def test_a_folder_that_was_replaced_while_it_was_locked_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "out"

    def replace_folder(_descriptor, _operation):
        folder.rename(tmp_path / "removed")
        folder.mkdir()

    monkeypatch.setattr(fcntl, "flock", replace_folder)
    with pytest.raises(LabError, match="another run"), exclusive_output_dir(folder):
        pass


def test_a_second_run_in_the_same_folder_is_refused(tmp_path):
    with exclusive_output_dir(tmp_path), pytest.raises(LabError, match="another run"), exclusive_output_dir(tmp_path):
        pass
    with exclusive_output_dir(tmp_path):  # free again
        other = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.close(other)


def test_what_is_no_folder_is_said(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(LabError, match=r"file: is a file\. Name a folder with -o"),
        exclusive_output_dir(tmp_path / "file"),
    ):
        pass
    with (
        pytest.raises(LabError, match=r"below: cannot be written to \(Not a directory\)\. Name another folder with -o"),
        exclusive_output_dir(tmp_path / "file" / "below"),
    ):
        pass
    with (
        pytest.raises(LabError, match=r"/proc/nothing: cannot be written to \(No such file"),
        exclusive_output_dir(Path("/proc/nothing")),
    ):
        pass
