"""Scenarios end to end: the analysis agrees with the daemons' logs, message by message, and nothing is left behind."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import ikeanalyze
from ikeanalyze.lab import LabError, machine
from ikeanalyze.lab.campaign.plan import plan_cases
from ikeanalyze.lab.network.namespaces import PREFIX
from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.scenario.expansion import expand_cases, load_cases
from tests.lab.agreement import check
from tests.paths import CAPTURES

pytestmark = pytest.mark.lab
SCENARIOS = CAPTURES / "scenarios"


def leftovers() -> list[str]:
    """Folders of runs, and processes that use one, by their mounts, files or command line."""
    place = tempfile.gettempdir()
    result = [str(path) for path in Path(place).glob(f"*{PREFIX}*")]
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        with suppress(OSError):
            uses = [os.fsdecode((process / name).read_bytes()) for name in ("cmdline", "mountinfo")]
            uses += [os.readlink(link) for link in (process / "fd").iterdir()]
            if any(place in use for use in uses):
                result.append(uses[0])
    return result


def wait_for_leftovers() -> list[str]:
    """What is left when those that were killed at the end have had a minute to die."""
    deadline = time.monotonic() + 60
    while (left := leftovers()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


@pytest.mark.parametrize(("name", "handshakes"), [("mlkem768-psk", 1), ("eap-tls", 1), ("loss20", 10)])
def test_the_report_agrees_with_the_logs(lab, tmp_path, name, handshakes):
    case = load_cases(SCENARIOS / f"{name}.toml")[-1]
    manifest = check(run_case(case, tmp_path, iterations=handshakes))
    established = sum(handshake["established"] for handshake in manifest["handshakes"])
    # of those at 20 % loss, one in some hundred is given up
    assert established == handshakes if handshakes == 1 else established >= handshakes - 2
    for handshake in manifest["handshakes"]:
        for cost in handshake["costs"].values():
            assert cost["rss_after_bytes"] > 1 << 20
            assert cost["processor_ms"] is None or cost["processor_ms"] > 0
    assert wait_for_leftovers() == []


def test_the_first_handshake_takes_as_long_as_the_next(lab, tmp_path):
    (case,) = expand_cases({"iterations": 2, "link": {"rtt_ms": 600}}, "x", "satellite")
    one, two = (handshake["ms"] for handshake in check(run_case(case, tmp_path))["handshakes"])
    # two exchanges
    assert min(one, two) >= 1200
    assert abs(one - two) < 500  # less than a round trip


def test_warm_up_handshakes_come_first_and_are_not_counted(lab, tmp_path):
    (case,) = expand_cases({"iterations": 3, "warm_up": 2}, "x", "warm")
    manifest = check(run_case(case, tmp_path))
    numbers = [(handshake["warm_up"], handshake["number"]) for handshake in manifest["handshakes"]]
    assert numbers == [(True, 1), (True, 2), (False, 1), (False, 2), (False, 3)]
    assert manifest["expected"]["initiator"]["established"] == 5


def test_costs_and_keys_in_one_campaign(lab, tmp_path):
    """Without keys the daemons take less processor time, on both sides."""
    data = {"iterations": 12, "warm_up": 3, "measure": ["keys", "costs"]}
    keys, costs = (check(run_case(case, tmp_path), outcomes=case.logs_keys) for case in expand_cases(data, "x", "both"))
    assert (bool(keys["files"]["keys"]), costs["files"]["keys"]) == (True, None)
    for role in ("initiator", "responder"):
        logged, quiet = (
            sorted(handshake["costs"][role]["processor_ms"] for handshake in manifest["handshakes"])
            for manifest in (keys, costs)
        )
        assert quiet[len(quiet) // 2] < logged[len(logged) // 2]


def test_a_handshake_is_begun_again_until_it_is_established(lab, tmp_path):
    # an attempt is given up when a request and its retransmission are not answered within 0.2 s
    ike = {"retransmit_timeout_s": 0.1, "retransmit_tries": 1, "retransmit_base": 1}
    data = {"iterations": 4, "retry": "until-established", "ike": ike, "link": {"loss_percent": 30, "seed": 7}}
    (case,) = expand_cases(data, "x", "again")
    manifest = json.loads(run_case(case, tmp_path).read_text())
    assert [handshake["established"] for handshake in manifest["handshakes"]] == [True] * 4
    attempts = sum(handshake["attempts"] for handshake in manifest["handshakes"])
    capture = ikeanalyze.read(tmp_path / "again.pcapng").handshakes
    assert attempts == len(capture) > 4


def test_a_refused_handshake_is_not_begun_again(lab, tmp_path):
    data = {"retry": "until-established", "initiator": {"wrong_secret": True}}
    (case,) = expand_cases(data, "x", "refused")
    (handshake,) = check(run_case(case, tmp_path))["handshakes"]
    assert (handshake["attempts"], handshake["why"]) == (1, "AUTHENTICATION_FAILED")


def test_kept_ike_sas_exist_until_the_end(lab, tmp_path):
    (case,) = expand_cases({"iterations": 20, "keep": True, "measure": "costs"}, "x", "kept")
    manifest = json.loads(run_case(case, tmp_path).read_text())
    assert len({handshake["spi_i"] for handshake in manifest["handshakes"]}) == 20
    messages = manifest["expected"]["initiator"]["messages"]
    assert all("INFORMATIONAL" not in message for message in messages[:40])
    for size in manifest["bytes_per_ike_sa"].values():
        assert 1000 < size < 1_000_000


def test_several_handshakes_at_the_same_time(lab, tmp_path):
    (case,) = expand_cases({"iterations": 3, "warm_up": 1, "initiators": 8}, "x", "load")
    manifest = json.loads(run_case(case, tmp_path).read_text())
    assert [(load["number"], load["warm_up"]) for load in manifest["load"]] == [
        *((1, True), (1, False), (2, False), (3, False))
    ]
    capture = ikeanalyze.read(tmp_path / "load.pcapng").handshakes
    for load in manifest["load"]:
        assert load["begun"] == load["established"] == 8
        assert load["per_second"] == pytest.approx(8 / load["seconds"])
    assert sorted(handshake["spi_i"] for handshake in manifest["handshakes"]) == sorted(capture["spi_i"])
    assert manifest["expected"]["responder"]["established"] == 32


def test_what_waits_for_its_turn_on_a_slow_link_is_recorded_and_delays_no_other_handshake(lab, tmp_path):
    # 2.3 kB each way, 0.4 s at this rate, and sent again before the answer can be there
    data = {
        "iterations": 2,
        "ike": {
            "proposals": "aes256gcm16-prfsha384-ecp384-ke1_mlkem1024",
            "retransmit_timeout_s": 0.2,
            "retransmit_base": 1.2,
            "retransmit_tries": 12,
        },
        "link": {"rate_kbps": 48},
    }
    (case,) = expand_cases(data, "x", "slow")
    manifest = check(run_case(case, tmp_path))  # all that the logs have
    initiator = manifest["expected"]["initiator"]
    assert initiator["requests_retransmitted"] > 4
    # of both IKE SAs; what the first one left on the link would have the second one begin several times
    assert initiator["messages"].count("IKE_SA_INIT request 0") <= 4
    assert manifest["links"]["link"]["frames"]["there"]["undelivered"] == 0


@pytest.mark.parametrize("link", [{"rtt_ms": 400}, {"delay_up_ms": 300, "delay_down_ms": 50, "nat": True}])
def test_the_capture_at_the_initiator_has_its_set_up_time(lab, tmp_path, link):
    """The initiator's own clock, and the same messages as at the responder; the path is not in the initiator's time."""
    (case,) = expand_cases({"capture": "both", "link": link}, "x", "both")
    manifest = check(run_case(case, tmp_path))
    files = manifest["files"]
    keys = [tmp_path / files["keys"]]
    far, near = (ikeanalyze.read(tmp_path / files["captures"][host], keys=keys) for host in ("responder", "initiator"))
    assert near.messages["kind"].to_list() == far.messages["kind"].to_list()
    assert set(near.frames["interface"].drop_nulls()) == set(far.frames["interface"].drop_nulls())
    rtt_ms = 400 if "rtt_ms" in link else 350
    row, other = (result.handshakes.row(0, named=True) for result in (near, far))
    assert (row["vantage"], other["vantage"]) == ("initiator", "responder")
    setup_ms, clock_ms = row["setup_ns"] / 1e6, manifest["handshakes"][0]["ms"]
    assert 2 * rtt_ms <= setup_ms <= clock_ms < setup_ms + rtt_ms / 2  # charon answers after the last message
    assert setup_ms == pytest.approx(other["setup_ns"] / 1e6 + rtt_ms, abs=rtt_ms / 4)
    for side in (row, other):
        assert side["path_rtt_ns"] == rtt_ms * 1_000_000
        assert side["initiator_ns"] < rtt_ms / 2 * 1e6


def test_the_same_seed_loses_the_same_frames_again(lab, tmp_path):
    """The daemons' logs have the same messages, retransmissions included, in each run with this seed."""
    timers = {"retransmit_timeout_s": 0.3, "retransmit_base": 1.2, "retransmit_tries": 12}
    data = {"iterations": 5, "ike": timers, "link": {"loss_percent": 25, "burst_frames": 2, "rtt_ms": 20}}
    runs = []
    for run, seed in enumerate((11, 11, 12)):
        (case,) = expand_cases(data | {"link": data["link"] | {"seed": seed}}, "x", f"seed{run}")
        manifest = check(run_case(case, tmp_path))
        assert manifest["links"]["link"]["seed"] == seed
        runs.append([manifest["expected"][role]["messages"] for role in ("initiator", "responder")])
    assert runs[0] == runs[1] != runs[2]


def test_the_manifest_has_the_frames_that_were_lost(lab, tmp_path):
    """charon logs each datagram that it gets; the capture has all, because frames are lost after it."""
    ike = {"proposals": "aes256-sha256-ecp256-ke1_mlkem768", "retransmit_timeout_s": 0.5}
    (case,) = expand_cases({"iterations": 4, "ike": ike, "link": {"loss_percent": 15, "seed": 3}}, "x", "x")
    manifest = check(run_case(case, tmp_path))
    sent = Counter(map(str, ikeanalyze.read(tmp_path / manifest["files"]["capture"]).frames["source"]))
    lost = 0
    for direction, sender, receiver in (("up", "192.0.2.1", "responder"), ("down", "192.0.2.2", "initiator")):
        log = gzip.decompress((tmp_path / manifest["files"]["logs"][receiver]).read_bytes()).decode()
        counts = manifest["links"]["link"]["receivers"][direction]
        assert counts["arrived"] == sent[sender]
        assert counts["arrived"] - counts["lost"] == log.count("received packet: from")
        assert counts["dropped"] == 0
        lost += counts["lost"]
    assert lost > 0


def test_without_a_seed_the_manifest_has_the_one_that_was_used(lab, tmp_path):
    (case,) = expand_cases({"initiator": {"auth": "eap-md5"}, "link": {"loss_up_percent": 5}}, "x", "any")
    manifest = json.loads(run_case(case, tmp_path).read_text())
    assert manifest["links"]["link"]["seed"] >= 1
    assert manifest["links"]["aaa_link"]["seed"] is None
    assert manifest["links"]["aaa_link"]["receivers"] is None  # no frame is lost there


def test_all_certificates_but_the_root_are_sent(lab, tmp_path):
    """By the CERT payloads of IKE_AUTH; those of 4096-bit hosts under 2048-bit authorities have 256-byte signatures."""
    side = {"auth": "rsa", "key_bits": 4096, "authority_bits": 2048}
    data = {"initiator": side | {"chain": 4}, "responder": side | {"chain": 5}}
    (case,) = expand_cases(data, "x", "chains")
    manifest = check(run_case(case, tmp_path))
    assert manifest["certificates_sent"] == {"initiator": 3, "responder": 4}
    files = manifest["files"]
    result = ikeanalyze.read(tmp_path / files["capture"], keys=[tmp_path / files["keys"]])
    (sent,) = result.handshakes["certificates"].to_list()
    keys = [(certificate["side"], certificate["key"], certificate["signature_bytes"]) for certificate in sent]
    assert keys == [
        *[("initiator", "RSA-4096", 256), ("initiator", "RSA-2048", 256), ("initiator", "RSA-2048", 256)],
        *[("responder", "RSA-4096", 256), *[("responder", "RSA-2048", 256)] * 3],
    ]


def test_requests_that_an_aaa_server_gets_again(lab, tmp_path):
    data = {"initiator": {"auth": "eap-md5"}, "aaa_link": {"loss_percent": 20}}
    (case,) = expand_cases(data, "x", "aaa")
    check(run_case(case, tmp_path))


def test_a_full_disk_is_reported_before_a_log_is_cut_off(lab, tmp_path):
    place = tempfile.gettempdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], check=True)
    try:
        with pytest.raises(LabError, match=f"{place}: less than 8 MB left"):
            run_case(load_cases(SCENARIOS / "psk.toml")[0], tmp_path)
    finally:
        subprocess.run(["umount", place], check=True)
    assert wait_for_leftovers() == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("left", [4, 0])
def test_what_was_recorded_before_the_disk_is_full_is_kept(lab, tmp_path, left):
    """With 4 MB left no handshake begins, and the earlier results are complete; on a full disk nothing is written."""
    place = tempfile.gettempdir()

    def fill(*_):
        # The daemons write logs meanwhile, so the free space is not known beforehand.
        with suppress(OSError), open(f"{place}/other", "wb", buffering=0) as other:
            while (free := shutil.disk_usage(place).free - (left << 20)) > 0:
                other.write(bytes(min(free, 1 << 20)))

    (case,) = expand_cases({"iterations": 3}, "x", "full")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", place], check=True)
    try:
        with pytest.raises(LabError, match="MB left") as reported:
            run_case(case, tmp_path, on_handshake=fill)
    finally:
        subprocess.run(["umount", place], check=True)
    if left:
        written = tmp_path / "full.manifest.json"
        assert str(reported.value).endswith(f"partial results: {written}")
        manifest = json.loads(written.read_text())
        assert len(manifest["handshakes"]) == manifest["expected"]["initiator"]["established"] == 1
        assert "less than 8 MB left" in manifest["ended"]
    else:
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("ike", "message"),
    [
        ({"proposals": "aes256-sha256"}, r"does not take aes256-sha256 as .* \(ike\.proposals"),
        (
            {"esp_proposals": "aes256-foo"},
            r"does not take aes256-foo as .* \(ike\.esp_proposals, ike\.responder_esp_proposals\)",
        ),
    ],
)
def test_a_proposal_that_strongswan_refuses_is_reported_with_its_key(lab, tmp_path, ike, message):
    (case,) = expand_cases({"ike": ike}, "x", "refused")
    with pytest.raises(LabError, match=message):
        run_case(case, tmp_path)
    assert wait_for_leftovers() == []


def test_abandoned_ike_sas_stay_half_open_on_a_fast_link(lab, tmp_path):
    data = {"abandoned": 2, "ike": {"cookie_threshold": 1}}
    (case,) = expand_cases(data, "x", "abandoned")
    expected = check(run_case(case, tmp_path))["expected"]
    # the second of those, and what follows, is asked for a COOKIE
    *inits, auth, delete = expected["initiator"]["messages"]
    assert (auth, delete) == ("IKE_AUTH request 1", "INFORMATIONAL request 2")
    # charon may miss a response that arrives before it has registered the IKE SA, and repeats the request
    assert set(inits) == {"IKE_SA_INIT request 0"}
    assert len(inits) >= 5
    assert expected["responder"]["established"] == 1


def test_as_many_abandoned_ike_sas_as_a_scenario_wants(lab, tmp_path):
    (case,) = expand_cases({"abandoned": 12, "iterations": 2, "timeout_s": 5}, "x", "many")
    manifest = check(run_case(case, tmp_path))
    assert [handshake["established"] for handshake in manifest["handshakes"]] == [True, True]
    assert manifest["expected"]["responder"]["messages"].count("IKE_SA_INIT response 0") == 26  # no COOKIE


def test_a_wrong_password_is_an_eap_failure(lab, tmp_path):
    data = {"initiator": {"auth": "eap-md5", "wrong_secret": True}}
    (case,) = expand_cases(data, "x", "wrong")
    (handshake,) = check(run_case(case, tmp_path))["handshakes"]
    assert (handshake["established"], handshake["why"]) == (False, "EAP_FAILURE")


def test_a_recording_that_ends_early_leaves_the_latest_checkpoint(lab, tmp_path, monkeypatch):
    monkeypatch.setattr("ikeanalyze.lab.run.case_run._CHECKPOINT_SECONDS", 0.0)
    (case,) = expand_cases({"iterations": 100, "timeout_s": 1}, "x", "dead")
    manifest = tmp_path / "dead.manifest.json"

    def end(number, count, handshake):
        for child in psutil.Process().children() if manifest.exists() else ():
            if any(word.endswith("dumpcap") for word in child.cmdline()):
                child.kill()

    said = (
        f"the recording ended by itself in handshake [0-9]+; results until the latest checkpoint: {manifest}; --resume"
    )
    with pytest.raises(LabError, match=said):
        run_case(case, tmp_path, on_handshake=end)
    assert json.loads(manifest.read_text())["handshakes"]
    assert wait_for_leftovers() == []


@pytest.mark.parametrize(
    ("process", "message", "kept"),
    [
        ("lab.network.relay", "the emulation of link", True),
        ("charon", "the daemon of the (initiator|responder)", True),
        ("dumpcap", "the recording", False),
    ],
)
def test_a_process_that_ends_early_is_reported(lab, tmp_path, process, message, kept):
    data = {"iterations": 3, "timeout_s": 1, "link": {"rtt_ms": 20}}
    (case,) = expand_cases(data, "x", "dead")
    if process == "lab.network.relay" and machine.has_netem():
        pytest.skip("this kernel has netem: there is no relay")

    def end(number, count, handshake):
        for child in psutil.Process().children():
            if any(word.endswith(process) for word in child.cmdline()):
                child.kill()

    with pytest.raises(LabError, match=f"{message} ended by itself in handshake 2"):
        run_case(case, tmp_path, on_handshake=end)
    assert wait_for_leftovers() == []
    manifest = tmp_path / f"{case.name}.manifest.json"
    assert manifest.exists() == kept
    if not kept:
        assert not list(tmp_path.iterdir())
        return
    recorded = json.loads(manifest.read_text())
    assert re.match(f"{message} ended by itself in handshake 2$", recorded["ended"])
    assert [handshake["established"] for handshake in recorded["handshakes"]] == [True]
    first = ikeanalyze.read(tmp_path / recorded["files"]["capture"]).handshakes.row(0, named=True)
    assert (first["spi_i"], first["spi_r"]) == (
        recorded["handshakes"][0]["spi_i"],
        recorded["handshakes"][0]["spi_r"],
    )
    # when the case is continued, that handshake is made again
    (plan,) = plan_cases([case], tmp_path, resume=True)
    assert list(plan.missing) == [2, 3]
    assert ikeanalyze.read(tmp_path / recorded["files"]["capture"]).handshakes.height == 1
    assert json.loads(manifest.read_text())["ended"] == recorded["ended"]


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


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_run_after_a_killed_one(lab, tmp_path, how):
    with begin("loss20", tmp_path, "-n", "1000") as process:
        wait_for("initiator/run/vici")
        process.send_signal(how)
        process.communicate(timeout=30)
    if how == signal.SIGKILL:
        assert leftovers()
    else:
        assert wait_for_leftovers() == []
    manifest = check(run_case(load_cases(SCENARIOS / "psk.toml")[0], tmp_path))
    assert manifest["handshakes"][0]["established"]
    assert wait_for_leftovers() == []


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
        reported, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert reported == ""
    assert errors.splitlines()[-1] == "ikeanalyze: interrupted"
    assert "Traceback" not in errors
    assert wait_for_leftovers() == []
    assert not (tmp_path / "out").exists()


def test_two_at_the_same_time(lab, tmp_path):
    with begin("psk", tmp_path / "a") as one, begin("ipv6", tmp_path / "b") as other:
        for process in (one, other):
            reported, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
            assert check(Path(reported.strip()))["handshakes"][0]["established"]
    assert wait_for_leftovers() == []


def test_two_into_the_same_folder(lab, tmp_path):
    with begin("ipv6", tmp_path, "-n", "1000") as one:
        wait_for("initiator")
        with begin("psk", tmp_path) as other:
            reported, errors = other.communicate(timeout=60)
        assert (other.returncode, reported) == (1, "")
        assert (
            errors == f"ikeanalyze: {tmp_path}: another run of the lab writes there; choose another folder, or wait\n"
        )
        assert one.poll() is None
        one.send_signal(signal.SIGTERM)
        one.communicate(timeout=60)
    assert not list(tmp_path.glob("psk*"))


def test_a_closed_pipe_for_the_paths_does_not_end_the_run(lab, tmp_path):
    (tmp_path / "x.toml").write_text("link.mtu = [1400, 1500]\n")
    command = [sys.executable, "-m", "ikeanalyze", "lab", "run", str(tmp_path / "x.toml")]
    reader, out = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "out"), "--quiet"], stdout=out, stderr=subprocess.PIPE, text=True
    )
    os.close(out)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((tmp_path / "out").glob("*.manifest.json"))) == 2
