"""Which ICVs pass, on recorded captures with what was recorded changed."""

import json

import dpkt
import pytest

from ikeanalyze.analysis.verification.verify import verify_capture
from tests.analysis.verify_recordings import capture_of, log_of, outcomes, recorded
from tests.keys.logs_of import LOGS
from tests.paths import CAPTURES


def icvs(verification):
    return [check for check in verification.checks if check.what == "ICV"]


def rewritten(name, path, change):
    """The capture with `change(number, frame)` in place of each frame; None leaves it out."""
    with capture_of(name).open("rb") as source, path.open("wb") as target:
        writer = dpkt.pcap.Writer(target, nano=True)
        for number, (time, frame) in enumerate(dpkt.pcap.Reader(source), 1):
            if (changed := change(number, bytearray(frame))) is not None:
                writer.writepkt(bytes(changed), time)
    return path


def test_every_message_of_both_epochs():
    checks = icvs(recorded("pq-mlkem768-psk"))
    assert [(check.exchange, check.side, check.epoch, check.outcome) for check in checks] == [
        ("IKE_INTERMEDIATE 1 request", "initiator", 0, "passed"),
        ("IKE_INTERMEDIATE 1 response", "responder", 0, "passed"),
        ("IKE_AUTH 2 request", "initiator", 1, "passed"),
        ("IKE_AUTH 2 response", "responder", 1, "passed"),
    ]


@pytest.mark.parametrize(("kept", "failing"), [(0, "IKE_AUTH 2"), (1, "IKE_INTERMEDIATE 1")])
def test_messages_of_an_epoch_without_keys_are_not_checked(tmp_path, kept, failing):
    """libreswan logs the keys of established IKE SAs alone, which are those of the last epoch."""
    keys = json.loads((CAPTURES / "pq-mlkem768-psk.keys.json").read_text())
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([keys[kept]]))
    checks = icvs(recorded("pq-mlkem768-psk", path))
    missing = [check for check in checks if check.outcome != "passed"]
    assert [check.exchange for check in missing] == [f"{failing} request", f"{failing} response"]
    assert [(check.outcome, check.why) for check in missing] == [
        ("not made", f"no key file has the SK_e{side} of epoch {1 - kept}") for side in "ir"
    ]


def test_one_bit_of_a_message_changed(tmp_path):
    """The last byte of the last packet, which is an IKE_AUTH response's ICV."""

    def change(number, frame):
        if number == 4:
            frame[-1] ^= 1
        return frame

    path = rewritten("psk-classic", tmp_path / "x.pcap", change)
    good, bad = icvs(verify_capture(path, log_of("psk-classic")))
    assert (good.outcome, good.frame) == ("passed", 3)
    assert (bad.outcome, bad.frame, bad.exchange) == ("failed", 4, "IKE_AUTH 1 response")
    assert bad.why == "no key of its IKE SA verifies it"


@pytest.mark.parametrize("known", ["initiator", "responder"])
def test_keys_of_one_side_leave_the_icvs_of_the_other_unchecked(known, tmp_path):
    other = "responder" if known == "initiator" else "initiator"
    document = json.loads((CAPTURES / "psk-classic.keys.json").read_text())
    for keys in document:
        keys.update({name: "" for name in keys if name.lower() in (f"sk_e{other[0]}", f"sk_a{other[0]}")})
    (tmp_path / "keys.json").write_text(json.dumps(document))
    checks = icvs(verify_capture(CAPTURES / "psk-classic.pcap", str(tmp_path / "keys.json")))
    assert {(check.side, check.outcome, check.why) for check in checks} == {
        (known, "passed", None),
        (other, "not made", f"the key files have no keys for messages of the {other}"),
    }


def test_a_missing_fragment_leaves_the_icv_unchecked(tmp_path):
    """The IKE_INTERMEDIATE request has two, and the capture of it but the first."""
    total = json.loads((CAPTURES / "pq-mlkem768-psk.truth.json").read_text())["ini"]
    assert ["gen", "IKE_INTERMEDIATE", "request", 1, "EF(2/2)"] in total
    numbers = [check.frame for check in icvs(recorded("pq-mlkem768-psk")) if "IKE_INTERMEDIATE 1 req" in check.exchange]

    path = rewritten("pq-mlkem768-psk", tmp_path / "x.pcap", lambda number, frame: None if number in numbers else frame)
    result = verify_capture(path, log_of("pq-mlkem768-psk"))
    (missing,) = (check for check in icvs(result) if check.outcome != "passed")
    assert (missing.outcome, missing.why) == ("not made", "the capture lacks fragment 2 of 2")
    # what IKE_INTERMEDIATE adds to the signed octets of both sides is not known now
    auths = [check for check in result.checks if check.what == "AUTH"]
    assert {(check.outcome, check.why) for check in auths} == {
        ("not made", "not all IKE_INTERMEDIATE messages could be decrypted")
    }


def test_keys_of_another_handshake():
    (check,) = recorded("psk-classic", log_of("loss20-classic")).checks
    assert (check.what, check.outcome) == ("ICV", "not made")
    assert check.why == "the key files have no key of its IKE SA"


def test_nothing_to_check_it_with(tmp_path):
    """Wireshark's integrity algorithms "ANY n-bits [No Checking]" decrypt without a check."""
    keys = json.loads((CAPTURES / "psk-classic.keys.json").read_text())[0]
    (verified,) = recorded("psk-classic").handshakes
    row = [
        verified.spi_i, verified.spi_r, keys["Sk_ei"], keys["Sk_er"], '"AES-CBC-128 [RFC3602]"',
        "", "", '"ANY 128-bits of Authentication [No Checking]"',
    ]  # fmt: skip
    table = tmp_path / "table"
    table.write_text(",".join(row) + "\n")
    checks = icvs(recorded("psk-classic", table))
    assert [(check.outcome, check.why) for check in checks] == [
        ("not made", "the keys come without a way to check it")
    ] * 2


def test_keys_that_cannot_be_used(tmp_path):
    """A key of a length that its cipher does not have."""
    (verified,) = recorded("psk-classic").handshakes
    table = tmp_path / "table"
    row = [
        verified.spi_i,
        verified.spi_r,
        "00" * 16,
        "00" * 16,
        '"AES-CBC-256 [RFC3602]"',
        "00" * 32,
        "00" * 32,
    ]
    table.write_text(",".join(row) + ',"HMAC_SHA2_256_128 [RFC4868]"\n')
    result = recorded("psk-classic", table)
    assert {check.outcome for check in result.checks} == {"not made"}


def test_wrong_keys_that_name_the_ike_sa(tmp_path):
    (verified,) = recorded("psk-classic").handshakes
    table = tmp_path / "table"
    row = [
        verified.spi_i,
        verified.spi_r,
        "00" * 16,
        "00" * 16,
        '"AES-CBC-128 [RFC3602]"',
        "00" * 32,
        "00" * 32,
    ]
    table.write_text(",".join(row) + ',"HMAC_SHA2_256_128 [RFC4868]"\n')
    assert {check.outcome for check in icvs(recorded("psk-classic", table))} == {"failed"}


def test_a_wrong_encryption_key_with_the_right_integrity_key_is_named(tmp_path):
    """AES-CBC with HMAC-SHA2-256: the initiator's IKE_AUTH request is frame 3."""
    keys = json.loads((CAPTURES / "psk-classic.keys.json").read_text())
    keys[0]["Sk_ei"] = "00" * (len(keys[0]["Sk_ei"]) // 2)
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(keys))
    bad, good = icvs(verify_capture(capture_of("psk-classic"), path))
    assert (bad.outcome, bad.frame) == ("failed", 3)
    assert bad.why == "it fits with SK_ai, but SK_ei is wrong: it gives no valid padding or payloads"
    assert (good.outcome, good.frame) == ("passed", 4)


@pytest.mark.parametrize("logs", ["i", "r", "ir"])
def test_libreswan_does_not_log_the_keys_from_before_a_ppk_in_ike_intermediate(logs):
    """With the logs of both peers, each has the same keys: those after it."""
    stem = "libreswan-5.2-ppk-int"
    result = verify_capture(LOGS / f"{stem}.pcap", [LOGS / f"{stem}.{side}.log.gz" for side in logs])
    first = [check for check in icvs(result) if check.exchange.startswith("IKE_INTERMEDIATE")]
    assert [check.outcome for check in first] == ["not made", "not made"]
    assert [check.why for check in first] == [f"no key file has the SK_e{side} of epoch 0" for side in "ir"]
    assert outcomes(icvs(result)) == {"passed": {"ICV": 8}, "not made": {"ICV": 2}}


@pytest.mark.parametrize("keys", [LOGS / "charon-5.9.8-rekeys.i.log.gz"])
def test_icvs_of_ikev1_are_not_checked(keys):
    result = verify_capture(CAPTURES / "ikev1-xauth.pcap", keys)
    assert outcomes(result.checks) == {"not made": {"ICV": 1}}
    assert "IKEv1" in result.checks[0].why
