"""Many captures take no more memory than some."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.dataset.made import runs

pytestmark = pytest.mark.alone


def peak(folder, out):
    """MiB that the largest process of a batch had resident."""
    command = [
        sys.executable,
        "-m",
        "ikeanalyze",
        "batch",
        str(folder),
        "-o",
        str(out),
        "--workers",
        "1",
        "--quiet",
    ]
    most = 0
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            try:
                pids = [str(process.pid), *children.read_text().split()]
                for pid in pids:
                    status = Path(f"/proc/{pid}/status").read_text()
                    most = max([most, *(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)])
            except OSError:
                pass  # just ended
            time.sleep(0.01)
    assert process.returncode == 0
    return most / 1024


def test_memory_does_not_grow_with_captures(tmp_path):
    some = peak(runs(tmp_path / "some", 130), tmp_path / "a")  # a whole group
    many = peak(runs(tmp_path / "many", 900), tmp_path / "b")
    assert 40 < some < 250
    assert many - some < 20
