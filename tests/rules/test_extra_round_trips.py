"""Python, the compiled core and the plugin find extra round trips of IKE_SA_INIT in a capture that is out of order."""

import polars as pl
import pytest

import ikeanalyze
from tests.craft import MS, SECOND, Handshake, Trace
from tests.dissectors.run_plugin import fields, run_plugin
from tests.paths import CAPTURES


def make_capture():
    """The responder asks for another method after 20 ms. Its second response, and after it the request that this
    answers, come later in the capture than the request for IKE_AUTH."""
    trace = Trace()
    first, refusal, second, response, *authentication = Handshake(1).setup(before="INVALID_KE_PAYLOAD")
    for time, message in ((0, first), (20, refusal), (40, authentication[0]), (50, response), (52, second)):
        trace.message(time * MS, message)
    trace.message(70 * MS, authentication[1])
    trace.send(60 * SECOND, b"other traffic", sport=53, dport=53)
    return trace.pcap()


@pytest.mark.usefixtures("implementation")
def test_reports_have_the_refusal_and_its_time():
    analysis = ikeanalyze.read(make_capture())
    assert analysis.handshakes["extra_round_trips"].to_list() == [["INVALID_KE_PAYLOAD"]]
    times = analysis.exchanges.filter(pl.col("type").cast(pl.String) == "IKE_SA_INIT")["rtt_ns"].to_list()
    assert times == [20 * MS, None]


@pytest.mark.turns
def test_the_plugin_has_the_refusal_and_its_time(tshark):
    capture = make_capture()
    assert fields(tshark, capture, "ikex.response_time", only="frame.number == 2") == [["20"]]
    lines = run_plugin(tshark, capture, "-q", "-z", "ikex,handshakes").lines
    assert [line.split()[-1] for line in lines if line.startswith("  1 ")] == ["+INVALID_KE_PAYLOAD"]


def make_capture_of_a_late_acceptance():
    """The capture lacks the request with the cookie, and has its response after the request for IKE_AUTH."""
    trace = Trace()
    first, refusal, _, response, *authentication = Handshake(1).setup(before="COOKIE")
    for time, message in ((0, first), (20, refusal), (40, authentication[0]), (50, response), (70, authentication[1])):
        trace.message(time * MS, message)
    return trace.pcap()


@pytest.mark.usefixtures("implementation")
def test_reports_measure_until_the_refusal_if_the_next_request_is_before_the_acceptance():
    """Counted by hand. The refusal was taken for the ending, but its time was unknown, and so large parts resulted."""
    analysis = ikeanalyze.read(make_capture_of_a_late_acceptance())
    assert analysis.exchanges["rtt_ns"].to_list() == [20 * MS, 30 * MS]
    [handshake] = analysis.handshakes.iter_rows(named=True)
    assert handshake["setup_ns"] == 70 * MS
    parts = ("responder_ns", "initiator_and_network_ns", "retransmission_wait_ns")
    assert [handshake[part] for part in parts] == [50 * MS, 20 * MS, 0]


@pytest.mark.turns
def test_the_plugin_measures_until_the_refusal_if_the_next_request_is_before_the_acceptance(tshark):
    rows = fields(tshark, make_capture_of_a_late_acceptance(), "frame.number", "ikex.response_time")
    assert [row for row in rows if row[1]] == [["2", "20"], ["5", "30"]]


REFUSED_METHOD = CAPTURES / "faults" / "pfs-other-method.pcapng"


def test_reports_have_the_refused_method_of_a_rekeying():
    """Log of the initiator: "peer didn't accept key exchange method MODP_2048, it requested ECP_256", response 2."""
    analysis = ikeanalyze.read(REFUSED_METHOD, keys=[REFUSED_METHOD.with_suffix(".keys.json")])
    asked = analysis.exchanges.filter(pl.col("extra_round_trip").is_not_null())
    columns = asked.select(pl.col("type").cast(pl.String), "message_id", "set_up", "extra_round_trip")
    assert columns.rows() == [("CREATE_CHILD_SA", 2, False, "INVALID_KE_PAYLOAD")]
    # those of the handshake are of its set-up
    assert analysis.handshakes["extra_round_trips"].to_list() in ([None], [[]])
    assert ikeanalyze.read(REFUSED_METHOD).exchanges["extra_round_trip"].null_count() == 6


@pytest.mark.turns
def test_the_plugin_has_the_refused_method_of_a_rekeying(tshark):
    keys = REFUSED_METHOD.with_suffix(".keys.json").read_text()
    names = ("ikex.exchange", "ikex.kind", "ikex.extra_round_trip", "_ws.expert.message")
    shown = fields(tshark, REFUSED_METHOD, *names, only="ikex.extra_round_trip", keys=keys)
    note = "The other side asks for another request: INVALID_KE_PAYLOAD"
    assert shown == [["CREATE_CHILD_SA", "response", "INVALID_KE_PAYLOAD", note]]
