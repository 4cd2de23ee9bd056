"""Devices and pipes that never end: a command that finds nothing in them ends itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import CAPTURES

pytestmark = pytest.mark.alone

CAPTURE = str(CAPTURES / "psk-classic.pcap")


def run(*arguments, stdin=subprocess.DEVNULL):
    """A command that hangs fails the test: it takes a second or two."""
    command = [sys.executable, "-m", "ikeanalyze", *arguments]
    return subprocess.run(command, stdin=stdin, capture_output=True, text=True, timeout=300)


def test_a_device_is_not_a_capture():
    done = run("report", "/dev/zero")
    assert (done.returncode, done.stderr) == (1, "ikeanalyze: /dev/zero: not a pcap or pcapng file\n")


def test_a_device_has_no_keys():
    done = run("keys", "/dev/zero")
    assert done.returncode == 1
    assert done.stderr.startswith("ikeanalyze: /dev/zero: no key in its first 256 MiB")


def test_a_device_as_keys_costs_no_capture():
    done = run("report", CAPTURE, "--keys", "/dev/zero")
    assert done.returncode == 3
    assert "Handshake 1: completed" in done.stdout
    assert done.stderr.startswith("ikeanalyze: /dev/zero: no key in its first 256 MiB")


@pytest.fixture
def endless(tmp_path: Path):
    """A named pipe to which a process writes text for ever: one line, whose end nothing waits for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = subprocess.Popen(["sh", "-c", f"exec tr '\\0' x < /dev/zero > {pipe}"])
    yield str(pipe)
    writer.kill()
    writer.wait()


def test_a_pipe_is_not_a_capture(endless):
    done = run("report", endless)
    assert done.returncode == 1
    assert done.stderr == f"ikeanalyze: {endless}: not a pcap or pcapng file; it looks like text\n"


def test_a_pipe_has_no_keys(endless):
    done = run("keys", endless)
    assert done.returncode == 1
    assert f"{endless}: no key in its first" in done.stderr
