import fcntl
import os
import tempfile

from ikeanalyze.lab.network.namespaces import PREFIX, remove_dead_runs


def test_only_folders_of_dead_runs_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in (f"{PREFIX}dead", f"{PREFIX}live", f"{PREFIX}strange", "other"):
        (tmp_path / name).mkdir()
        if name != f"{PREFIX}strange":
            (tmp_path / name / "lock").touch()
    held = os.open(tmp_path / f"{PREFIX}live" / "lock", os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        assert remove_dead_runs() == [tmp_path / f"{PREFIX}dead"]
    finally:
        os.close(held)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{PREFIX}live", f"{PREFIX}strange", "other"]
