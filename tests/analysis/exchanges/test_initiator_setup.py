"""The set-up time as the initiator sees it, compared with the initiator's log of recordings made at the responder."""

import gzip
import json
import re
from pathlib import Path

import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from tests.analysis.analyse_captures import AROUND, SEPARATE_PARTS, analyse, obey, only, timed
from tests.analysis.slow_link import record_slow_link
from tests.craft import MS, Handshake
from tests.paths import CAPTURES

LAB = CAPTURES / "lab"
LINE = re.compile(r"(?P<time>[0-9.]+) [0-9]+\[(?P<group>[A-Z]+)\] <lab\|(?P<number>[0-9]+)> (?P<text>.*)")
PARTS = SEPARATE_PARTS[:3]  # of the network, the initiator and the responder
#: Milliseconds that the daemon takes to log what it received, with the resolution of the log.
LATENCY = 8


def read_log(path: Path) -> list[float]:
    """Set-up times in charon's log in ms: from the first request to the packet with the last IKE_AUTH response."""
    begin: dict[str, float] = {}
    end: dict[str, float] = {}
    received = 0.0
    with gzip.open(path, "rt", errors="replace") as lines:
        for match in filter(None, map(LINE.match, lines)):
            text, number, time = match["text"], match["number"], float(match["time"])
            if text.startswith("generating IKE_SA_INIT request 0"):
                begin.setdefault(number, time)
            elif text.startswith("received packet"):
                received = time
            elif text.startswith("parsed IKE_AUTH response"):
                end[number] = received
    return [(end[number] - begin[number]) * 1000 for number in end]


@pytest.mark.parametrize("name", ["satellite", "cookie", "psk", "ecdsa", "rsa-chain3", "loss20", "ip-fragments"])
def test_it_is_the_time_in_the_initiators_log(name):
    handshakes = read_captures(LAB / f"{name}.pcapng").handshakes
    seen = [ns / MS for ns in handshakes["initiator_setup_ns"].drop_nulls().to_list()]
    assert seen == pytest.approx(read_log(LAB / f"{name}.initiator.log.gz"), abs=LATENCY)


def test_jitter_makes_it_inexact():
    """The round-trip time is that of the link without jitter: up to 15 ms more or less in each direction."""
    seen = [ns / MS for ns in read_captures(LAB / "jitter.pcapng").handshakes["initiator_setup_ns"].to_list()]
    assert seen == pytest.approx(read_log(LAB / "jitter.initiator.log.gz"), abs=30 + LATENCY)


def test_without_the_manifest_it_is_unknown():
    (row,) = read_captures(LAB / "satellite.pcapng", ReadOptions(lab_manifests=False)).handshakes.to_dicts()
    assert (row["vantage"], row["initiator_setup_ns"]) == ("unknown", None)
    given = ReadOptions(vantage="responder", rtt_ms=500)
    (row,) = read_captures(LAB / "satellite.pcapng", given).handshakes.to_dicts()
    assert row["initiator_setup_ns"] - row["setup_ns"] == 500 * MS
    assert row["path_rtt_source"] == "given"


def test_a_manifest_of_another_side_or_capture_is_not_used(tmp_path):
    name = "satellite.pcapng"
    given = ReadOptions(vantage="initiator")
    (row,) = read_captures(LAB / name, given).handshakes.to_dicts()
    assert row["path_rtt_source"] == "smallest seen"
    copy = tmp_path / "copy.pcapng"
    copy.write_bytes((LAB / name).read_bytes())
    manifest = json.loads((LAB / "satellite.manifest.json").read_text())
    (tmp_path / "copy.manifest.json").write_text(json.dumps(manifest))
    (row,) = read_captures(copy).handshakes.to_dicts()
    assert row["vantage"] == "unknown"


def test_at_the_initiator_it_is_the_set_up_time():
    request, response, auth, done = Handshake(1).setup()
    trace = timed((0, request), (20, response), (23, auth), (53, done))
    assert only(analyse(trace, vantage="initiator"))["initiator_setup_ns"] == 53 * MS
    assert only(analyse(trace, vantage="responder", rtt_ms=40))["initiator_setup_ns"] == 93 * MS
    # an estimate is not enough
    assert only(analyse(trace, vantage="responder"))["initiator_setup_ns"] is None


def test_a_slow_link_takes_time_to_transmit_messages(tmp_path):
    messages = Handshake(1).setup(intermediate=[(2, 1)], auth=(3, 2))
    captures = record_slow_link(tmp_path, messages, up_kbps=64, down_kbps=128, delay_ms=25, work_ms=5)
    initiator, responder = (only(obey(read_captures(path))) for path in captures)
    assert responder["initiator_setup_ns"] == pytest.approx(initiator["setup_ns"], abs=10)
    assert initiator["initiator_setup_ns"] == initiator["setup_ns"]

    def transmit(chosen):
        sizes = [(AROUND + len(data), 64 if message.from_initiator else 128) for message, data in chosen]
        return sum(size * 8 / rate for size, rate in sizes)  # bits / (kbit/s) are ms

    frames = [(message, data) for message in messages for data in message.datagrams]
    # three round trips of 50 ms, and every frame; both sides work for 5 ms before each message but the first
    assert [initiator[part] / MS for part in PARTS] == pytest.approx([150 + transmit(frames), 10, 15], abs=0.01)
    # two round trips, all frames but the first one of the first request and those of the last response
    last = len(messages[-1].datagrams)
    assert [responder[part] / MS for part in PARTS] == pytest.approx(
        [100 + transmit(frames[1:-last]), 10, 15], abs=0.01
    )
