"""Scenarios end to end: what we read in the capture agrees with the daemons' logs, message by message, and nothing stays behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from ikeanalyze.lab import scenario
from ikeanalyze.lab.run import run
from ikeanalyze.lab.space import PREFIX
from lab.agreement import check

pytestmark = pytest.mark.lab
SCENARIOS = Path(__file__).parent.parent.parent / "captures" / "scenarios"


def leftovers() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))


@pytest.mark.parametrize(("name", "handshakes"), [("mlkem768-psk", 1), ("eap-tls", 1), ("loss20", 10)])
def test_the_report_agrees_with_the_logs(lab, tmp_path, name, handshakes):
    case = scenario.load(SCENARIOS / f"{name}.toml")[-1]
    manifest = check(run(case, tmp_path))
    assert sum(one["established"] for one in manifest["handshakes"]) == handshakes
    for one in manifest["handshakes"]:
        for cost in one["costs"].values():
            assert cost["rss_after_bytes"] > 1 << 20
            assert cost["processor_ms"] is None or cost["processor_ms"] > 0
    assert not leftovers()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_after_a_killed_one(lab, tmp_path, how):
    command = [
        sys.executable,
        "-m",
        "ikeanalyze",
        "lab",
        "run",
        str(SCENARIOS / "loss20.toml"),
        "-n",
        "1000",
        "-o",
        str(tmp_path),
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while (
        not list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*/initiator/run/vici"))
        and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    assert leftovers()
    os.kill(process.pid, how)
    process.wait(30)
    if how == signal.SIGTERM:
        assert not leftovers()
    manifest = check(run(scenario.load(SCENARIOS / "psk.toml")[0], tmp_path))
    assert manifest["handshakes"][0]["established"]
    assert not leftovers()
