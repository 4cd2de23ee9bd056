"""Runs that a signal ends: the complete handshakes are kept, and agree with the daemons' logs."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ikeanalyze
from ikeanalyze.lab.manifest import RecordingFiles, complete_checkpoint
from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.scenario.expansion import expand_cases, load_cases
from tests.lab.agreement import check

pytestmark = pytest.mark.lab

LOSSY = "iterations = 500\nlink.loss_percent = 20\nike.retransmit_timeout_s = 0.3\n"
#: Nothing is answered, so that the daemon waits for as long as `timeout_s`.
SILENT = "iterations = 500\ntimeout_s = 300\nlink.loss_percent = {loss}\nike.retransmit_timeout_s = 60\n"


def begin(out: Path, text: str, *options: str) -> subprocess.Popen[str]:
    (out.parent / "x.toml").write_text(text)
    command = [sys.executable, "-m", "ikeanalyze", "lab", "run", str(out.parent / "x.toml"), "-o", str(out), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_handshakes(process: subprocess.Popen[str], count: int) -> None:
    assert process.stderr is not None
    for _ in range(count):
        assert process.stderr.readline(), "the run ended"


def is_in_capture(path: Path) -> bool:
    """Whether the capture has the handshakes of its manifest, and no others."""
    manifest = json.loads(path.read_text())
    spis = [handshake["spi_i"] for handshake in manifest["handshakes"] if handshake["spi_i"]]
    seen = ikeanalyze.read(path.parent / manifest["files"]["capture"]).handshakes["spi_i"].to_list()
    return len(set(spis)) == len(spis) and set(spis) <= set(seen) and len(seen) == len(manifest["handshakes"])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_the_complete_handshakes(lab, tmp_path, how):
    with begin(tmp_path / "out", LOSSY) as process:
        wait_for_handshakes(process, 2)
        time.sleep(random.uniform(0, 2))
        process.send_signal(how)
        began = time.monotonic()
        printed, errors = process.communicate(timeout=60)
        assert time.monotonic() - began < 5
    path = tmp_path / "out" / "x.manifest.json"
    assert (process.returncode, printed) == (130, ""), errors
    assert f"x: interrupted; partial results: {path}" in errors
    manifest = check(path)
    assert manifest["ended"] == f"interrupted by {how.name}"
    assert len(manifest["handshakes"]) >= 2
    assert is_in_capture(path)


def test_a_handshake_that_waits_for_its_peer_does_not_delay_ctrl_c(lab, tmp_path):
    with begin(tmp_path / "out", SILENT.format(loss=60)) as process:
        time.sleep(6)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        process.communicate(timeout=60)
        assert time.monotonic() - began < 5
    assert process.returncode == 130


def test_a_killed_run_leaves_the_latest_checkpoint(lab, tmp_path):
    out = tmp_path / "out"
    with begin(out, LOSSY) as process:
        deadline = time.monotonic() + 60
        while not (out / "x.manifest.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(random.uniform(0, 1))
        process.kill()
        process.communicate(timeout=60)
    path = out / "x.manifest.json"
    stored = json.loads(path.read_text())["handshakes"]
    (case,) = load_cases(tmp_path / "x.toml")
    complete_checkpoint(case, RecordingFiles(out, "x"))
    manifest = check(path)
    assert manifest["handshakes"] == stored
    assert manifest["ended"] == "interrupted: the run was killed"
    assert is_in_capture(path)
    assert len(manifest["handshakes"]) == manifest["handshakes"][-1]["number"]


def test_the_end_of_a_run_with_checkpoints_is_whole(lab, tmp_path, monkeypatch):
    monkeypatch.setattr("ikeanalyze.lab.run.case_run._CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("ikeanalyze.lab.run.case_run._CHECKPOINT_SHARE", 0)
    (case,) = expand_cases({"iterations": 8}, "x", "often")
    seen = []

    def look(*_):
        time.sleep(0.4)
        seen.append((tmp_path / "often.manifest.json").exists())

    path = run_case(case, tmp_path, on_handshake=look)
    assert seen[-1]
    manifest = check(path)
    assert (manifest["ended"], len(manifest["handshakes"])) == (None, 8)
    assert not list(tmp_path.glob("*.tmp"))
