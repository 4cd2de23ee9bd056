"""Campaigns of several cases: at once, interrupted and continued."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import ikeanalyze
from tests.lab.agreement import check

pytestmark = pytest.mark.lab

SCENARIO = "iterations = 6\nlink.loss_percent = [0, 30]\nike.retransmit_timeout_s = 0.3\n"


def begin(folder: Path, *options: str) -> subprocess.Popen[str]:
    (folder / "x.toml").write_text(SCENARIO)
    command = [sys.executable, "-m", "ikeanalyze", "lab", "run", str(folder / "x.toml"), "-o", str(folder / "out")]
    return subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_complete(paths: list[Path]) -> None:
    """Each case has each of its handshakes once, and each capture those of its manifest."""
    numbers: dict[str, list[int]] = {}
    spis = []
    for path in paths:
        manifest = check(path)
        seen = ikeanalyze.read(path.parent / manifest["files"]["capture"]).handshakes["spi_i"].to_list()
        assert len(seen) == len(manifest["handshakes"])
        numbers.setdefault(manifest["name"], []).extend(handshake["number"] for handshake in manifest["handshakes"])
        spis += seen
    assert {name: sorted(found) for name, found in numbers.items()} == {
        "x_loss-percent-0": [1, 2, 3, 4, 5, 6],
        "x_loss-percent-30": [1, 2, 3, 4, 5, 6],
    }
    assert len(set(spis)) == 12


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_campaign_that_is_killed_and_continued_is_complete(lab, tmp_path, jobs):
    for _ in range(3):
        with begin(tmp_path, "--resume", "--jobs", jobs) as process:
            time.sleep(random.uniform(1, 12))
            process.send_signal(random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
            process.communicate(timeout=60)
    with begin(tmp_path, "--resume", "--jobs", jobs) as process:
        printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    paths = [Path(line) for line in printed.splitlines()]
    assert sorted(paths) == sorted((tmp_path / "out").glob("*.manifest.json"))
    check_complete(paths)
    assert len(list((tmp_path / "out").glob("*.pcapng"))) == len(paths)


def test_several_cases_at_once(lab, tmp_path):
    with begin(tmp_path, "--jobs", "2") as process:
        printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    paths = [Path(line) for line in printed.splitlines()]
    check_complete(paths)
    assert {json.loads(path.read_text())["machine"]["jobs"] for path in paths} == {2}


def test_interleaved_cases_take_turns(lab, tmp_path):
    with begin(tmp_path, "--interleave") as process:
        printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    paths = [Path(line) for line in printed.splitlines()]
    check_complete(paths)
    machines = [json.loads(path.read_text())["machine"] for path in paths]
    assert [(machine["jobs"], machine["interleaved"]) for machine in machines] == [(1, True)] * 2
    messages = pl.concat(
        ikeanalyze.read(path.with_name(path.name.replace(".manifest.json", ".pcapng"))).messages for path in paths
    )
    # a responder deletes an IKE SA that its initiator gave up when it stops, after the last handshake
    messages = messages.filter(pl.col("sender") == "initiator")
    spans = messages.group_by("capture", "handshake").agg(pl.min("first_ns"), pl.max("last_ns")).sort("first_ns")
    captures = spans["capture"].cast(pl.String).to_list()
    assert captures[::2] == [captures[0]] * 6
    assert captures[1::2] == [captures[1]] * 6
    assert captures[0] != captures[1]
    assert (spans["last_ns"][:-1] < spans["first_ns"][1:]).all()  # deleted before the next one begins


def test_interleaving_excludes_several_jobs(tmp_path):
    with begin(tmp_path, "--interleave", "--jobs", "2") as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--jobs" in errors


def test_other_settings_than_recorded_are_one_line(lab, tmp_path):
    with begin(tmp_path, "-n", "1") as process:
        process.communicate(timeout=120)
    (tmp_path / "x.toml").write_text(SCENARIO.replace("0.3", "0.4"))
    command = [sys.executable, "-m", "ikeanalyze", "lab", "run", str(tmp_path / "x.toml"), "--resume"]
    done = subprocess.run([*command, "-o", str(tmp_path / "out")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "ike.retransmit_timeout_s was 0.3 and is 0.4" in done.stderr
