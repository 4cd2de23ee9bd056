"""What is taken out of a capture is what the daemons' logs show as sent."""

import json
import subprocess

import pytest

import ikeanalyze
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.replay.session.recorded_messages import load_recorded_handshakes
from tests.paths import CAPTURES

#: Those whose truth has all that was sent, without IKEv1, NAT and changed addresses between.
NAMES = ["psk-classic", "pq-mlkem768-psk", "invalid-ke", "pq-loss15", "loss20-classic"]


def read(path, ports=()):
    analysis = ikeanalyze.read(path, ports=ports)
    ids = analysis.handshakes.filter(protocol="IKEv2")["handshake"].to_list()
    return load_recorded_handshakes(str(path), analysis, ids, ports)


@pytest.mark.parametrize("name", NAMES)
def test_sizes_and_order_are_those_of_the_log(name):
    path = CAPTURES / f"{name}.pcap"
    truth = json.loads((CAPTURES / f"{name}.truth.json").read_text())
    logged = [(port, size) for value, _, port, _, _, size in (e for e in truth["ini"] if e[0] == "send")]
    ours = [(request.source[1], len(request.data)) for handshake in read(path) for request in handshake.requests]
    # the log has what followed the set-ups as well; what we have is in it, in this order
    rest = iter(logged)
    assert all(our in rest for our in ours)
    assert [size for port, size in ours if port == 500] == [size for port, size in logged if port == 500]


def test_bytes_are_whole_messages():
    for handshake in read(CAPTURES / "pq-loss15.pcap"):
        for message in handshake.messages:
            assert int.from_bytes(message.data[24:28], "big") == len(message.data)
            assert message.role == (500 if message.exchange_type == 34 else 4500)


def test_a_request_with_another_body_has_its_own_answer():
    (one,) = read(CAPTURES / "invalid-ke.pcap")
    first, second = [message for message in one.requests if message.exchange_type == 34]
    assert b"\0\x11" in one.response_to(first).data[28:]  # INVALID_KE_PAYLOAD
    assert len(one.response_to(second).data) == 312


def test_ip_fragments_are_put_together_or_left_out():
    result = read(CAPTURES / "ip-fragments-loss10.pcap")
    messages = [message for item in result for message in item.messages]
    assert max(len(message.data) for message in messages) > 2000
    assert all(len(message.data) == int.from_bytes(message.data[24:28], "big") for message in messages)


@pytest.mark.tshark
def test_what_a_snaplen_cuts_is_left_out(tmp_path):
    """96 bytes of each packet: no IKE_SA_INIT is whole."""
    path = tmp_path / "a.pcap"
    subprocess.run(["editcap", "-s", "96", str(CAPTURES / "psk-classic.pcap"), str(path)], check=True)
    (one,) = read(path)
    assert (one.messages, one.partial, one.first) == ((), 2, None)


def test_ikev1_handshakes_are_rejected():
    assert read(CAPTURES / "ikev1-xauth.pcap") == []


def test_a_capture_that_changes_is_an_error(tmp_path):
    path = tmp_path / "a.pcap"
    path.write_bytes((CAPTURES / "psk-classic.pcap").read_bytes())
    analysis = ikeanalyze.read(path)
    path.write_bytes((CAPTURES / "invalid-ke.pcap").read_bytes())
    with pytest.raises(CaptureError, match="the file changed"):
        load_recorded_handshakes(str(path), analysis, [1])
