"""IntAuth of RFC 9242 against the values that charon logged."""

import subprocess
from dataclasses import replace

import pytest
from msgspec import structs

from ikeanalyze.analysis.verification.int_auth_checks import check_int_auth
from ikeanalyze.analysis.verification.verify import verify_capture
from tests.analysis.verify_recordings import capture_of, changed_log, failed, log_of, outcomes, recorded, taken_apart
from tests.keys.dumps import contents, log

NAME = "pq-mlkem768-psk"


@pytest.mark.parametrize(("name", "count"), [(NAME, 2), ("followup", 4), ("mgr", 2), ("psk-classic", 0)])
def test_values_of_both_sides_pass(name, count):
    result = outcomes(recorded(name).checks)
    assert result["passed"].get("IntAuth", 0) == count


def test_what_it_adds_to_the_signed_octets():
    """Both values, and the message ID of IKE_AUTH; they are the end of the octets in the log."""
    (sa,), logs = taken_apart(NAME)
    _, intermediate = check_int_auth(sa, logs)
    dumps = log(NAME)
    assert intermediate.octets == b"".join(contents(dumps, "IntAuth_N = prf(Sk_px, data)")) + b"\0\0\0\2"
    for octets in contents(dumps, "octets = message + nonce + prf(Sk_px, IDx') + IntAuth"):
        assert octets.endswith(intermediate.octets)


def test_without_intermediate_exchange_it_is_empty():
    (sa,), logs = taken_apart("psk-classic")
    assert check_int_auth(sa, logs)[1].octets == b""


def test_a_changed_value_fails_the_check(tmp_path):
    changed = changed_log(NAME, tmp_path / "log", "IntAuth_N = prf(Sk_px, data)", 1)
    result = recorded(NAME, changed)
    assert failed(result) == [("IntAuth", 0)]
    (check,) = (check for check in result.checks if check.outcome == "failed")
    assert (check.side, check.exchange) == ("responder", "IKE_INTERMEDIATE 1 response")


def test_a_changed_sk_pi_fails_the_values_made_with_it(tmp_path):
    """The value that follows is another one, so what is signed with it too; the log's is of another key."""
    result = recorded(NAME, changed_log(NAME, tmp_path / "log", "Sk_pi secret", 0))
    assert failed(result)[0] == ("SK_pi", 0)
    assert {value for value, _ in failed(result)} == {"SK_pi", "signed octets", "AUTH"}
    whys = {check.why for check in result.checks if check.what == "IntAuth" and check.outcome == "not made"}
    assert whys == {"no key file has the value of a peer to compare it with"}


def test_key_tables_leave_int_auth_unchecked(tmp_path):
    """Wireshark's table has no SK_pi and SK_pr."""
    from ikeanalyze.keys.detect import read_keys
    from ikeanalyze.keys.export import build_wireshark_tables, write_tables

    made = build_wireshark_tables(read_keys(str(log_of(NAME))).key_sets, [], [])
    write_tables(str(tmp_path), made)
    result = recorded(NAME, *sorted(path for path in tmp_path.rglob("*") if path.is_file()))
    assert outcomes(result.checks)["passed"] == {"ICV": 4}
    whys = {(check.side, check.why) for check in result.checks if check.what == "IntAuth"}
    assert whys == {
        ("initiator", "no key file has the SK_pi of its epoch"),
        ("responder", "no key file has the SK_pr of its epoch"),
    }


#: Frames of the messages of the recording "followup", by message ID: requests, responses.
FRAMES = {1: (range(3, 5), range(5, 7)), 2: (range(7, 9), range(9, 10))}


@pytest.mark.parametrize(
    ("absent", "compared", "why"),
    [
        ([*FRAMES[2][1]], 3, "the capture lacks IKE_INTERMEDIATE messages of the responder"),
        ([*FRAMES[2][0], *FRAMES[2][1]], 2, "the capture lacks IKE_INTERMEDIATE messages of the initiator"),
        ([*FRAMES[1][1]], 2, "the value of the IKE_INTERMEDIATE exchange before it is unknown"),
        ([*FRAMES[1][0], *FRAMES[1][1]], 0, "the value of the IKE_INTERMEDIATE exchange before it is unknown"),
        (list(range(3, 10)), 0, "the capture lacks IKE_INTERMEDIATE messages of the initiator"),
    ],
    ids=["last response", "last exchange", "first response", "first exchange", "all"],
)
def test_messages_that_the_capture_lacks_fail_no_check(absent, compared, why, tmp_path):
    """A value includes all values before it, and the signed octets include the last ones (RFC 9242, section 3.3)."""
    capture = tmp_path / "capture.pcap"
    frames = [str(frame) for frame in absent]
    subprocess.run(["editcap", "-F", "pcap", capture_of("followup"), capture, *frames], check=True)
    result = verify_capture(capture, log_of("followup"))
    assert failed(result) == []
    assert outcomes(result.checks)["passed"].get("IntAuth", 0) == compared
    whys = [check.why for check in result.checks if check.what == "AUTH"]
    assert whys == [why, why]


def test_a_value_after_an_unknown_one_is_not_compared():
    """The first key set of the file has no SK_pi: what follows from it is unknown, not wrong."""
    (sa, *_), logs = taken_apart("followup")
    for place, sent in enumerate(sa.messages):
        content = sent.content
        if content.message_id == 1 and content.from_initiator:
            keys = structs.replace(content.keys, sk_pi=None)
            sa.messages[place] = replace(sent, content=replace(content, keys=keys))
    checks, values = check_int_auth(sa, logs)
    assert [(check.side, check.outcome) for check in checks] == [
        ("initiator", "not made"),
        ("responder", "passed"),
        ("initiator", "not made"),
        ("responder", "passed"),
    ]
    assert values.octets is None
