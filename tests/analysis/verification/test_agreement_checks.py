"""The logs of both peers: the first value on which they disagree."""

import pytest

from ikeanalyze.analysis.verification.verify import verify_capture
from ikeanalyze.keys.detect import read_keys
from tests.analysis.verify_recordings import changed_log, log_of, recorded
from tests.paths import LAB_CAPTURES


def agreement(verification):
    checks = [check for check in verification.checks if check.what == "agreement"]
    return [(check.outcome, check.epoch, check.side) for check in checks], [check.why for check in checks if check.why]


def both_logs(name):
    return [LAB_CAPTURES / f"{name}.{side}.log.gz" for side in ("initiator", "responder")]


@pytest.mark.parametrize("name", ["psk", "ecdsa", "mlkem768-psk"])
def test_peers_that_established_an_ike_sa_agree(name):
    result, problems = agreement(verify_capture(LAB_CAPTURES / f"{name}.pcapng", both_logs(name)))
    epochs = [("passed", epoch, None) for epoch in range(2 if "mlkem" in name else 1)]
    assert result == [*epochs, ("passed", None, "initiator"), ("passed", None, "responder")]
    assert problems == []


def test_with_one_log_there_is_nothing_to_compare():
    assert agreement(recorded("psk-classic")) == ([], [])


def test_peers_with_different_pre_shared_keys():
    """The recording of a wrong secret: all keys agree, which do not depend on it (RFC 7296, 2.14 and 2.15)."""
    logs = both_logs("wrong-psk")
    verification = verify_capture(LAB_CAPTURES / "wrong-psk.pcapng", logs)
    result, (problem,) = agreement(verification)
    assert result == [("passed", 0, None), ("failed", None, "initiator")]
    assert problem.startswith("the two sides disagree first on the pre-shared key: ")
    assert [str(log) in problem for log in logs] == [True, True]
    # neither the secrets, nor digests of them, which are easily tried out
    (check,) = [check for check in verification.checks if check.what == "agreement" and check.outcome == "failed"]
    assert (check.expected, check.found) == (None, None)
    secrets = [auth.secret for log in logs for auth in read_keys(str(log)).log.auths]
    assert not [secret for secret in secrets if secret and secret.hex() in repr(check)]


@pytest.mark.parametrize(
    ("label", "name"), [("SKEYSEED", "SKEYSEED"), ("Sk_d secret", "SK_d"), ("Sk_pi secret", "SK_pi")]
)
def test_a_log_with_another_value(tmp_path, label, name):
    other = changed_log("psk-classic", tmp_path / "other.log", label)
    result, (problem,) = agreement(recorded("psk-classic", log_of("psk-classic"), other))
    assert result == [("failed", 0, None)]
    assert problem.startswith(f"the two sides disagree first on the {name}: {log_of('psk-classic')}:")
