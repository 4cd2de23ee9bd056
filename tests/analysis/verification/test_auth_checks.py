"""AUTH payloads that daemons made and accepted, and one that was refused."""

import subprocess

import pytest

from ikeanalyze.analysis.verification.verify import verify_capture
from tests.analysis.verify_recordings import capture_of, changed_log, failed, log_of, outcomes, recorded
from tests.keys.logs_of import LOGS

NAME = "pq-mlkem768-psk"
PSK = "swordfish"  # the log's "secret"


def auths(verification):
    return [check for check in verification.checks if check.what == "AUTH"]


def hows(name):
    return [(check.side, check.outcome, check.how) for check in auths(recorded(name))]


def test_the_logged_psk_verifies_auth():
    assert hows(NAME) == [
        ("initiator", "passed", "PSK of the log"),
        ("responder", "passed", "PSK of the log"),
    ]


@pytest.mark.parametrize("content", [PSK, f"{PSK}\n", f"0x{PSK.encode().hex()}", f'a : PSK "wrong"\nb : PSK "{PSK}"\n'])
def test_a_given_psk_verifies_auth(tmp_path, content):
    psk = tmp_path / "psk"
    psk.write_text(content)
    result = recorded(NAME, psk=psk)
    assert [(check.outcome, check.how) for check in auths(result)] == [("passed", f"PSK of {psk}")] * 2


def test_a_changed_psk_fails_auth(tmp_path):
    psk = tmp_path / "psk"
    psk.write_bytes(bytes([PSK.encode()[0] ^ 1]) + PSK.encode()[1:])
    result = recorded(NAME, psk=psk)
    assert failed(result) == [("AUTH", 1), ("AUTH", 1)]
    for check in auths(result):
        assert check.expected != check.found
        assert check.why == "the capture has another value than this secret makes"


def test_a_truncated_message_that_is_signed(tmp_path):
    """Of the frames, only that of the IKE_AUTH response has at most 300 bytes: the message that it signs is unknown."""
    capture = tmp_path / "capture.pcap"
    subprocess.run(["editcap", "-F", "pcap", "-s", "300", capture_of("psk-classic"), capture], check=True)
    result = verify_capture(capture, log_of("psk-classic"))
    assert failed(result) == []
    why = "the snapshot length truncates its IKE_SA_INIT or IKE_SESSION_RESUME message"
    assert [check.why for check in auths(result) if check.side == "responder"] == [why]


def test_several_wrong_psks_fail_auth(tmp_path):
    psk = tmp_path / "psk"
    psk.write_text('a : PSK "x"\nb : PSK "y"\n')
    checks = auths(recorded(NAME, psk=psk))
    assert [(check.outcome, check.why, check.expected) for check in checks] == [
        ("failed", "none of 2 secrets makes this value", None)
    ] * 2


def test_a_bit_of_the_psk_in_the_log(tmp_path):
    """Of one side: the value of the other is right."""
    result = recorded(NAME, changed_log(NAME, tmp_path / "log", "secret", 0))
    assert [(check.side, check.outcome) for check in auths(result)] == [
        ("initiator", "failed"),
        ("responder", "passed"),
    ]


def test_a_refused_psk_fails_auth():
    """By the responder's log, the initiator has made AUTH with another secret."""
    first, second = auths(recorded("wrong-psk"))
    assert (first.side, first.outcome) == ("initiator", "failed")
    assert (second.side, second.outcome) == ("responder", "not made")
    assert second.why == "the decrypted messages have no AUTH payload of this side"


def test_auth_of_libreswan_is_verified():
    assert (
        hows("libreswan")
        == [
            ("initiator", "passed", "PSK of the log"),
            ("responder", "passed", "PSK of the log"),
        ]
        * 2
    )


def test_auth_by_ecdsa_certificates_verifies():
    checks = auths(recorded("loss20-classic"))
    assert [check.outcome for check in checks] == ["passed"] * 50
    assert {check.how.split(",")[0] for check in checks} == {"ECDSA with SHA2-384"}  # the log: ECDSA-384
    assert all(check.how.endswith("whose chain is not checked") for check in checks)


def test_rsa_certificates_in_fragments():
    result = hows("rsa")
    assert [(side, outcome) for side, outcome, _ in result] == [
        ("initiator", "passed"),
        ("responder", "passed"),
    ]
    assert all("RSASSA-PKCS1-v1_5 with SHA2-" in how and "RSA-4096" in how for _, _, how in result)


def test_a_bit_of_a_nonce_does_not_matter_to_a_signature_but_a_bit_of_sk_pr_does(tmp_path):
    result = recorded("rsa", changed_log("rsa", tmp_path / "log", "Sk_pr secret"))
    assert failed(result) == [("SK_pr", 0), ("AUTH", 0)]
    (check,) = (check for check in auths(result) if check.outcome == "failed")
    assert "not made with the certificate's key" in check.why


def test_auth_with_the_msk_of_eap_verifies():
    """The responder authenticates itself with a certificate first, then both with the key of EAP-MSCHAPv2."""
    (first, *both) = hows("eap")
    assert first[:2] == ("responder", "passed")
    assert "X.509 CN=res.lab" in first[2]
    assert both == [
        ("initiator", "passed", "MSK of EAP-MSCHAPv2, of the log"),
        ("responder", "passed", "MSK of EAP-MSCHAPv2, of the log"),
    ]


def test_auth_of_eap_without_a_key_uses_sk_p():
    """EAP-MD5 makes none: SK_pi and SK_pr take its place (RFC 7296, section 2.16)."""
    result = hows("eap-md5-radius")
    assert [(side, outcome) for side, outcome, _ in result[-2:]] == [
        ("initiator", "passed"),
        ("responder", "passed"),
    ]
    assert [how for _, _, how in result[-2:]] == [
        "SK_pi, since EAP-MD5 makes no key",
        "SK_pr, since EAP-MD5 makes no key",
    ]


def without(name, path, *texts):
    """A log without the lines of some dumps' labels, so that what was dumped is not known."""
    import gzip

    lines = gzip.decompress(log_of(name).read_bytes()).splitlines()
    path.write_bytes(b"\n".join(line for line in lines if not any(text in line for text in texts)) + b"\n")
    return path


def test_a_log_without_secrets_leaves_auth_unchecked(tmp_path):
    path = without("eap", tmp_path / "log", b"MSK =>", b" secret => 64 bytes")
    result = [(check.outcome, check.why) for check in auths(recorded("eap", path))]
    assert result[0] == ("passed", None)
    assert result[1:] == [("not made", "no key file has the MSK of EAP-MSCHAPv2")] * 2
    path = without(NAME, tmp_path / "log", b"] secret => 9 bytes")
    assert [(check.outcome, check.why) for check in auths(recorded(NAME, path))] == [
        ("not made", "no key file has the PSK; --psk gives it")
    ] * 2


def test_signed_octets_of_the_log(tmp_path):
    label = "octets = message + nonce + prf(Sk_px, IDx') + IntAuth"
    result = recorded(NAME, changed_log(NAME, tmp_path / "log", label, 1, 100))
    assert {value for value, _ in failed(result)} == {"signed octets"}
    assert outcomes(result.checks)["passed"]["AUTH"] == 2


def test_logs_of_both_sides():
    both = [LOGS / f"charon-6.1-followup.{side}.log.gz" for side in "ir"]
    result = outcomes(recorded("followup", *both).checks)
    assert set(result) == {"passed"}
    # of five key sets and two AUTH payloads
    assert result["passed"].pop("agreement") == 7
    assert result == outcomes(recorded("followup").checks)
