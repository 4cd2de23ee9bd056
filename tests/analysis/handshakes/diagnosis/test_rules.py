"""The rules of the diagnosis, on the test vectors and on the recorded captures."""

import re
from pathlib import Path

import polars as pl
import pytest

from ikeanalyze.analysis.handshakes.diagnosis.rules import RULES
from ikeanalyze.analysis.read import read_captures
from tests.analysis.analyse_captures import analyse, only
from tests.paths import CAPTURES, LAB_CAPTURES
from tests.rules.diagnosis import make_diagnosis_trace, read_diagnosis_cases

CASES = read_diagnosis_cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_vectors_have_their_diagnosis(case):
    row = only(analyse(make_diagnosis_trace(case)))
    assert [entry["code"] for entry in row["diagnosis"] or ()] == case.codes
    if not case.codes:
        assert row["diagnosis"] is None
        return
    first = row["diagnosis"][0]
    message = f"{first['exchange']} {first['message_id']} {first['kind']} {first['sender']}"
    assert (message, first["confidence"]) == (case.message, case.confidence)
    assert case.frames in (None, first["frames"])
    assert case.says in first["message"]
    for entry in row["diagnosis"]:
        assert "None" not in entry["message"] + entry["remedy"]


#: The recordings in which something went wrong (captures/README.md and the manifests), and their diagnosis.
WRONG = {
    "fragments-dropped_fragment-size-0": ["path-drops-fragments", "udp-4500-blocked"],
    "ip-fragments-loss10": ["peer-lost"],  # the deletion of the last IKE SA is never answered
    # libreswan on a kernel without ESP
    "libreswan-responder": ["childless"],
    "libreswan_responder-stack-libreswan": ["childless"],
    "mixed": ["intermediate-not-supported"],  # strongSwan 6 with ML-KEM, and 5.9 without
    "mixed-refused": ["no-proposal-chosen", "intermediate-not-supported"],
    "no-proposal": ["no-proposal-chosen"],
    "tcp-psk": ["childless"],  # the stand-in for the kernel installs none
    "wrong-psk": ["auth-failed"],
}
RECORDINGS = sorted(path for folder in (CAPTURES, LAB_CAPTURES) for path in folder.glob("*.pcap*"))


def test_the_recordings_in_which_nothing_went_wrong_have_no_diagnosis():
    """Not even those on a path that loses packets: a retransmission is what RFC 7296, 2.1, provides for that."""
    handshakes = read_captures(RECORDINGS).handshakes
    diagnosed = handshakes.filter(pl.col("diagnosis").is_not_null()).select("capture", "diagnosis").rows()
    assert {
        Path(capture).name.split(".")[0]: [entry["code"] for entry in entries] for capture, entries in diagnosed
    } == WRONG


def test_codes_are_names_for_scripts():
    for rule in RULES:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.code)
