import time
from collections import Counter
from dataclasses import replace

import ikeanalyze
from ikeanalyze.view.differences import compare_messages
from ikeanalyze.view.session import CaptureSession
from tests.craft import MS, Handshake, Trace, ike
from tests.view.driven import browsed


def text(one, other, width: int = 80) -> str:
    return "\n".join(line.text.plain for line in compare_messages(one, other, width))


def test_a_retransmission_has_the_same_bytes():
    messages = list(browsed("loss20-classic.pcap").load_handshake(3).messages.values())
    reported = text(messages[0], messages[1])
    assert "  400.236 ms later" in reported
    assert "from initiator, retransmission 1" in " ".join(reported.split())
    assert reported.count("= ") == 8  # payloads, as the daemon's log lists them
    assert "≠" not in reported
    assert "Bytes: 296 bytes, all the same" in reported


def test_one_byte_of_the_nonce(tmp_path):
    request = Handshake(1).init()[0]
    data = bytearray(request.datagrams[0])
    at = data.index(data[-30:-20])
    trace = Trace()
    trace.send(0, bytes(data))
    data[at] ^= 1
    data[7] ^= 1  # another IKE SA
    trace.send(5 * MS, bytes(data))
    path = trace.write(tmp_path / "a.pcap")
    capture_session = CaptureSession(str(path), ikeanalyze.read(path))
    first, second = (next(iter(capture_session.load_handshake(number).messages.values())) for number in (1, 2))
    reported = text(first, second)
    assert reported.count("≠") == 1
    assert f"2 of {len(data)} differ, from byte 7 on" in reported
    rows = [line for line in reported.splitlines() if line[2:6] == f"{at // 16 * 16:04x}"]
    assert [line[0] for line in rows] == ["<", ">"]
    assert rows[0] != rows[1]
    assert text(first, first).count("all the same") == 1


def test_a_payload_more_and_another_value():
    messages = list(browsed("invalid-ke.pcap", "invalid-ke.keys.json").load_handshake(1).messages.values())
    first, second = (
        message for message in messages if message.row["message_id"] == 0 and message.row["kind"] == "request"
    )
    reported = text(first, second)
    assert "≠ KE(" in reported
    refused = next(message for message in messages if message.row["kind"] == "response")
    reported = text(first, refused)
    assert "> N(INVALID_KE_PAYLOAD" in reported
    assert "< SA " in reported


def test_what_is_encrypted_is_said_to_be():
    messages = list(browsed("pq-mlkem768-psk.pcap").load_handshake(1).messages.values())
    reported = text(messages[0], messages[4])
    assert "encrypted payloads are compared only with --keys" in reported
    assert "> SK  239 bytes" in reported
    assert "with --keys" not in text(messages[0], messages[1])


def test_of_bytes_that_are_gone_nothing_is_said(tmp_path):
    first, second = list(browsed("loss20-classic.pcap").load_handshake(3).messages.values())[:2]
    gone = replace(first, parts=()), replace(second, parts=())
    for left, right, which in (
        (*gone, "the first message and the second message"),
        (first, gone[1], "the second message"),
    ):
        reported = text(left, right)
        assert f"Bytes of {which}: no longer found in the capture" in reported
        assert "the same\n" not in reported.split("Bytes of ")[1] + "\n"


def test_more_payloads_than_anybody_sends(tmp_path):
    """8,000 notifies of two types each: a search for what stands for what would take minutes."""
    trace = Trace()
    for number in (1, 2):
        notifies = [ike.notify(16384 + (place * number // 3) % 2) for place in range(8_000)]
        trace.send(number * MS, ike.message(bytes([number] * 8), bytes(8), 34, 0x08, 0, notifies))
    path = trace.write(tmp_path / "many.pcap")
    capture_session = CaptureSession(str(path), ikeanalyze.read(path))
    first, second = (next(iter(capture_session.load_handshake(number).messages.values())) for number in (1, 2))
    begin = time.process_time()
    lines = list(compare_messages(first, second, 80))
    assert time.process_time() - begin < 10
    signs = Counter(line.text.plain[:4] for line in lines if line.text.plain.rstrip().endswith("8 bytes"))
    same = sum(line.text.plain.startswith("= N(") for line in lines)
    assert signs["< N("] == signs["> N("] == 8_000 - same > 0


def test_many_differences_are_cut():
    messages = list(
        browsed("lab/mlkem768-psk.pcapng", "lab/mlkem768-psk.keys.json").load_handshake(1).messages.values()
    )
    request, response = messages[2:4]
    reported = text(request, response)
    assert reported.count("\n< 0") == reported.count("\n> 0") == 64
    assert "more rows" in reported
