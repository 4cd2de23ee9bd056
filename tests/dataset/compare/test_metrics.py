import re

import polars as pl
import pytest

import ikeanalyze
from ikeanalyze.dataset.compare import CompareError
from ikeanalyze.dataset.compare.metrics import aggregate_exchanges, select_metrics
from tests.dataset.grouped import LAB

ROOT = LAB.parent


def measured(name, *captures, keys=()):
    """A metric of each handshake of captures."""
    result = ikeanalyze.read([ROOT / capture for capture in captures], keys=[ROOT / key for key in keys])
    table = result.handshakes.lazy()
    (metric,) = select_metrics(table, [name])
    rows = table.join(aggregate_exchanges(result.exchanges.lazy()), on=["capture", "handshake"], how="left")
    return rows.sort("handshake").select(metric.value).collect().to_series().to_list()


#: By hand from what tshark 4.0 lists: frame.len, exchange type and message ID of each frame.
COUNTED = {
    ("bytes", "pq-mlkem768-psk.pcap"): [354 + 362 + 1406 + 1199 + 313 + 274],
    ("messages", "pq-mlkem768-psk.pcap"): [6],
    ("frames", "pq-mlkem768-psk.pcap"): [7],
    ("initiator_bytes", "pq-mlkem768-psk.pcap"): [354 + 1406 + 313],
    ("phase_IKE_INTERMEDIATE_bytes", "pq-mlkem768-psk.pcap"): [1406 + 1199],
    ("round_trips", "pq-mlkem768-psk.pcap"): [3],
    ("ike_messages_fragmented", "pq-mlkem768-psk.pcap"): [1],
    ("aaa_messages", "pq-mlkem768-psk.pcap"): [None],
    ("aaa_messages", "eap-md5-radius.pcapng"): [4],
    ("round_trips", "eap-md5-radius.pcapng"): [5],
    ("extra_round_trips", "invalid-ke.pcap"): [1],
    ("phase_IKE_INTERMEDIATE_bytes+initiator_bytes", "pq-mlkem768-psk.pcap"): [1406 + 1199 + 354 + 1406 + 313],
    ("round_trips+extra_round_trips", "invalid-ke.pcap"): [3 + 1],
    ("messages+aaa_messages", "pq-mlkem768-psk.pcap"): [None],
    ("messages+aaa_messages", "eap-md5-radius.pcapng"): [10 + 4],
    ("round_trips", "invalid-ke.pcap"): [3],
    # main mode 3, XAuth 2, quick mode 1 and a message that is not answered
    ("round_trips", "ikev1-xauth.pcap"): [6],
    ("phase_Main_Mode_messages", "ikev1-xauth.pcap"): [6],
    ("retransmissions", "psk-classic.pcap"): [0],
    ("blowup", "psk-classic.pcap"): [1],
    ("after_setup_bytes", "psk-classic.pcap"): [0],
}


@pytest.mark.parametrize(("name", "capture"), COUNTED)
def test_metrics_of_recorded_handshakes(name, capture):
    assert measured(name, capture) == COUNTED[name, capture]


def test_a_phase_that_there_is_not():
    assert measured("phase_IKE_INTERMEDIATE_bytes", "pq-mlkem768-psk.pcap", "psk-classic.pcap") == [
        1406 + 1199,
        0,
    ]


def test_durations_are_in_milliseconds():
    assert measured("setup_ms", "pq-mlkem768-psk.pcap") == [pytest.approx(6.202, abs=5e-4)]


def test_bytes_by_payload():
    captures = ("pq-mlkem768-psk.pcap", "psk-classic.pcap")
    keys = ("pq-mlkem768-psk.charon.log.gz", "psk-classic.charon.log.gz")
    # generic header, method, reserved, data: ECP-384 96 bytes each way, ML-KEM-768 1184 and 1088, ECP-256 64 each way
    assert measured("payload_KE_bytes", *captures, keys=keys) == [
        4 * 8 + 2 * 96 + 1184 + 1088,
        2 * 8 + 2 * 64,
    ]
    # what was looked into and has none, has none; what was not looked into is not known
    assert measured("payload_CERT_bytes", *captures, "lab/rsa-chain3.pcapng", keys=[*keys, "lab/rsa-chain3.keys.json"])[
        :2
    ] == [0, 0]
    assert measured("payload_KE_bytes", *captures, keys=keys[:1])[1] is None


def test_all_metrics_of_the_documentation_are_there():
    text = (ROOT.parent / "docs" / "compare.md").read_text()
    table = text.partition("| metric | what it is |")[2].partition("\n\n")[0]
    names = re.findall(r"`([A-Za-z_]+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:]))
    result = ikeanalyze.read(LAB / "rsa-chain3.pcapng", keys=[LAB / "rsa-chain3.keys.json"])
    assert len(names) > 20
    assert [metric.name for metric in select_metrics(result.handshakes.lazy(), names)] == names


def test_labels_that_are_numbers():
    table = pl.LazyFrame({"loss": [5], "config": ["a"], "cpu_ms": [1.5], "handshake": [1]})
    loss, cpu = select_metrics(table, ["loss", "cpu_ms"])
    assert (loss.unit, cpu.unit) == (None, "ms")
    assert table.select(loss.value, cpu.value).collect().rows() == [(5.0, 1.5)]


@pytest.mark.parametrize("name", ["x", "phases", "start_ns", "setup_ns", "initiator_port", "config", "phase_X_bytes"])
def test_what_is_no_metric(name):
    with pytest.raises(CompareError, match=rf"unknown metric '{name}'.* .docs/compare.md lists the metrics"):
        measured(name, "psk-classic.pcap")


def test_a_sum_has_the_unit_of_its_parts():
    handshakes = ikeanalyze.read(ROOT / "psk-classic.pcap").handshakes.lazy()
    names = ["initiator_bytes + responder_bytes", "messages+retransmissions", "round_trips+retransmissions"]
    assert [(metric.name, metric.unit) for metric in select_metrics(handshakes, names)] == [
        ("initiator_bytes+responder_bytes", "bytes"),
        ("messages+retransmissions", None),
        ("round_trips+retransmissions", None),
    ]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("bytes+setup_ms", "bytes+setup_ms would add bytes to ms"),
        ("bytes+qq", "unknown metric 'qq' (docs/compare.md lists the metrics; "),
        ("bytes+", "unknown metric '' (docs/compare.md lists the metrics; "),
    ],
)
def test_sums_that_there_are_not(name, problem):
    handshakes = ikeanalyze.read(ROOT / "psk-classic.pcap").handshakes.lazy()
    with pytest.raises(CompareError, match=re.escape(problem)):
        select_metrics(handshakes, [name])
