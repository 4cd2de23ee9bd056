"""The line about the compiled core for large captures."""

import os
import subprocess
import sys

import pytest

from tests.paths import CAPTURES, ROOT

REMARK = "large.pcap has 200 MB, which the compiled core reads in less time"


def report(path, *options, core="0"):
    command = [sys.executable, "-m", "ikeanalyze", "report", str(path), *options]
    environment = os.environ | {"IKEANALYZE_CORE": core}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stderr


@pytest.fixture
def large(tmp_path):
    """A capture of more than 200 MB, most of which is a hole."""
    path = tmp_path / "large.pcap"
    path.write_bytes((CAPTURES / "psk-classic.pcap").read_bytes())
    os.truncate(path, 200_000_001)
    return path


def test_a_large_capture_without_the_core_is_remarked(large):
    (line,) = [line for line in report(large).splitlines() if "core" in line]
    assert REMARK in line
    assert line.endswith("It is left out, because IKEANALYZE_CORE is 0: see docs/install.md")


def test_it_is_quiet_otherwise(large):
    assert REMARK not in report(large, "--quiet")
    os.truncate(large, 200_000_000)
    assert REMARK not in report(large)


def test_verbose_says_whether_the_core_is_in_use():
    assert "s without the compiled core" in report(CAPTURES / "psk-classic.pcap", "--verbose")
