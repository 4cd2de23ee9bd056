"""The recorded handshake with EAP-AKA: what the report, `verify` and tshark find in it, and the same live."""

import polars as pl
import pytest

import ikeanalyze
from ikeanalyze.analysis.verification.verify import verify_capture
from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.scenario.expansion import expand_cases, load_cases
from tests.lab.agreement import check
from tests.paths import CAPTURES, LAB_CAPTURES

CAPTURE, KEYS = LAB_CAPTURES / "eap-aka.pcapng", LAB_CAPTURES / "eap-aka.keys.json"
#: On both links: 10 of IKE, 6 of RADIUS.
PACKETS = 16


def test_the_report_names_the_method_and_counts_sixteen_packets():
    result = ikeanalyze.read(CAPTURE, keys=[KEYS])
    row = result.handshakes.row(0, named=True)
    assert (row["outcome"], row["auth_initiator"], row["auth_eap"]) == ("established", "eap", "EAP-AKA")
    assert row["initiator_frames"] + row["responder_frames"] == 10
    radius = result.messages.filter(pl.col("protocol") == "RADIUS")
    assert radius["type"].to_list() == ["Access-Request", "Access-Challenge"] * 2 + ["Access-Request", "Access-Accept"]
    set_up = result.messages.filter("set_up")["message"]
    assert result.frames.filter(pl.col("message").is_in(set_up.implode())).height == PACKETS
    assert not result.warnings


def test_keys_decrypt_every_message():
    result = ikeanalyze.read(CAPTURE, keys=[KEYS], payloads=True)
    encrypted = result.messages.filter(pl.col("type").is_in(["IKE_AUTH", "INFORMATIONAL"]))
    assert encrypted.height == 10
    assert encrypted["payloads"].null_count() == 0


def test_every_check_of_verify_passes():
    """With the key exchange secrets of charon's log; AUTH of the initiator is made with the MSK of EAP-AKA."""
    checked = verify_capture(str(CAPTURE), [str(LAB_CAPTURES / "eap-aka.responder.log.gz")])
    outcomes = {each.outcome for each in checked.checks}
    assert outcomes == {"passed"}


def test_tshark_counts_the_same_packets_of_eap_aka(tshark):
    """RADIUS carries EAP in the clear: type 23, subtype 5 Identity and 1 Challenge, each way."""
    done = tshark.run(
        "-n", "-Y", "eap.type == 23", "-Tfields", "-e", "eap.code", "-e", "eap.aka.subtype", capture=CAPTURE
    )
    assert done.status == 0, done.stderr
    assert [line.split("\t") for line in done.lines] == [["1", "5"], ["2", "5"], ["1", "1"], ["2", "1"]]
    radius = tshark.run("-n", "-Y", "radius", "-Tfields", "-e", "radius.code", capture=CAPTURE)
    assert radius.lines == ["1", "11", "1", "11", "1", "2"]


@pytest.mark.parametrize("wrong", [False, True])
def test_live_handshakes(lab, tmp_path, wrong):
    """The daemons' logs agree with the capture; a USIM with another key rejects the network."""
    data = {"initiator": {"stack": "ikeanalyze", "auth": "eap-aka", "wrong_secret": wrong}}
    (case,) = expand_cases(data, "x", "x")
    manifest = check(run_case(case, tmp_path))
    (handshake,) = manifest["handshakes"]
    assert handshake["established"] is not wrong
    assert handshake["why"] == ("AUTN does not verify: the server of EAP-AKA has a different key" if wrong else None)
    assert set(handshake["costs"]) == {"aaa", "responder"}  # not the time in which Python starts
    assert len(manifest["expected"]["aaa"]["packets"]) == 6


def test_the_scenario_is_that_of_the_recording():
    (case,) = load_cases(CAPTURES / "scenarios" / "eap-aka.toml")
    assert (case.settings.initiator.stack, case.settings.initiator.auth) == ("ikeanalyze", "eap-aka")
