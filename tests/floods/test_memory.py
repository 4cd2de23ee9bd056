"""What a large flood takes in memory."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.floods.generate import half_open

pytestmark = [pytest.mark.alone, pytest.mark.large]


def read_peak(pid: int) -> int:
    """The largest resident size of a process so far in bytes; 0: it has ended.

    Its resource usage, as `wait4` returns it, begins with the size of the process that started it.
    """
    try:
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(peak[1]) * 1024 if peak else 0


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("flood") / "flood.pcap"
    path.write_bytes(half_open(1_000_000))
    return path


@pytest.mark.parametrize("form", ["terminal", "csv"])
def test_a_million_half_open_handshakes(capture, form):
    command = [sys.executable, "-m", "ikeanalyze", "report", str(capture), "--quiet", "--format", form]
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, read_peak(process.pid))
            time.sleep(0.02)
    assert process.returncode == 0
    assert 0.5e9 < peak < 1e9  # 0.90 to 0.94 GB when this was written
