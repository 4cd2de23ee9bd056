"""Requests that are refused after the set-up, on the test vectors and on recordings."""

import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from tests.analysis.analyse_captures import analyse
from tests.analysis.decrypt_captures import look
from tests.paths import CAPTURES
from tests.rules.refusals import make_refusal_trace, read_refusal_cases

CASES = read_refusal_cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_vectors_have_their_diagnosis(case):
    trace, keys = make_refusal_trace(case)
    row = look(trace, keys).analysis.handshakes.row(0, named=True)
    # what was set up is not in question
    assert (row["outcome"], row["reason"], row["child_error"]) == ("established", None, None)
    assert [entry["code"] for entry in row["diagnosis"] or ()] == case.codes
    if case.codes:
        [entry] = row["diagnosis"]
        message = f"{entry['exchange']} {entry['message_id']} {entry['kind']} {entry['sender']}"
        assert (message, entry["confidence"], entry["effect"]) == (case.message, case.confidence, "refused")
        assert case.says in entry["message"]
        assert "None" not in entry["message"] + entry["remedy"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_keys_nothing_is_said_that_the_size_does_not_tell(case):
    trace, _ = make_refusal_trace(case)
    row = analyse(trace).handshakes.row(0, named=True)
    assert row["outcome"] == "completed"
    for entry in row["diagnosis"] or ():
        assert (entry["code"], entry["confidence"]) == ("create-child-refused", "consistent with")
        assert not any(name in entry["message"] for name in ("NO_PROPOSAL", "TS_UNACC", "INVALID_", "_FAILURE"))


def test_a_rekeying_that_was_accepted_later_has_no_diagnosis_without_keys():
    case = next(case for case in CASES if case.name == "the other side asks for its group, and gets it")
    assert analyse(make_refusal_trace(case)[0]).handshakes["diagnosis"].to_list() == [None]


def test_the_proposals_of_libreswan_have_a_key_exchange_that_strongswan_is_not_configured_for():
    """Log of the responder: "parsed CREATE_CHILD_SA request 3 [ SA No KE TSi TSr ]", and then "[ N(NO_PROP) ]"."""
    path = CAPTURES / "lab" / "libreswan_responder-stack-strongswan.pcapng"
    options = ReadOptions(keys=[str(path.with_suffix(".keys.json"))])
    [[entry]] = read_captures(path, options).handshakes["diagnosis"]
    assert (entry["code"], entry["message_id"], entry["frames"]) == ("pfs-mismatch", 3, [8])
    assert "the set-up of a CHILD_SA" in entry["message"]
