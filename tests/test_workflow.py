"""The workflow of docs/ike-gate.yml: its commands run here as GitHub runs them, with recorded captures."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.paths import LAB_CAPTURES
from tests.readme import ROOT

STEPS = yaml.safe_load((ROOT / "docs" / "ike-gate.yml").read_text())["jobs"]["handshakes"]["steps"]
COMMANDS = {step["name"]: step["run"] for step in STEPS if "run" in step}
INSTALL, SUCCESS, BASELINE, PAGE = COMMANDS


@pytest.fixture
def repository(tmp_path):
    """A repository with captures of 10 handshakes each, and the command `ikeanalyze`."""
    for name, loss in (("baseline", 5), ("captures", 5), ("worse", 20)):
        (tmp_path / name).mkdir()
        shutil.copy(LAB_CAPTURES / f"loss_loss-percent-{loss}.pcapng", tmp_path / name / "run.pcapng")
    program = tmp_path / "bin" / "ikeanalyze"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ikeanalyze "$@"\n')
    program.chmod(0o755)
    return tmp_path


def run(repository: Path, name: str) -> subprocess.CompletedProcess[str]:
    path = f"{repository / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "CI": "true"}
    # as https://docs.github.com/actions describes the shell of a step on Linux
    command = ["bash", "-e", "-c", COMMANDS[name]]
    return subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, timeout=120)


def test_it_installs_from_a_clone():
    assert COMMANDS[INSTALL] == "pip install ./ikeanalyze"
    clone = next(step["with"] for step in STEPS if "repository" in step.get("with", {}))
    assert clone["path"] == "ikeanalyze"


def test_captures_like_the_baseline_pass(repository):
    for name in (SUCCESS, BASELINE, PAGE):
        done = run(repository, name)
        assert done.returncode == 0, done.stderr
    suites = ET.parse(repository / "handshakes.xml").getroot()
    assert (suites.get("tests"), suites.get("failures")) == ("10", "0")
    assert (repository / "handshakes.html").read_text().startswith("<!DOCTYPE html>")


def test_a_loss_rate_of_20_percent_is_worse_than_5(repository):
    shutil.rmtree(repository / "captures")
    (repository / "worse").rename(repository / "captures")
    done = run(repository, BASELINE)
    assert done.returncode == 4
    assert "version=captures: setup_ms 601.3 instead of 36.15" in done.stderr


def test_a_refused_handshake_fails_the_first_step(repository):
    shutil.copy(LAB_CAPTURES / "no-proposal.pcapng", repository / "captures")
    done = run(repository, SUCCESS)
    assert done.returncode == 4
    assert "captures/no-proposal.pcapng: handshake 1: failed: NO_PROPOSAL_CHOSEN" in done.stderr


def test_no_captures_at_all_fail(repository):
    os.remove(repository / "captures" / "run.pcapng")
    assert run(repository, SUCCESS).returncode == 1
