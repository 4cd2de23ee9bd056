import json
import re

import pytest

import ikeanalyze
from ikeanalyze.view.message_details import (
    get_message_bytes,
    inspect_payloads,
    list_message_facts,
    render_hex_lines,
    render_message,
)
from ikeanalyze.view.session import CaptureSession
from tests.craft import Handshake, Trace
from tests.paths import CAPTURES
from tests.view.driven import browsed


@pytest.mark.parametrize(
    ("name", "keys"),
    [("pq-mlkem768-psk", "pq-mlkem768-psk.charon.log.gz"), ("loss20-classic", "loss20-classic.keys.json")],
)
def test_payloads_are_those_that_the_daemons_say_they_sent(name, keys):
    capture = next(path.name for path in CAPTURES.glob(f"{name}.pcap*"))
    truth = json.loads((CAPTURES / f"{name}.truth.json").read_text())
    generated = {
        (kind, direction, number): [re.match(r"[A-Za-z]+", word)[0] for word in names.split()]
        for side in ("ini", "res")
        for value, kind, direction, number, names in (line for line in truth[side] if line[0] == "gen")
        if value == "gen" and not names.startswith("EF")
    }
    seen = 0
    for message in browsed(capture, keys).load_handshake(1).messages.values():
        row = message.row
        expected = generated.get((row["type"], row["kind"], row["message_id"]))
        if expected is None or row["type"] == "INFORMATIONAL":
            continue
        seen += 1
        assert [re.match(r"[A-Za-z]+", item.name)[0] for item in inspect_payloads(message)[0]] == expected
    assert seen >= 4


def test_sizes_add_up_to_the_message():
    for message in browsed("lab/mlkem768-psk.pcapng", "lab/mlkem768-psk.keys.json").load_handshake(1).messages.values():
        result, wrong = inspect_payloads(message)
        data = get_message_bytes(message)
        assert not wrong
        assert 28 + sum(item.size for item in result) == len(data) == int.from_bytes(data[24:28], "big")


def test_without_keys_the_encrypted_payload_is_named():
    messages = list(browsed("pq-mlkem768-psk.pcap").load_handshake(1).messages.values())
    assert [item.name for item in inspect_payloads(messages[2])[0]] == ["SKF(1/2)"]
    assert [item.name for item in inspect_payloads(messages[4])[0]] == ["SK"]
    assert "decrypted" not in dict(list_message_facts(messages[4]))


def test_keys_that_do_not_fit_are_shown():
    messages = browsed("pq-mlkem768-psk.pcap", "psk-classic.keys.json").load_handshake(1).messages.values()
    assert {message.row["decrypted"] for message in messages} == {None, False}
    assert "no: no key decrypts it" in dict(list_message_facts(list(messages)[4]))["decrypted"]


def test_problems_are_shown(tmp_path):
    shake = Handshake(1)
    request, _ = shake.init()
    broken = bytearray(request.datagrams[0])
    broken[16] = 99  # the first payload: of a type that nobody knows
    broken[28 + 1] = 0x80  # and critical
    trace = Trace()
    trace.send(0, bytes(broken))
    path = trace.write(tmp_path / "a.pcap")
    (message,) = CaptureSession(str(path), ikeanalyze.read(path)).load_handshake(1).messages.values()
    text = "\n".join(line.text.plain for line in render_message(message))
    assert "unknown 99 (critical)" in text
    assert "! payload of unknown type 99 is critical" in text


def test_bytes_of_each_fragment_and_in_clear():
    message = list(browsed("pq-mlkem768-psk.pcap", "pq-mlkem768-psk.keys.json").load_handshake(1).messages.values())[2]
    text = [line.text.plain for line in render_hex_lines(message, 80)]
    assert text[1] == "frame 4, fragment 1 of 2: 1,248 bytes"
    assert "frame 5, fragment 2 of 2: 66 bytes" in text
    assert "decrypted: 1,220 bytes" in text  # header 28, KE 4 + 4 + 1184
    assert get_message_bytes(message)[28:36] == bytes([0, 0, 1192 >> 8, 1192 & 255, 0, 36, 0, 0])


def test_radius_packets_are_inspected_with_their_attributes():
    opened = browsed("eap-md5-radius.pcapng").load_handshake(1)
    radius = [message for message in opened.messages.values() if message.row["protocol"] == "RADIUS"]
    assert len(radius) == 4
    for message in radius:
        result, _ = inspect_payloads(message)
        assert result[0].size == len(message.parts[0].data) == int.from_bytes(message.parts[0].data[2:4], "big")
