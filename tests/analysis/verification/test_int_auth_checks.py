"""IntAuth of RFC 9242 against the values that charon logged."""

import pytest

from ikeanalyze.analysis.verification.int_auth_checks import check_int_auth
from tests.analysis.verify_recordings import changed_log, failed, log_of, outcomes, recorded, taken_apart
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
