"""The plugin and `ikeanalyze report`, two independent implementations, agree on the recorded captures."""

import re
from functools import cache, partial

import polars as pl
import pytest

import ikeanalyze
from tests.craft import MS, SECOND, Handshake, Trace, udp_packet
from tests.dissectors.differential import format_setup
from tests.dissectors.key_files import WITH_KEYS, keys_of
from tests.dissectors.run_plugin import COLUMNS, RECORDED, fields, recorded_frames, recorded_statistics
from tests.paths import CAPTURES

IKE = pl.col("protocol").cast(pl.String).is_in(["IKEv2", "IKEv1"])


@cache
def read_recorded(name, keys=False):
    log = CAPTURES / f"{name.split('.')[0]}.charon.log.gz"
    return ikeanalyze.read(CAPTURES / name, keys=[log] if keys else [])


@pytest.mark.turns
@pytest.mark.parametrize("name", RECORDED)
def test_handshakes_equal_those_of_the_report(tshark, name):
    shown = [line.split()[:14] for line in recorded_statistics(tshark, name)[0][2:]]
    expected = []
    for number, row in enumerate(read_recorded(name).handshakes.filter(IKE).iter_rows(named=True), 1):
        counts = [
            row[f"{side}_{unit}"] for side in ("initiator", "responder") for unit in ("messages", "frames", "bytes")
        ]
        ends = [row[key] for key in ("spi_i", "spi_r", "initiator_address", "responder_address")]
        expected.append(
            [
                str(value)
                for value in (
                    number,
                    *ends,
                    *counts,
                    row["retransmitted_messages"],
                    format_setup(row),
                    row["outcome"] or "-",
                )
            ]
        )
    assert shown == expected


@pytest.mark.turns
@pytest.mark.parametrize("name", RECORDED)
def test_handshake_and_transmission_of_each_frame_equal_those_of_the_report(tshark, name):
    """Also which frames were captured duplicates."""
    rows = [dict(zip(COLUMNS, line, strict=True)) for line in recorded_frames(tshark, name)]
    complete = {
        int(row["frame.number"]): (int(row["ikex.handshake"]), int(row["ikex.transmission"]))
        for row in rows
        if row["ikex.transmission"]
    }
    parts = {int(row["frame.number"]) for row in rows if row["ikex.part_of"]}
    duplicates = {int(row["frame.number"]) for row in rows if row["ikex.duplicate_of"]}
    analysis = read_recorded(name)
    frames = analysis.frames.filter(IKE)
    assert duplicates == set(frames.filter(pl.col("capture_duplicate"))["number"])
    seen = frames.filter(~pl.col("capture_duplicate")).join(
        analysis.messages.select("message", "transmission"), on="message"
    )
    expected = {row["number"]: (row["handshake"], row["transmission"]) for row in seen.iter_rows(named=True)}
    assert complete.keys() | parts == expected.keys()
    assert complete == {number: value for number, value in expected.items() if number in complete}
    assert parts <= set(frames.filter(pl.col("ip_fragment"))["number"])


@pytest.mark.turns
@pytest.mark.parametrize("name", RECORDED)
def test_round_trips_equal_those_of_the_report(tshark, name):
    shown = {}
    for line in recorded_statistics(tshark, name)[1][2:]:
        kind, *numbers = re.split(r"\s{2,}", line)
        shown[kind] = numbers
    exchanges = read_recorded(name).exchanges.filter(~pl.col("type").cast(pl.String).str.starts_with("Access"))
    assert shown.keys() == set(exchanges["type"].cast(pl.String))
    for kind, (count, unanswered, timed, least, mean, most) in shown.items():
        of_type = exchanges.filter(pl.col("type").cast(pl.String) == kind)
        times = of_type["rtt_ns"].drop_nulls() / 1e6
        without_response = of_type["response_messages"].is_null().sum()
        assert [int(count), int(unanswered), int(timed)] == [len(of_type), without_response, len(times)]
        if len(times):
            assert [float(least), float(mean), float(most)] == pytest.approx(
                [times.min(), times.mean(), times.max()], abs=0.001
            )


@pytest.mark.parametrize("tshark", ["forky"], indirect=True)
@pytest.mark.parametrize("stem", WITH_KEYS)
def test_the_plugin_agrees_on_decrypted_payloads_epochs_and_outcomes(tshark, stem):
    """The payloads of every message that was decrypted, its epoch, and the outcome that they prove."""
    name = next(capture for capture in RECORDED if capture.split(".")[0] == stem)
    names = ("frame.number", "ikex.epoch", "ikex.payload", "ikex.outcome")
    lines = fields(tshark, CAPTURES / name, *names, only="ikex.epoch", keys=keys_of(name))
    analysis = read_recorded(name, keys=True)
    decrypted = analysis.messages.filter(pl.col("decrypted")).select("message", "epoch", "payloads")
    frames = analysis.frames.filter(~pl.col("capture_duplicate")).join(decrypted, on="message")
    expected = {}
    for row in frames.iter_rows(named=True):
        payloads = [re.split(r"[^A-Za-z]", text)[0] for text in row["payloads"]]
        expected[row["number"]] = (str(row["epoch"]), ",".join(payloads))
    shown = {int(line[0]): (line[1], line[2]) for line in lines}
    assert shown.keys() == expected.keys()
    assert {number: epoch for number, (epoch, _) in shown.items()} == {
        number: epoch for number, (epoch, _) in expected.items()
    }
    # only the frame that completes a fragmented message has its payloads
    complete = {number: values for number, values in shown.items() if values[1] or not expected[number][1]}
    assert complete == {number: expected[number] for number in complete}
    fragmented = set(frames.filter(pl.col("fragment").is_not_null())["number"])
    assert shown.keys() - complete.keys() <= fragmented
    outcomes = dict.fromkeys(analysis.handshakes.filter(IKE)["outcome"].cast(pl.String))
    assert {line[3] for line in lines} == outcomes.keys()


def rekeyed(old, new, *, by_initiator):
    """An IKE SA that has no IKE_SA_INIT and begins with message ID 0, after another one that created it."""
    new.moved = True
    return [*old.setup(), *old.create_child_sa(), *new.informational(by_initiator=by_initiator)]


#: The messages of an IKE SA, or of two.
UNFINISHED = {
    "the initiator stops": lambda first, _: first.init(),
    "no request with the cookie": lambda first, _: first.setup(before="COOKIE")[:2],
    "no request with the other key exchange": lambda first, _: first.setup(before="INVALID_KE_PAYLOAD")[:2],
    "no response": lambda first, _: first.setup()[:3],
    "a response is missing": lambda first, _: [(messages := first.setup())[0], *messages[2:]],
    "the first request is missing": lambda first, _: first.setup()[1:],
    "only the initiator's messages": lambda first, _: first.setup()[::2],
    "rekeyed by the initiator": partial(rekeyed, by_initiator=True),
    "rekeyed by the responder": partial(rekeyed, by_initiator=False),
}


@pytest.mark.parametrize("snaplen", [262_144, 100])
@pytest.mark.parametrize("end", [1, 60], ids=["the capture ends", "the capture goes on"])
def test_outcomes_of_unfinished_handshakes_equal_those_of_the_report(tshark, tmp_path, end, snaplen):
    """Each case is between other hosts. 100 bytes have no more than the first notify type of a message."""
    trace, cases = Trace(), {}
    for number, (case, play) in enumerate(UNFINISHED.items()):
        hosts = {"initiator": f"192.0.2.{number}", "responder": f"198.51.100.{number}"}
        cases[hosts["initiator"]] = case
        trace.play(play(Handshake(2 * number, **hosts), Handshake(2 * number + 1, **hosts)), at=number * MS)
    trace.ip(end * SECOND, udp_packet(b"something else", 53, 53))
    path = tmp_path / "capture.pcap"
    path.write_bytes(trace.pcap(snaplen=snaplen))
    shown = {(int(number), outcome, reason) for number, outcome, reason in outcomes_of(tshark, path)}
    columns = ("initiator_address", "handshake", "outcome", "reason")
    rows = ikeanalyze.read(path).handshakes.select(columns).sort("handshake").rows()
    assert {cases[host] for host, *_ in rows} == UNFINISHED.keys()
    assert shown == {(number, outcome or "", reason or "") for _, number, outcome, reason in rows}


def outcomes_of(tshark, path):
    return fields(tshark, path, "ikex.handshake", "ikex.outcome", "ikex.reason", only="ikex.handshake")
