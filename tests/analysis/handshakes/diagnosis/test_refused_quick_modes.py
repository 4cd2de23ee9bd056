"""Quick modes of IKEv1 that are refused, on the test vectors. A recording: tests/lab/test_faults.py."""

import pytest

from tests.analysis.analyse_captures import analyse
from tests.analysis.decrypt_captures import look
from tests.rules.quick_modes import make_quick_mode_trace, read_quick_mode_cases

CASES = read_quick_mode_cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_vectors_have_their_diagnosis(case):
    trace, keys = make_quick_mode_trace(case)
    row = look(trace, keys).analysis.handshakes.row(0, named=True)
    assert (row["outcome"], row["reason"]) == (case.outcome, case.reason)
    assert [entry["code"] for entry in row["diagnosis"] or ()] == case.codes
    if case.codes:
        [entry] = row["diagnosis"]
        message = f"{entry['exchange']} {entry['message_id']} {entry['kind']} {entry['sender']}"
        assert (message, entry["confidence"]) == (case.message, case.confidence)
        assert case.says in entry["message"]
        assert "None" not in entry["message"] + entry["remedy"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_keys_nothing_is_said(case):
    """Informational messages of other contents, such as of dead peer detection, have the same sizes."""
    trace, _ = make_quick_mode_trace(case)
    assert analyse(trace).handshakes["diagnosis"].to_list() == [None]
