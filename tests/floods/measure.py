"""Measures commands as processes: processor time and peak memory."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took."""

    seconds: float  # of processor time
    peak: int  # largest resident size in bytes


def measure(command: Sequence[str]) -> Cost:
    """Run `ikeanalyze` with these arguments, which must succeed."""
    return measure_program([sys.executable, "-m", "ikeanalyze", *command])


def measure_program(command: Sequence[str]) -> Cost:
    """Run a program, which must succeed.

    Its peak is that of the program alone, however large the process is that starts it.
    """
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            peak = max(peak, read_peak(process.pid))
            time.sleep(0.02)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"exit status {process.returncode} of {' '.join(command)}")
    return Cost(usage.ru_utime + usage.ru_stime, peak)


def read_peak(pid: int) -> int:
    """The largest resident size of a process so far in bytes; 0: it has ended.

    Its resource usage, as `wait4` returns it, begins with the size of the process that started it.
    """
    try:
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(peak[1]) * 1024 if peak else 0
