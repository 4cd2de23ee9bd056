"""Run commands connected by pipes, and print what they took: python benchmarks/launch.py < REQUEST

The request is JSON, {"commands", "stdin"}: lists of words, and the path of what the first command reads or null. So is
the answer, {"seconds", "processor_s", "peak_bytes", "error"}: the peak of the largest process, and the last line that
was written to standard error if a command failed, otherwise null.

This is a small program of its own, because Linux counts in the peak of a process the size of the one that started it.
It imports nothing but the standard library.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from typing import Any


def launch(commands: list[list[str]], stdin: str | None) -> dict[str, Any]:
    """Run the commands, and return the answer."""
    processes: list[subprocess.Popen[bytes]] = []
    with (
        tempfile.TemporaryFile() as errors,
        open(stdin, "rb") if stdin else nullcontext(subprocess.DEVNULL) as file,
        open(os.devnull, "wb") as nowhere,
    ):
        begin = time.perf_counter()
        source: Any = file
        try:
            for number, command in enumerate(commands, 1):
                target: Any = nowhere if number == len(commands) else subprocess.PIPE
                process = subprocess.Popen(command, stdin=source, stdout=target, stderr=errors)
                processes.append(process)
                if number > 1:
                    source.close()
                source = process.stdout
        except OSError as error:
            for process in processes:
                process.kill()
                process.wait()
            return {"seconds": 0, "processor_s": 0, "peak_bytes": 0, "error": str(error)}
        peak, failed, processor_s = 0, False, 0.0
        for process in processes:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            failed |= process.returncode != 0
            processor_s += usage.ru_utime + usage.ru_stime
            peak = max(peak, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
        seconds, message = time.perf_counter() - begin, None
        if failed:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            message = lines[-1] if lines else "failed"
        return {"seconds": seconds, "processor_s": processor_s, "peak_bytes": peak, "error": message}


if __name__ == "__main__":
    json.dump(launch(**json.load(sys.stdin)), sys.stdout)
