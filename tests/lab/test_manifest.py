import gzip
import json
import resource
from pathlib import Path

import pytest

from ikeanalyze.keys.detect import read_keys
from ikeanalyze.lab import LabError, manifest
from ikeanalyze.lab.manifest import ActionResult, RecordedLabHandshake, ResourceCost
from ikeanalyze.lab.scenario.expansion import expand_cases
from tests.paths import LAB_CAPTURES

RECORDED = LAB_CAPTURES


@pytest.fixture
def recorded(tmp_path):
    """Capture and logs of a recording, as they are when daemons have ended."""
    logs = {}
    for role in ("responder", "initiator"):
        logs[role] = tmp_path / f"{role}.log"
        logs[role].write_bytes(gzip.decompress((RECORDED / f"psk.{role}.log.gz").read_bytes()))
    return {"captures": {"responder": RECORDED / "psk.pcapng"}, "logs": logs}


def handshake() -> RecordedLabHandshake:
    cost = ResourceCost(10.0, 0.0, 4.2, 1 << 20, 2 << 20)
    return RecordedLabHandshake(
        1, True, True, None, 8.5, "ab" * 8, "cd" * 8, {"initiator": cost}, [ActionResult("ping", True, None)]
    )


def write(out: Path, recorded, **data) -> Path:
    (case,) = expand_cases(data, "x", "some")
    out.mkdir(exist_ok=True)
    results = manifest.CaseRecording(
        handshakes=[handshake()], ended=None, machine={"date": "2026-01-01"}, links={}, dropped=0, **recorded
    )
    return manifest.RecordingWriter(case, manifest.RecordingFiles(out, case.name)).finish(results)


def test_what_is_kept(tmp_path, recorded):
    path = write(tmp_path / "out", recorded)
    reported = json.loads(path.read_text())
    files = reported["files"]
    names = [files["capture"], files["keys"], *files["logs"].values(), path.name]
    assert {item.name for item in path.parent.iterdir()} == set(names)
    assert (path.parent / files["capture"]).read_bytes() == recorded["captures"]["responder"].read_bytes()
    assert files["captures"] == {"responder": "some.pcapng"}
    for role, name in files["logs"].items():
        assert gzip.decompress((path.parent / name).read_bytes()) == recorded["logs"][role].read_bytes()
    # counted in the log by hand
    assert reported["expected"]["initiator"]["messages"] == [
        "IKE_SA_INIT request 0",
        "IKE_AUTH request 1",
        "INFORMATIONAL request 2",
    ]
    assert reported["handshakes"][0]["costs"]["initiator"]["rss_after_bytes"] == 2 << 20
    assert reported["scenario"]["then"] == []


def test_a_capture_at_the_initiator_is_a_file_of_its_own_and_goes_with_the_next_run(tmp_path, recorded):
    capture = recorded["captures"]["responder"]
    both = recorded | {"captures": {"responder": capture, "initiator": capture}}
    files = json.loads(write(tmp_path, both, capture="both").read_text())["files"]
    assert files["captures"] == {"responder": "some.pcapng", "initiator": "some.initiator.pcapng"}
    assert files["capture"] == "some.pcapng"
    assert (tmp_path / "some.initiator.pcapng").read_bytes() == capture.read_bytes()
    alone = recorded | {"captures": {"initiator": capture}}
    files = json.loads(write(tmp_path, alone, capture="initiator").read_text())["files"]
    assert files["capture"] == "some.initiator.pcapng"
    assert not (tmp_path / "some.pcapng").exists()
    write(tmp_path, recorded)
    assert not (tmp_path / "some.initiator.pcapng").exists()


def test_keys_are_for_their_owner_and_from_the_log_that_is_kept(tmp_path, recorded):
    path = write(tmp_path / "out", recorded)
    for one in path.parent.glob("*.gz"):
        assert one.stat().st_mode & 0o077 == 0
    keys = path.parent / "some.keys.json"
    assert keys.stat().st_mode & 0o077 == 0
    assert str(tmp_path) not in keys.read_text()
    assert "some.initiator.log.gz" in keys.read_text()
    assert len(read_keys(str(keys)).key_sets) == 1


def test_the_log_with_more_keys_is_taken(tmp_path, recorded):
    libreswan = {"initiator": {"stack": "libreswan"}}
    path = write(tmp_path / "out", recorded, **libreswan)
    assert "some.responder.log.gz" in (path.parent / "some.keys.json").read_text()


def test_a_manifest_without_keys_names_no_key_file(tmp_path, recorded):
    for log in recorded["logs"].values():
        log.write_text("nothing happened\n")
    path = write(tmp_path / "out", recorded)
    assert json.loads(path.read_text())["files"]["keys"] is None


def test_when_it_cannot_be_written_nothing_of_it_is_left(tmp_path, recorded):
    (tmp_path / "out").mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # a full disk, to those who write: the log does not fit, the capture does
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        with pytest.raises(LabError, match="File too large"):
            write(tmp_path / "out", recorded)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_full_disk_is_said_of_what_was_to_be_written(tmp_path, recorded):
    (tmp_path / "out").mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # not even the capture fits
    try:
        with pytest.raises(LabError, match=r"out/some\.pcapng: File too large"):
            write(tmp_path / "out", recorded)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_nothing_of_an_earlier_run_stays(tmp_path, recorded):
    out = tmp_path / "out"
    out.mkdir()
    stale = [out / "some.aaa.log.gz", out / "some.keys.json"]
    others = out / "some_more.keys.json"
    for path in (*stale, others, out / "some.initiator.log.gz"):
        path.write_text("of another run")
        path.chmod(0o644)
    for log in recorded["logs"].values():
        log.write_text("nothing happened\n")
    write(out, recorded)
    assert not any(path.exists() for path in stale)
    assert others.exists()
    assert (out / "some.initiator.log.gz").stat().st_mode & 0o777 == 0o600


def test_a_path_that_json_has_to_escape_is_not_in_the_keys(tmp_path, recorded):
    odd = tmp_path / 'a "b" \\ c'
    odd.mkdir()
    logs = {role: log.rename(odd / log.name) for role, log in recorded["logs"].items()}
    path = write(tmp_path / "out", recorded | {"logs": logs})
    reported = json.loads((path.parent / "some.keys.json").read_text())
    result = [keys["origin"].rpartition(":")[0] for kind in ("key_sets", "phase1", "esp") for keys in reported[kind]]
    assert set(result) == {"some.initiator.log.gz"}


def test_the_memory_of_an_ike_sa_is_the_slope_over_kept_ones():
    def grow(number: int, rss: int, *, established: bool = True, warm_up: bool = False) -> RecordedLabHandshake:
        cost = ResourceCost(0.0, 0.0, 1.0, 0, rss)
        spis = ("ab" * 8, "cd" * 8)
        return RecordedLabHandshake(number, established, True, None, 1.0, *spis, {"responder": cost}, [], 1, warm_up)

    # 100 bytes each; the warm-up is an IKE SA too, the failed handshake is not
    kept = [grow(1, 50, warm_up=True), grow(1, 1100), grow(2, 1200), grow(3, 9999, established=False), grow(4, 1300)]
    assert manifest.estimate_ike_sa_bytes(kept) == {"responder": pytest.approx(100)}
    assert manifest.estimate_ike_sa_bytes(kept[:2]) == {"responder": None}
