"""Scenarios end to end: what we read in the capture agrees with the daemons' logs, message by message, and nothing stays behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from ikeanalyze.lab import LabError, machine, scenario
from ikeanalyze.lab.run import run
from ikeanalyze.lab.space import PREFIX
from lab.agreement import check

pytestmark = pytest.mark.lab
SCENARIOS = Path(__file__).parent.parent.parent / "captures" / "scenarios"


def leftovers() -> list[str]:
    """Folders of runs, and processes that have something to do with one: by their mounts, files or command line."""
    place = tempfile.gettempdir()
    found = [str(path) for path in Path(place).glob(f"*{PREFIX}*")]
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        with suppress(OSError):
            told = (process / "mountinfo").read_text() + (process / "cmdline").read_text()
            told += "".join(os.readlink(one) for one in (process / "fd").iterdir())
            if place in told:
                found.append((process / "cmdline").read_text())
    return found


@pytest.mark.parametrize(("name", "handshakes"), [("mlkem768-psk", 1), ("eap-tls", 1), ("loss20", 10)])
def test_the_report_agrees_with_the_logs(lab, tmp_path, name, handshakes):
    case = scenario.load(SCENARIOS / f"{name}.toml")[-1]
    manifest = check(run(case, tmp_path, iterations=handshakes))
    assert sum(one["established"] for one in manifest["handshakes"]) == handshakes
    for one in manifest["handshakes"]:
        for cost in one["costs"].values():
            assert cost["rss_after_bytes"] > 1 << 20
            assert cost["processor_ms"] is None or cost["processor_ms"] > 0
    assert not leftovers()


def test_the_first_handshake_takes_as_long_as_the_next(lab, tmp_path):
    (case,) = scenario.cases({"iterations": 2, "link": {"rtt_ms": 600}}, "x", "satellite")
    one, two = (handshake["ms"] for handshake in check(run(case, tmp_path))["handshakes"])
    # two exchanges
    assert min(one, two) >= 1200
    assert abs(one - two) < 200


def test_abandoned_ike_sas_stay_half_open_on_a_fast_link(lab, tmp_path):
    data = {"abandoned": 2, "ike": {"cookie_threshold": 1}}
    (case,) = scenario.cases(data, "x", "abandoned")
    said = check(run(case, tmp_path))["expected"]
    # the second of those, and what follows, is asked for a COOKIE
    messages = ["IKE_SA_INIT request 0"] * 5 + ["IKE_AUTH request 1", "INFORMATIONAL request 2"]
    assert said["initiator"]["messages"] == messages
    assert said["responder"]["established"] == 1


@pytest.mark.parametrize(
    ("what", "said"), [("lab.relay", "the emulation of link"), ("dumpcap", "the recording")]
)
def test_what_ends_by_itself_is_noticed(lab, tmp_path, what, said):
    data = {"iterations": 3, "timeout_s": 1, "link": {"rtt_ms": 20}}
    (case,) = scenario.cases(data, "x", "dead")
    if what == "lab.relay" and machine.netem():
        pytest.skip("this kernel has netem: there is no relay")

    def end(number, count, handshake):
        for child in psutil.Process().children():
            if any(word.endswith(what) for word in child.cmdline()):
                child.kill()

    with pytest.raises(LabError, match=f"{said} ended by itself in handshake 2"):
        run(case, tmp_path, tell=end)
    assert not list(tmp_path.iterdir())
    assert not leftovers()


def begin(scenario_name: str, out: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ikeanalyze", "lab", "run", str(SCENARIOS / f"{scenario_name}.toml")]
    return subprocess.Popen(
        [*command, "-o", str(out), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(pattern: str) -> None:
    """Until a run has got that far in its folder."""
    deadline = time.monotonic() + 20
    while not list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{pattern}")):
        assert time.monotonic() < deadline, pattern
        time.sleep(0.01)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_after_a_killed_one(lab, tmp_path, how):
    with begin("loss20", tmp_path, "-n", "1000") as process:
        wait_for("initiator/run/vici")
        process.send_signal(how)
        process.communicate(timeout=30)
    assert bool(leftovers()) == (how == signal.SIGKILL)
    manifest = check(run(scenario.load(SCENARIOS / "psk.toml")[0], tmp_path))
    assert manifest["handshakes"][0]["established"]
    assert not leftovers()


@pytest.mark.parametrize(
    "moment",
    ["lock", "path/relay", "aaa/run/users", "responder/run/vici", "responder/capture.pcapng"],
)
def test_ctrl_c_at_any_moment_even_twice_leaves_nothing(lab, tmp_path, moment):
    (tmp_path / "x.toml").write_text(
        'iterations = 50\ninitiator.auth = "eap-md5"\nlink.rtt_ms = 20\nlink.loss_percent = 5\n'
    )
    command = [sys.executable, "-m", "ikeanalyze", "lab", "run", str(tmp_path / "x.toml")]
    with subprocess.Popen(
        [*command, "-o", str(tmp_path / "out")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for(moment)
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said == ""
    assert errors.splitlines()[-1] == "ikeanalyze: interrupted"
    assert "Traceback" not in errors
    assert not leftovers()
    assert list((tmp_path / "out").iterdir()) == []


def test_two_at_the_same_time(lab, tmp_path):
    with begin("psk", tmp_path / "a") as one, begin("ipv6", tmp_path / "b") as other:
        for process in (one, other):
            said, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
            assert check(Path(said.strip()))["handshakes"][0]["established"]
    assert not leftovers()


def test_two_into_the_same_folder(lab, tmp_path):
    with begin("ipv6", tmp_path, "-n", "8") as one:
        wait_for("initiator")
        with begin("psk", tmp_path) as other:
            said, errors = other.communicate(timeout=60)
        assert (other.returncode, said) == (1, "")
        assert (
            errors
            == f"ikeanalyze: {tmp_path}: another run of the lab writes there; choose another folder, or wait\n"
        )
        one.communicate(timeout=60)
    assert one.returncode == 0
    assert not list(tmp_path.glob("psk*"))
