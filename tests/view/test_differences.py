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
    said = text(messages[0], messages[1])
    assert "  400.236 ms later" in said
    assert "from initiator, retransmission 1" in " ".join(said.split())
    assert said.count("= ") == 8  # payloads, as the daemon's log lists them
    assert "≠" not in said
    assert "Bytes: 296 bytes, all the same" in said


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
    what = CaptureSession(str(path), ikeanalyze.read(path))
    one, other = (next(iter(what.load_handshake(number).messages.values())) for number in (1, 2))
    said = text(one, other)
    assert said.count("≠") == 1
    assert f"2 of {len(data)} differ, from byte 7 on" in said
    rows = [line for line in said.splitlines() if line[2:6] == f"{at // 16 * 16:04x}"]
    assert [line[0] for line in rows] == ["<", ">"]
    assert rows[0] != rows[1]
    assert text(one, one).count("all the same") == 1


def test_a_payload_more_and_another_value():
    messages = list(browsed("invalid-ke.pcap", "invalid-ke.keys.json").load_handshake(1).messages.values())
    first, second = (one for one in messages if one.row["message_id"] == 0 and one.row["kind"] == "request")
    said = text(first, second)
    assert "≠ KE(" in said
    refused = next(one for one in messages if one.row["kind"] == "response")
    said = text(first, refused)
    assert "> N(INVALID_KE_PAYLOAD" in said
    assert "< SA " in said


def test_what_is_encrypted_is_said_to_be():
    messages = list(browsed("pq-mlkem768-psk.pcap").load_handshake(1).messages.values())
    said = text(messages[0], messages[4])
    assert "encrypted payloads are compared only with --keys" in said
    assert "> SK  239 bytes" in said
    assert "with --keys" not in text(messages[0], messages[1])


def test_of_bytes_that_are_gone_nothing_is_said(tmp_path):
    one, other = list(browsed("loss20-classic.pcap").load_handshake(3).messages.values())[:2]
    gone = replace(one, parts=()), replace(other, parts=())
    for left, right, which in (
        (*gone, "the first message and the second message"),
        (one, gone[1], "the second message"),
    ):
        said = text(left, right)
        assert f"Bytes of {which}: no longer found in the capture" in said
        assert "the same\n" not in said.split("Bytes of ")[1] + "\n"


def test_more_payloads_than_anybody_sends(tmp_path):
    """8,000 notifies of two types each: a search for what stands for what would take minutes."""
    trace = Trace()
    for number in (1, 2):
        notifies = [ike.notify(16384 + (place * number // 3) % 2) for place in range(8_000)]
        trace.send(number * MS, ike.message(bytes([number] * 8), bytes(8), 34, 0x08, 0, notifies))
    path = trace.write(tmp_path / "many.pcap")
    what = CaptureSession(str(path), ikeanalyze.read(path))
    one, other = (next(iter(what.load_handshake(number).messages.values())) for number in (1, 2))
    begin = time.process_time()
    lines = list(compare_messages(one, other, 80))
    assert time.process_time() - begin < 10
    signs = Counter(line.text.plain[:4] for line in lines if line.text.plain.rstrip().endswith("8 bytes"))
    same = sum(line.text.plain.startswith("= N(") for line in lines)
    assert signs["< N("] == signs["> N("] == 8_000 - same > 0


def test_many_differences_are_cut():
    messages = list(
        browsed("lab/mlkem768-psk.pcapng", "lab/mlkem768-psk.keys.json").load_handshake(1).messages.values()
    )
    request, response = messages[2:4]
    said = text(request, response)
    assert said.count("\n< 0") == said.count("\n> 0") == 64
    assert "more rows" in said
