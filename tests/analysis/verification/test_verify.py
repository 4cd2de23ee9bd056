"""Whole verifications of recorded captures: everything passes that daemons have accepted."""

import subprocess

import dpkt
import pytest

from ikeanalyze.analysis.verification.verify import verify_capture
from ikeanalyze.keys.psk import PskError
from tests.analysis.verify_recordings import RECORDED, capture_of, log_of, outcomes, recorded
from tests.keys.dumps import log
from tests.keys.logs_of import LOGS
from tests.paths import CAPTURES

#: With what their messages show by themselves: encrypted messages, AUTH payloads.
EXPECTED = {
    "psk-classic": (2, 2),
    "invalid-ke": (2, 2),
    "pq-mlkem768-psk": (4, 2),
    "eap-md5-radius": (8, 3),
    "loss20-classic": (100, 50),
    "libreswan": (6, 4),
    "rsa": (4, 2),
}


@pytest.mark.parametrize("name", [name for name in RECORDED if name != "wrong-psk"])
def test_recorded_captures_pass_all_checks(name):
    result = recorded(name)
    counted = outcomes(result.checks)
    assert set(counted) == {"passed"}
    assert not result.skipped
    assert all(handshake.checks for handshake in result.handshakes)
    if name in EXPECTED:
        assert (counted["passed"]["ICV"], counted["passed"]["AUTH"]) == EXPECTED[name]


@pytest.mark.parametrize(("name", "packets"), [("invalid-ke", 6), ("pq-mlkem768-psk", 8), ("eap", 14), ("mgr", 31)])
def test_no_check_fails_because_of_a_packet_that_the_capture_lacks(name, packets, tmp_path):
    """What cannot be computed without the packet is not checked."""
    failures = {}
    for packet in map(str, range(1, packets + 1)):
        capture = tmp_path / packet
        subprocess.run(["editcap", "-F", "pcap", capture_of(name), capture, packet], check=True)
        result = verify_capture(capture, log_of(name))
        assert result.captures[0].packets == packets - 1
        failures[packet] = [check for check in result.checks if check.outcome == "failed"]
    assert not any(failures.values())


def test_ids_are_those_of_the_report():
    import ikeanalyze

    result = recorded("followup")
    table = ikeanalyze.read(capture_of("followup"), keys=log_of("followup")).handshakes
    assert [
        (handshake.id, handshake.spi_i, handshake.spi_r, handshake.replaces) for handshake in result.handshakes
    ] == table.select("handshake", "spi_i", "spi_r", "replaces").rows()


def test_order_of_the_checks():
    kinds = [check.what for check in recorded("pq-mlkem768-psk").checks]
    assert kinds == (
        ["ICV"] * 4
        + ["nonces", "SKEYSEED", "SK_d", "SK_ei", "SK_er", "SK_pi", "SK_pr"] * 2
        + ["IntAuth"] * 2
        + ["signed octets", "AUTH"] * 2
    )


def test_several_key_files_of_which_one_is_none(tmp_path):
    bad = tmp_path / "bad.log"
    bad.write_text("nothing of use\n")
    result = verify_capture(capture_of("psk-classic"), [bad, log_of("psk-classic")])
    assert set(outcomes(result.checks)) == {"passed"}
    assert [(item.path, item.keys) for item in result.skipped] == [(str(bad), True)]
    assert not result.skipped[0].reason.startswith(str(bad))


def test_unreadable_captures_are_skipped(tmp_path):
    result = verify_capture(tmp_path / "none", log_of("psk-classic"))
    assert (result.captures, result.checks, len(result.skipped)) == ([], [], 1)


def test_no_usable_psk(tmp_path):
    with pytest.raises(PskError):
        verify_capture(capture_of("psk-classic"), log_of("psk-classic"), psk=tmp_path / "none")


def test_what_has_no_ike(tmp_path):
    empty = tmp_path / "x.pcap"
    empty.write_bytes(capture_of("psk-classic").read_bytes()[:24])
    assert verify_capture(empty, log_of("psk-classic")).checks == []


def test_radius_responses_without_their_requests(tmp_path):
    """EAP in them still tells to which exchange they belong."""
    path = tmp_path / "x.pcap"
    with capture_of("eap-md5-radius").open("rb") as source, path.open("wb") as target:
        writer = dpkt.pcap.Writer(target, nano=True)
        for time, frame in dpkt.pcapng.Reader(source):
            udp = dpkt.ethernet.Ethernet(frame).data.data
            if not (isinstance(udp, dpkt.udp.UDP) and udp.dport == 1812):
                writer.writepkt(frame, time)
    result = verify_capture(path, log_of("eap-md5-radius"))
    assert set(outcomes(result.checks)) == {"passed"}


def test_keys_of_other_ike_sas_leave_handshakes_unchecked():
    """Four handshakes, of which the log says nothing: one check each."""
    result = verify_capture(CAPTURES / "ip-fragments-loss10.pcap", LOGS / "charon-5.9.8-rekeys.i.log.gz")
    assert {check.outcome for check in result.checks} == {"not made"}
    assert len(result.checks) == len(result.handshakes) == 4


@pytest.mark.parametrize("name", ["pq-mlkem768-psk", "eap-md5-radius"])
def test_checks_contain_no_secret(name):
    shown = repr(recorded(name))
    secrets = [content for label, content in log(name) if "ecret" in label or label in ("SKEYSEED", "SK_p")]
    assert len(secrets) > 8
    for secret in secrets:
        if len(secret) > 3:
            assert secret.hex()[:16] not in shown
            assert secret.decode("latin-1") not in shown
