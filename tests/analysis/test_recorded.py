"""The recorded captures against what the daemons say that they sent, against tshark, and against counts by hand."""

import json
import subprocess
from collections import Counter

import polars as pl
import pytest

import ikeanalyze
from tests.analysis.analyse_captures import PARTS
from tests.paths import CAPTURES

NAMES = (
    "psk-classic.pcap",
    "pq-mlkem768-psk.pcap",
    "invalid-ke.pcap",
    "eap-md5-radius.pcapng",
    "loss20-classic.pcap",
)
ETHERNET, IPV4, UDP, MARKER = 14, 20, 8, 4


@pytest.fixture(scope="module", params=NAMES)
def recorded(request):
    path = CAPTURES / request.param
    truth = json.loads((CAPTURES / f"{path.stem}.truth.json").read_text())
    return path, truth, ikeanalyze.read(path)


def sends(events):
    """Frame lengths that the daemon's sends make, in order: source port, bytes on the wire."""
    for event in events:
        if event[0] == "send":
            port, size = event[2], event[5]
            yield port, ETHERNET + IPV4 + UDP + (MARKER if port == 4500 else 0) + size


@pytest.mark.parametrize(("side", "who"), [("ini", "192.0.2.1"), ("res", "192.0.2.2")])
def test_every_frame_is_one_that_the_daemon_sent(recorded, side, who):
    path, truth, analysis = recorded
    frames = analysis.frames.filter(pl.col("source") == who, pl.col("protocol") == "IKEv2").sort("number")
    seen = list(zip(frames["source_port"].to_list(), frames["bytes"].to_list(), strict=True))
    sent = list(sends(truth[side]))
    # the recording of a single handshake ends before the daemons delete the IKE SA
    assert seen == sent[: len(seen)]
    left = [event for event in truth[side] if event[0] == "send"][len(seen) :]
    assert len(left) <= (1 if path.stem != "loss20-classic" else 0)


def exchanges_of(events):
    """Messages that the daemon generated, by exchange type; fragments of one message are one."""
    kinds = Counter()
    for event in events:
        if event[0] == "gen" and not event[4].startswith("EF("):
            kinds[event[1], event[2]] += 1
    return kinds


def test_messages_are_those_that_the_daemons_generated(recorded):
    _, truth, analysis = recorded
    generated = exchanges_of(truth["ini"]) + exchanges_of(truth["res"])
    first = analysis.messages.filter(pl.col("protocol") == "IKEv2", pl.col("transmission") == 1, pl.col("set_up"))
    seen = Counter(zip(first["type"].to_list(), first["kind"].to_list(), strict=True))
    expected = {kind: count for kind, count in generated.items() if kind[0] != "INFORMATIONAL"}
    assert seen == expected


def test_every_handshake_completed(recorded):
    _, truth, analysis = recorded
    assert len(analysis.handshakes) == truth["results"].count("initiate completed successfully")
    assert set(analysis.handshakes["outcome"]) == {"completed"}


def test_retransmissions_of_requests_are_those_of_the_log(recorded):
    _, truth, analysis = recorded
    logged = Counter(event[2] for event in truth["ini"] if event[0] == "rtx")
    again = analysis.messages.filter(
        pl.col("protocol") == "IKEv2", pl.col("sender") == "initiator", pl.col("transmission") > 1
    )
    assert Counter(again["message_id"].to_list()) == logged


#: Counted by hand in tshark's list, first 13 handshakes of loss20-classic: retransmitted requests and responses.
BY_HAND = [0, 6, 3, 0, 4, 0, 1, 2, 4, 1, 0, 3, 1]


def test_retransmissions_counted_by_hand():
    analysis = ikeanalyze.read(CAPTURES / "loss20-classic.pcap")
    handshakes = analysis.handshakes.sort("start_ns")
    assert handshakes["retransmitted_messages"].to_list()[: len(BY_HAND)] == BY_HAND
    second = handshakes.row(1, named=True)
    # frames 15 to 24: five requests and three responses of IKE_SA_INIT, one each of IKE_AUTH
    assert (second["initiator_messages"], second["responder_messages"]) == (6, 4)
    assert second["retransmitted_bytes"] == 4 * 338 + 2 * 371
    assert second["initiator_bytes"] + second["responder_bytes"] == 5 * 338 + 3 * 371 + 800 + 736
    assert second["blowup"] == (5 * 338 + 3 * 371 + 800 + 736) / (338 + 371 + 800 + 736)
    # from frame 15 to frame 24
    assert second["setup_ns"] == 22_599_326_000 - 19_751_384_000
    assert second["retransmission_wait_ns"] == 22_594_348_000 - 19_751_384_000
    first = handshakes.row(0, named=True)
    assert (first["after_setup_initiator_messages"], first["after_setup_responder_messages"]) == (9, 1)


def test_accounting_and_bytes_are_conserved(recorded):
    _, _, analysis = recorded
    (capture,) = analysis.captures
    assert sum(capture.accounting.values()) == capture.packets
    assert sum(capture.accounting_bytes.values()) == capture.bytes
    kept = capture.accounting["ike"] + capture.accounting["radius"] + capture.accounting["hip"]
    assert analysis.frames["number"].n_unique() == kept
    for row in analysis.handshakes.iter_rows(named=True):
        link = {name: row[f"initiator_{name}"] + row[f"responder_{name}"] for name in ("messages", "frames", "bytes")}
        assert link == {item: sum(phase[item] for phase in row["phases"]) for item in link}
        exchanges = analysis.exchanges.filter(pl.col("handshake") == row["handshake"], pl.col("set_up"))
        for key, total in link.items():
            both = exchanges[f"request_{key}"].sum() + exchanges[f"response_{key}"].sum()
            assert both == total
        assert sum(row[part] or 0 for part in PARTS) == row["setup_ns"]


@pytest.mark.tshark
def test_counts_and_bytes_are_those_of_tshark(recorded):
    path, _, analysis = recorded
    fields = (
        "frame.number",
        "frame.len",
        "isakmp.ispi",
        "isakmp.exchangetype",
        "isakmp.messageid",
        "isakmp.flags",
    )
    command = ["tshark", "-r", str(path), "-Y", "isakmp", "-T", "fields"]
    output = subprocess.run(
        [*command, *(word for field in fields for word in ("-e", field))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    seen: Counter = Counter()
    for line in output.splitlines():
        _, size, spi, kind, message_id, flags = line.split("\t")
        key = (spi, int(kind), int(message_id, 16), int(flags, 16))
        seen[(*key, "frames")] += 1
        seen[(*key, "bytes")] += int(size)
    ours: Counter = Counter()
    for row in analysis.frames.filter(pl.col("protocol") == "IKEv2").iter_rows(named=True):
        key = (f"{row['spi_i']:016x}", row["exchange_type"], row["message_id"], row["flags"])
        ours[(*key, "frames")] += 1
        ours[(*key, "bytes")] += row["bytes"]
    assert ours == seen


def test_the_link_to_the_aaa_server():
    analysis = ikeanalyze.read(CAPTURES / "eap-md5-radius.pcapng")
    row = analysis.handshakes.row(0, named=True)
    assert (row["nas_address"], row["aaa_address"]) == ("198.51.100.1", "198.51.100.2")
    # frames 6 and 10 ask, frames 7 and 11 answer
    assert (row["aaa_request_messages"], row["aaa_request_bytes"]) == (2, 172 + 202)
    assert (row["aaa_response_messages"], row["aaa_response_bytes"]) == (2, 122 + 93)
    assert row["aaa_ns"] == (4_767_000 - 3_724_000) + (5_591_000 - 5_354_000)
    assert (row["auth_initiator"], row["auth_eap"], row["auth_guessed"]) == ("eap", "EAP-MD5", False)


def test_what_the_post_quantum_handshake_negotiated():
    analysis = ikeanalyze.read(CAPTURES / "pq-mlkem768-psk.pcap")
    row = analysis.handshakes.row(0, named=True)
    # the scenario: aes256gcm16-prfsha384-ecp384-ke1_mlkem768
    assert row["encryption"] == "AES-GCM-16-256"
    assert row["prf"] == "HMAC-SHA2-384"
    assert row["integrity"] is None
    assert row["key_exchange"] == "ECP-384"
    assert row["additional_key_exchanges"] == [{"slot": 1, "method": "ML-KEM-768", "id": 36}]
    assert [phase["type"] for phase in row["phases"]] == ["IKE_SA_INIT", "IKE_INTERMEDIATE", "IKE_AUTH"]
    assert (row["ike_messages_fragmented"], row["ike_fragments"], row["ip_fragments"]) == (1, 2, 0)


def test_the_refused_key_exchange_is_an_extra_round_trip():
    analysis = ikeanalyze.read(CAPTURES / "invalid-ke.pcap")
    row = analysis.handshakes.row(0, named=True)
    assert row["extra_round_trips"] == ["INVALID_KE_PAYLOAD"]
    assert row["retransmitted_messages"] == 0
    assert row["blowup"] == 1.0
    assert analysis.exchanges["extra_round_trip"].to_list() == ["INVALID_KE_PAYLOAD", None, None]
    assert analysis.exchanges["attempt"].to_list() == [1, 2, 1]
