"""The RADIUS packets of a responder decide how a handshake ended, and which transmission was answered."""

from random import Random

import pytest

from tests.craft import MS, SECOND, Handshake, Trace, eap, radius
from tests.dissectors.run_plugin import fields, run_plugin

GATEWAY, SERVER = "198.51.100.1", "198.51.100.2"
START = eap.eap(eap.RESPONSE, 0, eap.IDENTITY, b"x")
CHALLENGE = eap.eap(eap.REQUEST, 1, eap.MD5, b"z")
REQUEST = radius.access_request(1, START, Random(1))


def play(*times):
    """The messages of a handshake with EAP at these times in ms: IKE_SA_INIT, and exchanges of IKE_AUTH."""
    trace = Trace()
    for time, message in zip(times, Handshake(1).setup(eap=2), strict=False):
        trace.message(time * MS, message)
    return trace


def ask(trace, *times):
    for time in times:
        trace.send(time * MS, REQUEST, sport=40000, dport=1812, source=GATEWAY, destination=SERVER)


def answer(trace, time, packet):
    trace.send(time * MS, packet, sport=1812, dport=40000, source=SERVER, destination=GATEWAY)


def wait(trace, seconds):
    trace.send(seconds * SECOND, b"other traffic", sport=53, dport=53)


def outcome(tshark, trace):
    [row] = fields(tshark, trace.pcap(), "ikex.outcome", "ikex.reason", only="frame.number == 1")
    return tuple(row)


def test_an_access_reject_fails_the_handshake(tshark):
    trace = play(0, 10, 30, 40, 60, 70)
    ask(trace, 63)
    answer(trace, 67, radius.reject(REQUEST, eap.eap(eap.FAILURE, 9)))
    assert outcome(tshark, trace) == ("failed", "Access-Reject")


def test_a_replay_an_hour_later_has_its_own_requests(tshark):
    """The handshake has six messages, then come an Access-Request and an Access-Reject."""
    trace = play(0, 10, 30, 40, 60, 70)
    ask(trace, 63)
    answer(trace, 67, radius.reject(REQUEST, eap.eap(eap.FAILURE, 9)))
    trace.repeat(trace.packets, 3600 * SECOND)
    rows = fields(tshark, trace.pcap(), "ikex.handshake", "ikex.outcome", "ikex.reason", only="ikex.handshake")
    assert {tuple(row) for row in rows} == {("1", "failed", "Access-Reject"), ("2", "failed", "Access-Reject")}


@pytest.mark.parametrize("times", [[63], [63, 1063]])
def test_a_server_that_answers_no_repeated_request_fails_the_handshake(tshark, times):
    trace = play(0, 10, 30, 40, 60, 3070)
    ask(trace, *times)
    expected = ("failed", "AAA server silent") if len(times) > 1 else ("completed", "")
    assert outcome(tshark, trace) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(1, "cut"), (60, "half-open")])
def test_a_server_that_still_asked_shows_that_eap_was_not_finished(tshark, seconds, expected):
    trace = play(0, 10, 30, 40, 60, 70)
    ask(trace, 63)
    answer(trace, 67, radius.challenge(REQUEST, CHALLENGE, b"state"))
    wait(trace, seconds)
    assert outcome(tshark, trace) == (expected, "")


def test_a_responder_that_asks_its_server_has_received_the_request(tshark):
    """The request was repeated while the server was slow: the response answers the first transmission."""
    messages = Handshake(1).setup(eap=2)
    trace = play(0, 10, 30, 40, 60)
    trace.message(560 * MS, messages[4])
    trace.message(1070 * MS, messages[5])
    ask(trace, 63)
    answer(trace, 1067, radius.challenge(REQUEST, CHALLENGE, b"state"))
    rows = fields(tshark, trace.pcap(), "ikex.response_time", only="ikex.response_time")
    assert [float(time) for [time] in rows] == [10, 10, 1010]


def test_conversations_that_fit_two_handshakes_belong_to_the_one_that_the_station_id_names(tshark):
    """Both responders wait at the same time; one of them is refused."""
    request = radius.access_request(1, START, Random(1), more=[(radius.CALLING_STATION_ID, b"192.0.2.9[500]")])
    trace = Trace()
    for number, initiator in enumerate(("192.0.2.8", "192.0.2.9"), 1):
        for time, message in zip(
            (0, 10, 30, 40, 60, 70), Handshake(number, initiator=initiator).setup(eap=2), strict=False
        ):
            trace.message(time * MS + number, message)
    trace.send(63 * MS, request, sport=40000, dport=1812, source=GATEWAY, destination=SERVER)
    answer(trace, 67, radius.reject(request, eap.eap(eap.FAILURE, 9)))
    lines = run_plugin(tshark, trace.pcap(), "-q", "-z", "ikex,handshakes").lines
    rows = [line.split() for line in lines if line.split()[:1] in (["1"], ["2"])]
    assert [(row[3], row[13]) for row in rows] == [("192.0.2.8", "completed"), ("192.0.2.9", "failed")]
