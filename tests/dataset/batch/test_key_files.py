import hashlib
import json
import os
from pathlib import Path

import pytest

from ikeanalyze.dataset.batch.discovery import CaptureFile
from ikeanalyze.dataset.batch.key_files import KeyFileFinder, get_file_state, hash_files
from ikeanalyze.io.lab_manifest import LAB_SCHEMA
from tests.paths import CAPTURES


@pytest.fixture
def made(tmp_path):
    def make(*names):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        return tmp_path

    return make


def of(capture, keys=None):
    path = os.path.abspath(capture)
    key_files = (keys or KeyFileFinder()).find_for_capture(CaptureFile(path, path, 1, 1))
    return [Path(item.path).name for item in key_files]


def test_beside_the_capture(made):
    root = made("a.pcap", "a.keys", "a.keys.json", "a.charon.log", "a.charon.log.gz", "ab.keys", "a.log", "b.keys")
    assert of(root / "a.pcap") == ["a.keys", "a.keys.json", "a.charon.log", "a.charon.log.gz"]
    assert of(root / "c.pcap") == []


def test_the_logs_of_the_lab_only_without_keys(made):
    root = made("a.keys.json", "a.initiator.log.gz", "b.initiator.log.gz", "b.responder.log.gz")
    assert of(root / "a.pcapng") == ["a.keys.json"]
    assert of(root / "b.pcapng") == ["b.initiator.log.gz"]


def test_the_labs_capture_at_the_initiator_has_the_keys_of_the_one_at_the_responder(made):
    root = made("a.keys.json", "a.initiator.log.gz", "b.initiator.log.gz", "ab.keys")
    assert of(root / "a.initiator.pcapng") == ["a.keys.json"]
    assert of(root / "b.initiator.pcapng") == ["b.initiator.log.gz"]


@pytest.mark.parametrize(
    ("measure", "found"), [("keys", ["a.initiator.log"]), ("costs", []), (None, ["a.initiator.log"])]
)
def test_the_log_of_a_recording_of_costs_has_no_keys(made, measure, found):
    root = made("a.pcapng", "a.initiator.log")
    scenario = {} if measure is None else {"measure": measure}
    document = {"schema": LAB_SCHEMA, "name": "a", "scenario": scenario, "files": {"capture": "a.pcapng"}}
    (root / "a.manifest.json").write_text(json.dumps(document))
    assert of(root / "a.pcapng") == found
    # if somebody asks for it
    assert "a.initiator.log" in of(root / "a.pcapng", KeyFileFinder(folders=[str(root)]))


def test_the_recorded_ones():
    assert of(CAPTURES / "psk-classic.pcap") == ["psk-classic.keys.json", "psk-classic.charon.log.gz"]
    assert of(CAPTURES / "lab" / "no-proposal.pcapng") == ["no-proposal.initiator.log.gz"]


def test_in_a_folder_by_name(made):
    root = made("keys/a.log", "keys/a.b.json", "keys/ab.log", "keys/x/b.log", "keys/b.log", "runs/a.keys")
    keys = KeyFileFinder(folders=[str(root / "keys")])
    assert of(root / "runs/a.pcapng.gz", keys) == ["a.keys", "a.b.json", "a.log"]
    assert of(root / "runs/a.b.pcap", keys) == ["a.b.json"]
    assert of(root / "runs/c.pcap", keys) == []


def test_in_folders_of_a_folder(made):
    root = made("keys/psk/1.log", "keys/eap/1.log", "keys/1.log", "keys/deep/psk/1.log")
    keys = KeyFileFinder(folders=[str(root / "keys")])

    def where(capture):
        return [
            os.path.relpath(item.path, root)
            for item in keys.find_for_capture(CaptureFile(capture, str(root / capture), 1, 1))
        ]

    assert where("runs/psk/1.pcap") == ["keys/psk/1.log"]
    assert where("runs/eap/1.pcap") == ["keys/eap/1.log"]
    assert where("runs/deep/psk/1.pcap") == ["keys/deep/psk/1.log"]
    assert where("runs/rsa/1.pcap") == ["keys/1.log"]
    assert where("runs/notpsk/1.pcap") == ["keys/1.log"]


def test_in_a_folder_what_is_no_file_with_keys_is_left_out(made):
    """All that the lab and a testbed leave beside a capture."""
    root = made(
        *(
            "k/a.pcapng",
            "k/a.pcap.gz",
            "k/a.pcap3",
            "k/a.keys.json",
            "k/a.initiator.log.gz",
            "k/a.responder.log.gz",
        ),
        *("k/a.manifest.json", "k/a.truth.json", "k/a.aaa.log.gz"),
    )
    keys = KeyFileFinder(folders=[str(root / "k")])
    assert of(root / "k/a.pcapng", keys) == ["a.keys.json", "a.initiator.log.gz", "a.responder.log.gz"]


def test_a_capture_is_not_a_file_with_its_own_keys(made):
    """One that is named may have any name."""
    root = made("k/dump.bin", "k/dump.log")
    assert of(root / "k/dump.bin", KeyFileFinder(folders=[str(root / "k")])) == ["dump.log"]


def test_which_folders_have_something(made):
    root = made("k/a.keys", "l/a.keys", "l/x/b.keys", "a.pcap", "b.pcap")
    keys = KeyFileFinder(folders=[str(root / "k"), str(root / "l")])
    of(root / "b.pcap", keys)
    assert keys.fitting == set()
    of(root / "a.pcap", keys)
    assert keys.fitting == {str(root / "k"), str(root / "l")}


def test_a_folder_with_keys_that_cannot_be_read(made):
    if os.geteuid():
        pytest.skip("changes its user for that")
    root = made("k/a.keys", "k/x/a.keys")
    root.chmod(0o755)
    (root / "k/x").chmod(0o700)
    here = os.getcwd()
    os.chdir(root)
    keys = KeyFileFinder(folders=["k"])
    os.seteuid(65534)
    try:
        keys.find_for_capture(CaptureFile("a.pcap", "a.pcap", 1, 1))
    finally:
        os.seteuid(0)
        os.chdir(here)
    assert keys.problems == ["k/x: cannot be read (Permission denied)"]


def test_the_state_of_a_file_is_its_size_and_time(made):
    path = made("a") / "a"
    os.utime(path, ns=(5, 7_000_000_001))
    state = get_file_state(str(path))
    assert (state.bytes, state.mtime_ns) == (1, 7_000_000_001)
    assert get_file_state(str(path) + "x") is None


def test_the_digest_covers_all_key_files(made):
    root = made("a", "b")
    a, b = get_file_state(str(root / "a")), get_file_state(str(root / "b"))
    each = sorted(hashlib.sha256(name).hexdigest() for name in (b"a", b"b"))
    assert hash_files([a, b]) == hash_files([b, a]) == hashlib.sha256("\n".join(each).encode()).hexdigest()
    assert hash_files([]) is None
    (root / "a").unlink()
    gone = get_file_state(str(root / "b"))
    (root / "b").unlink()
    hash_files.__globals__["_hash_or_explain"].cache_clear()
    assert hash_files([gone]) == hashlib.sha256(b"No such file or directory").hexdigest()
