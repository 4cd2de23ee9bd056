from craft import MS, Handshake, Trace

import ikeanalyze
from ikeanalyze.view.differences import differences
from ikeanalyze.view.opening import Browsed
from tests.view.driven import browsed


def text(one, other, width: int = 80) -> str:
    return "\n".join(line.text.plain for line in differences(one, other, width))


def test_a_retransmission_has_the_same_bytes():
    messages = list(browsed("loss20-classic.pcap").open(3).messages.values())
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
    what = Browsed(str(path), ikeanalyze.read(path))
    one, other = (next(iter(what.open(number).messages.values())) for number in (1, 2))
    said = text(one, other)
    assert said.count("≠") == 1
    assert f"2 of {len(data)} differ, from byte 7 on" in said
    rows = [line for line in said.splitlines() if line[2:6] == f"{at // 16 * 16:04x}"]
    assert [line[0] for line in rows] == ["<", ">"]
    assert rows[0] != rows[1]
    assert text(one, one).count("all the same") == 1


def test_a_payload_more_and_another_value():
    messages = list(browsed("invalid-ke.pcap", "invalid-ke.keys.json").open(1).messages.values())
    first, second = (one for one in messages if one.row["message_id"] == 0 and one.row["kind"] == "request")
    said = text(first, second)
    assert "≠ KE(" in said
    refused = next(one for one in messages if one.row["kind"] == "response")
    said = text(first, refused)
    assert "> N(INVALID_KE_PAYLOAD" in said
    assert "< SA " in said


def test_what_is_encrypted_is_said_to_be():
    messages = list(browsed("pq-mlkem768-psk.pcap").open(1).messages.values())
    said = text(messages[0], messages[4])
    assert "what is encrypted is compared with --keys alone" in said
    assert "> SK  239 bytes" in said
    assert "with --keys" not in text(messages[0], messages[1])


def test_many_differences_are_cut():
    messages = list(
        browsed("lab/mlkem768-psk.pcapng", "lab/mlkem768-psk.keys.json").open(1).messages.values()
    )
    request, response = messages[2:4]
    said = text(request, response)
    assert said.count("\n< 0") == said.count("\n> 0") == 64
    assert "more rows" in said
