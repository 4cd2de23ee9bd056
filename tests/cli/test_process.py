"""The command as a process of its own: pipes, signals, devices, and how fast it starts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The command line with captures read by hand: 2,000 handshakes, more than a pipe holds.
STAND_IN = """
import sys, types
from tests.render import handmade
module = types.ModuleType("ikeanalyze.analysis.read")
def read(paths, **options):
    if paths == ["slow"]:
        import time
        print("reading", flush=True)
        time.sleep(30)
    return handmade.analysis([1] * 2000)
module.read = read
sys.modules["ikeanalyze.analysis.read"] = module
from ikeanalyze.cli import main
main()
"""


def run(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ikeanalyze", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, **options)


def stand_in(*arguments: str, **options) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", STAND_IN, *arguments],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.mark.parametrize(
    "arguments", [["--help"], ["report", "--help"], ["ladder", "-h"], ["doctor", "--help"]]
)
def test_help(arguments):
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ikeanalyze")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_version():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("ikeanalyze ")


@pytest.mark.parametrize("arguments", [["rep"], ["--nonsense"], ["report"], ["ladder", "a", "b"]])
def test_wrong_usage(arguments):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ikeanalyze: ")
    assert len(done.stderr.splitlines()) == 1


def test_no_arguments_is_help():
    done = run()
    assert done.returncode == 2
    assert "Usage: ikeanalyze" in done.stdout + done.stderr


def test_head_is_no_error():
    process = stand_in("report", "x", "--format", "jsonl", stdout=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0


def test_interrupt():
    process = stand_in("report", "slow", stdout=subprocess.PIPE)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.stderr.read() == b"ikeanalyze: interrupted\n"
    assert process.wait(timeout=60) == 130


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_full_disk():
    with open("/dev/full", "wb") as full:
        process = stand_in("report", "x", "--format", "json", stdout=full)
        told = process.stderr.read()
    assert process.wait(timeout=60) == 1
    assert told.startswith(b"ikeanalyze: standard output: cannot be written: No space left on device")
    assert len(told.splitlines()) == 1


def test_starting_is_fast():
    code = "import sys, ikeanalyze; print({'polars', 'numpy', 'typer', 'rich'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
    code = "import sys, ikeanalyze.cli; print({'polars', 'numpy', 'rich', 'dpkt'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        run("--help")
        best = min(best, time.perf_counter() - start)
    assert best < 0.25


def test_closed_standard_streams():
    process = stand_in("report", "x", preexec_fn=lambda: os.close(1))
    assert process.stderr.read().startswith(b"ikeanalyze: standard output: is closed.")
    assert process.wait(timeout=60) == 1
