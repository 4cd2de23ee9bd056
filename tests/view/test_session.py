import json

import polars as pl
import pytest

import ikeanalyze
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.keys.detect import read_keys
from ikeanalyze.view.message_details import inspect_payloads, render_message
from ikeanalyze.view.session import CaptureSession
from tests.analysis.recorded_captures import followup_keys
from tests.craft import MS, Handshake, Trace, hip, link, transport
from tests.craft.transport import ACK, SYN, TCP_PREFIX, tcp_framed
from tests.paths import CAPTURES
from tests.view.driven import browsed

#: Of the variants of one scenario ("_" in their names) none: they differ in what is of no matter here.
RECORDED = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.pcap*") if "_" not in path.name)


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_opened_is_what_all_at_once_gives(name):
    keys = [f"{name.rsplit('.', 1)[0]}.keys.json"]
    keys = keys if (CAPTURES / keys[0]).exists() else []
    what = browsed(name, *keys)
    whole = ikeanalyze.read(what.path, keys=[str(CAPTURES / key) for key in keys], payloads=True)
    ids = what.analysis.handshakes["handshake"].to_list()
    for handshake in {ids[0], ids[-1]}:
        opened = what.load_handshake(handshake)
        expected = whole.messages.filter(pl.col("handshake") == handshake)
        assert opened.analysis.messages["payloads"].to_list() == expected["payloads"].to_list()
        assert all(message.parts for message in opened.messages.values())


def test_bytes_are_those_that_the_daemons_sent():
    truth = json.loads((CAPTURES / "pq-mlkem768-psk.truth.json").read_text())
    for side, sender in (("ini", "initiator"), ("res", "responder")):
        sent = [line[-1] for line in truth[side] if line[0] == "send"]
        opened = browsed("pq-mlkem768-psk.pcap").load_handshake(1)
        sizes = [
            len(part.data)
            for message in opened.messages.values()
            if message.row["sender"] == sender
            for part in message.parts
        ]
        assert sizes == sent[: len(sizes)]
        assert len(sizes) >= 3


def test_ip_fragments_are_put_together():
    opened = browsed("lab/ip-fragments.pcapng").load_handshake(1)
    several = [message for message in opened.messages.values() if message.row["ip_fragments"]]
    assert several
    for message in several:
        (part,) = message.parts
        assert len(message.frames) > 1
        assert len(part.data) == int.from_bytes(part.data[24:28], "big")


def test_messages_of_a_tcp_stream(tmp_path):
    shake, trace = Handshake(1, switch=False), Trace()
    at, now = {True: 1000, False: 5000}, 0

    def segment(out: bool, data: bytes, flags: int = ACK) -> None:
        nonlocal now
        ends, ports = ("192.0.2.1", "192.0.2.2"), (40000, 4500)
        if not out:
            ends, ports = ends[::-1], ports[::-1]
        packet = transport.tcp_packet(data, *ports, at[out], 1, flags, *ends)
        trace.add(now, link.ethernet(packet))
        at[out] += len(data) + bool(flags & SYN)
        now += MS

    segment(True, b"", SYN)
    segment(False, b"", SYN | ACK)
    request, response = shake.init()
    framed = TCP_PREFIX + tcp_framed(request.ike[0])
    segment(True, framed[:90])
    segment(True, framed[90:])
    segment(False, tcp_framed(response.ike[0]))
    path = trace.write(tmp_path / "tcp.pcap")
    opened = CaptureSession(str(path), ikeanalyze.read(path)).load_handshake(1)
    assert [message.parts[0].data for message in opened.messages.values()] == [request.ike[0], response.ike[0]]
    assert [message.frames for message in opened.messages.values()] == [(3, 4), (5,)]


def test_a_rekeyed_ike_sa_is_opened_with_what_the_one_before_agreed_on(tmp_path):
    file = tmp_path / "keys.json"
    file.write_text(followup_keys())
    keys = [read_keys(str(file))]
    path = str(CAPTURES / "pq-followup-ke.pcap")
    capture_session = CaptureSession(path, read_captures(path, ReadOptions(keys=keys)), keys)
    replaced = capture_session.analysis.handshakes.filter(pl.col("replaces").is_not_null())
    assert replaced.height
    for handshake in replaced["handshake"]:
        opened = capture_session.load_handshake(handshake)
        encrypted = [message for message in opened.messages.values() if message.row["decrypted"] is not None]
        assert encrypted
        assert all(message.content is not None for message in encrypted)


def test_temporary_files_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    browsed("psk-classic.pcap").load_handshake(1)
    assert list(tmp_path.iterdir()) == []


def test_the_repr_has_no_keys():
    what = browsed("pq-mlkem768-psk.pcap", "pq-mlkem768-psk.keys.json")
    secrets = [value for key_set in what._keys[0].key_sets for value in (key_set.sk_ei, key_set.sk_er) if value]
    shown = repr(what.load_handshake(1).messages)
    assert secrets
    for secret in secrets:
        assert secret.hex() not in shown
        assert repr(secret)[2:-1] not in shown


def test_an_unknown_handshake_is_an_error():
    with pytest.raises(LookupError):
        browsed("psk-classic.pcap").load_handshake(9)


def test_a_hip_handshake_is_opened_with_its_messages(tmp_path):
    association = hip.Association(1)
    trace = Trace(mtu=576)
    for place, one in enumerate([*association.setup(), *association.acknowledged()]):
        trace.ip(place * MS, association.ip(one))
    path = str(trace.write(tmp_path / "hip.pcap"))
    at_once = ikeanalyze.read(path, payloads=True)
    opened = CaptureSession(path, ikeanalyze.read(path)).load_handshake(1)
    assert opened.analysis.messages["payloads"].to_list() == at_once.messages["payloads"].to_list()
    assert [message.label for message in opened.messages.values()] == ["I1", "R1", "I2", "R2", "UPDATE 1", "UPDATE 1"]
    second = opened.messages[1]
    assert second.parts[0].data[40:42] == b"\0\x81"  # its first parameter is R1_COUNTER
    result, wrong = inspect_payloads(second)
    assert [item.name for item in result][:2] == ["R1_COUNTER(7)", "PUZZLE(K 10)"]
    assert wrong == []
    assert "SPI" not in str(list(render_message(second)))
