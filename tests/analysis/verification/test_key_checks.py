"""Key schedules of daemons, as they logged them, and with one bit of a log changed."""

import pytest
from msgspec.structs import replace

from ikeanalyze.analysis.verification.daemon_log_index import index_daemon_logs
from ikeanalyze.analysis.verification.ike_sas import EpochKeys, IkeSaRecord
from ikeanalyze.analysis.verification.key_checks import check_key_schedule, get_current_sk_d
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.keys.detect import read_keys
from tests.analysis.verify_recordings import changed_log, failed, outcomes, recorded, taken_apart
from tests.keys.logs_of import LOGS

NAME = "pq-mlkem768-psk"
AEAD = ["SK_d", "SK_ei", "SK_er", "SK_pi", "SK_pr"]


@pytest.mark.parametrize(
    ("name", "sets"), [(NAME, 2), ("followup", 5), ("rekeys", 3), ("mgr", 3), ("loss20-classic", 25)]
)
def test_every_key_set_follows_from_its_secret(name, sets):
    result = outcomes(recorded(name).checks)
    assert result["passed"]["SKEYSEED"] == result["passed"]["SK_d"] == result["passed"]["SK_pr"] == sets
    assert set(result) == {"passed"}


def changed(tmp_path, label, nth=0, name=NAME):
    return recorded(name, changed_log(name, tmp_path / "log", label, nth))


def test_a_bit_of_the_key_exchange_secret(tmp_path):
    """What it should have made of SKEYSEED is wrong, and nothing else: all of the rest follows from SKEYSEED."""
    result = changed(tmp_path, "key exchange secret")
    assert failed(result) == [("SKEYSEED", 0)]
    check = next(check for check in result.checks if check.outcome == "failed")
    assert check.expected != check.found
    assert check.origin.path.endswith("log")
    assert outcomes(result.checks)["passed"]["ICV"] == 4
    assert failed(changed(tmp_path, "key exchange secret", 1)) == [("SKEYSEED", 1)]


def test_a_changed_skeyseed_fails_the_check(tmp_path):
    """It does not follow from the secret, and no key follows from it."""
    result = changed(tmp_path, "SKEYSEED", 1)
    assert failed(result) == [("SKEYSEED", 1), *((name, 1) for name in AEAD)]
    assert outcomes(result.checks)["passed"]["ICV"] == 4


def test_a_changed_sk_d_fails_the_next_epoch(tmp_path):
    """The next epoch is made of it too."""
    assert failed(changed(tmp_path, "Sk_d secret")) == [("SK_d", 0), ("SKEYSEED", 1)]
    assert failed(changed(tmp_path, "Sk_d secret", 1)) == [("SK_d", 1)]


def test_a_changed_sk_ei_fails_the_check(tmp_path):
    """The initiator's messages of that epoch are not opened by it."""
    result = changed(tmp_path, "Sk_ei secret", 1)
    assert failed(result) == [("ICV", None), ("SK_ei", 1)]


def test_changed_nonces_fail_the_check(tmp_path):
    assert failed(changed(tmp_path, "nonces", 1)) == [("nonces", 1)]


@pytest.mark.parametrize(("nth", "handshake"), [(4, 2), (5, 3)])
def test_a_bit_of_a_secret_of_rekeying(tmp_path, nth, handshake):
    """Dumps: three epochs, a CHILD_SA, and two IKE SAs that replace one another (RFC 9370, section 2.2.4)."""
    found = changed(tmp_path, "additional key exchange secret", nth, "followup")
    assert failed(found) == [("SKEYSEED", 0)]
    ids = [one.id for one in found.handshakes for check in one.checks if check.outcome == "failed"]
    assert ids == [handshake]


def test_sk_d_of_what_is_replaced(tmp_path):
    (first, second, third), logs = taken_apart("rekeys")
    assert (second.parent, third.parent) == (first, second)
    assert get_current_sk_d(first, "another", logs.ppks) == first.key_sets[-1].keys.sk_d
    result = changed(tmp_path, "Sk_d secret", 0, "rekeys")
    assert [
        (handshake.id, check.what)
        for handshake in result.handshakes
        for check in handshake.checks
        if check.outcome == "failed"
    ] == [
        (1, "SK_d"),
        (2, "SKEYSEED"),
    ]


def test_without_the_capture_of_what_made_it():
    """A PPK (RFC 8784) as charon logged it; nothing is known of its IKE SA but what the log says."""
    file = read_keys(str(LOGS / "charon-5.9.8-ppk.i.log.gz"))
    keys = file.key_sets[0]
    sa = IkeSaRecord(0, Protocol.IKEV2, keys.spi_i, keys.spi_r, [], [], key_sets=[EpochKeys(0, keys)])
    logs = index_daemon_logs([file])
    checks = list(check_key_schedule(sa, logs.ppks))
    assert outcomes(checks) == {
        "not made": {"SKEYSEED": 1, "SK_*": 1},
        "passed": {"SK_d with PPK": 1, "SK_pi with PPK": 1, "SK_pr with PPK": 1},
    }
    assert get_current_sk_d(sa, "any", logs.ppks) == file.log.ppks[0].sk_d


def test_a_file_that_has_no_secrets_adds_nothing(tmp_path):
    log = changed_log(NAME, tmp_path / "log", "Sk_pr secret", 1)
    (sa,), logs = taken_apart(NAME, log)
    once = list(check_key_schedule(sa, logs.ppks))
    bare = [
        EpochKeys(epoch.epoch, replace(epoch.keys, sk_d=None, sk_pi=None, sk_pr=None, derivation=None))
        for epoch in sa.key_sets
    ]
    sa.key_sets.extend(bare)
    assert list(check_key_schedule(sa, logs.ppks)) == once
    sa.key_sets[:] = bare
    assert outcomes(list(check_key_schedule(sa, logs.ppks))) == {"not made": {"SKEYSEED": 2, "SK_*": 2}}
