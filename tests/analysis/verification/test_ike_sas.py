import json
import subprocess

import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.verification.ike_sas import collect_ike_sas
from ikeanalyze.analysis.verification.verify import verify_capture
from tests.analysis.analyse_captures import timed
from tests.analysis.verify_recordings import capture_of, log_of, taken_apart
from tests.craft import Handshake
from tests.paths import CAPTURES
from tests.wire.recorded import ike_messages


def test_messages_as_they_were_sent():
    (sa,), _ = taken_apart("pq-mlkem768-psk")
    request, response = ike_messages("pq-mlkem768-psk")[:2]
    assert sa.request.message == request
    assert sa.response.message == response
    assert (sa.spi_i, sa.spi_r) == (response[:8], response[8:16])
    # of a message in fragments, the first
    assert sa.messages[2].message == ike_messages("pq-mlkem768-psk")[2]
    assert sa.undecrypted == []


def test_the_request_that_was_answered():
    """The first one was refused with INVALID_KE_PAYLOAD."""
    (sa,), _ = taken_apart("invalid-ke")
    messages = ike_messages("invalid-ke")
    assert (sa.request.message, sa.response.message) == messages[2:4]


def test_the_request_that_was_answered_is_not_in_the_capture(tmp_path):
    """The one that was refused is another one: what it signs is unknown, not wrong."""
    capture = tmp_path / "capture.pcap"
    subprocess.run(["editcap", "-F", "pcap", capture_of("invalid-ke"), capture, "3"], check=True)
    checks = verify_capture(capture, log_of("invalid-ke")).checks
    assert [check for check in checks if check.outcome == "failed"] == []
    why = "the capture lacks a message of its IKE_SA_INIT or IKE_SESSION_RESUME exchange"
    assert [check.why for check in checks if check.what == "AUTH"] == [why, why]


def test_key_sets_are_ordered_by_epoch():
    (sa,), _ = taken_apart("pq-mlkem768-psk")
    expected = json.loads((CAPTURES / "pq-mlkem768-psk.keys.json").read_text())
    assert [(key_set.epoch, key_set.keys.sk_d.hex()) for key_set in sa.key_sets] == [
        (epoch, keys["Sk_d"]) for epoch, keys in enumerate(expected)
    ]
    assert sa.last_epoch == 1


def test_a_file_given_twice_is_used_once():
    (sa,), _ = taken_apart("pq-mlkem768-psk", log_of("pq-mlkem768-psk"), log_of("pq-mlkem768-psk"))
    assert [key_set.epoch for key_set in sa.key_sets] == [0, 1]


def test_rekeyed_ike_sas_get_their_key_sets():
    sas, _ = taken_apart("followup")
    first, second, third = sas
    assert (first.parent, second.parent, third.parent) == (None, first, second)
    assert [key_set.epoch for key_set in first.key_sets] == [0, 1, 2]
    assert [len(item.key_sets) for item in (second, third)] == [1, 1]
    # the log has the nonces of each
    for sa in sas:
        assert {key_set.keys.derivation.nonces for key_set in sa.key_sets} == {sa.nonces}


def test_keys_of_other_ike_sas_are_not_used():
    """None of them is given to an IKE SA that it is not of."""
    sas, _ = taken_apart("psk-classic", log_of("loss20-classic"))
    assert [sa.key_sets for sa in sas] == [[]]
    assert [(item.message_id, item.response) for item in sas[0].undecrypted] == [(1, False), (1, True)]


@pytest.mark.parametrize("messages", [0, 1])
def test_captures_with_next_to_nothing(tmp_path, messages):
    path = tmp_path / "x.pcap"
    sent = [(0, Handshake().init()[0])][:messages]
    path.write_bytes(timed(*sent).pcap())
    found = []
    read_captures(
        path, ReadOptions(payloads=True, on_contents=lambda *looked: found.extend(collect_ike_sas(*looked, [])))
    )
    assert [(sa.nonces, sa.response) for sa in found] == [(None, None)] * messages
