"""The link to the AAA server: pairs, conversations, and the handshakes that waited for them."""

from random import Random

import polars as pl
import pytest

from ikeanalyze.wire.radius import parse_radius
from tests.analysis.analyse_captures import AROUND, Handshake, analyse, analyse_files, only, rows
from tests.craft import MS, SECOND, Trace
from tests.craft import eap as eap_
from tests.craft import radius as radius_

NAS, AAA = "198.51.100.1", "198.51.100.2"
SUCCESS = eap_.eap(eap_.SUCCESS, 9)


def ask(trace, time, packet, *, port=40000, server=AAA, to=1812):
    return trace.send(time, packet, sport=port, dport=to, source=NAS, destination=server)


def tell(trace, time, packet, *, port=40000, server=AAA, to=1812):
    return trace.send(time, packet, sport=to, dport=port, source=server, destination=NAS)


class Login:
    """A handshake whose responder asks the AAA server twice: EAP identity, then the method."""

    def __init__(self, seed=1, *, method=eap_.MD5, identifier=1, more=(), **where):
        rng = Random(seed)
        self.ike = Handshake(seed, **where)
        self.messages = self.ike.setup(eap=2)
        start, response = (
            eap_.eap(eap_.RESPONSE, 0, eap_.IDENTITY, b"x"),
            eap_.eap(eap_.RESPONSE, 1, method, b"y"),
        )
        challenge = eap_.eap(eap_.REQUEST, 1, method, b"z")
        self.state = rng.randbytes(16)
        first = radius_.access_request(identifier, start, rng, more=more)
        second = radius_.access_request(identifier + 1, response, rng, state=self.state, more=more)
        self.packets = [
            first,
            radius_.challenge(first, challenge, self.state),
            second,
            radius_.accept(second, SUCCESS),
        ]

    def play(self, trace, at=0, *, ending=None):
        """Exchanges 30 ms apart; the server is asked during IKE_AUTH exchanges 2 and 3, for 4 ms each."""
        for place, message in enumerate(self.messages):
            trace.message(at + (place // 2 * 30 + place % 2 * 10) * MS, message)
        packets = self.packets if ending is None else [*self.packets[:3], ending]
        for place, exchange in enumerate((2, 3)):
            time = at + (exchange * 30 + 3) * MS
            ask(trace, time, packets[place * 2])
            tell(trace, time + 4 * MS, packets[place * 2 + 1])
        return trace


def counts(row):
    return tuple(row[f"aaa_{kind}_{name}"] for kind in ("request", "response") for name in ("messages", "bytes"))


def test_the_conversation_belongs_to_the_handshake_that_waited():
    login = Login()
    analysis = analyse(login.play(Trace()))
    row = only(analysis)
    first, challenge, second, accept = (AROUND + len(packet) for packet in login.packets)
    assert counts(row) == (2, first + second, 2, challenge + accept)
    assert (row["nas_address"], row["aaa_address"]) == (NAS, AAA)
    assert row["aaa_ns"] == 8 * MS
    assert (row["auth_initiator"], row["auth_eap"], row["auth_guessed"]) == ("eap", "EAP-MD5", False)
    assert row["outcome"] == "completed"
    # five exchanges of 10 ms and four gaps of 20; 8 ms of the responder's were the server's
    assert (row["setup_ns"], row["responder_ns"] + (row["network_ns"] or 0)) == (130 * MS, 42 * MS)
    messages = analysis.messages.filter(pl.col("protocol") == "RADIUS")
    assert rows(messages, "type", "sender", "kind", "transmission", "message_id", "exchange") == [
        ("Access-Request", "responder", "request", 1, 1, 2),
        ("Access-Challenge", "aaa", "response", 1, 1, 2),
        ("Access-Request", "responder", "request", 1, 2, 3),
        ("Access-Accept", "aaa", "response", 1, 2, 3),
    ]
    # the link between the peers has none of it
    assert row["initiator_messages"] == row["responder_messages"] == 5


@pytest.mark.parametrize(
    ("method", "name"),
    [(eap_.TLS, "EAP-TLS"), (eap_.TTLS, "EAP-TTLS"), (eap_.PEAP, "PEAP"), (eap_.MSCHAPV2, "MS")],
)
def test_eap_methods_have_names(method, name):
    assert name in only(analyse(Login(method=method).play(Trace())))["auth_eap"]


def test_access_reject_is_the_reason():
    login = Login()
    reject = radius_.reject(login.packets[2], eap_.eap(eap_.FAILURE, 9))
    login.messages = login.messages[:8]
    row = only(analyse(login.play(Trace(), ending=reject)))
    assert (row["outcome"], row["reason"]) == ("failed", "Access-Reject")
    assert row["setup_ns"] is None


def test_a_server_that_never_answers():
    """The responder asks three times and then refuses; the IKE_AUTH exchange that success needs does not come."""
    login = Login()
    trace = Trace()
    for place, message in enumerate(login.messages[:6]):
        late = 3000 if place == 5 else 0
        trace.message((place // 2 * 30 + place % 2 * 10 + late) * MS, message)
    for time in (63, 1063, 2063):
        ask(trace, time * MS, login.packets[0])
    row = only(analyse(trace))
    assert (row["outcome"], row["reason"]) == ("failed", "AAA server silent")
    assert row["setup_ns"] is None


@pytest.mark.parametrize(("asked", "messages"), [((63,), 6), ((63, 65), 10), ((63, 65), 5)])
def test_a_server_whose_answers_are_not_in_the_capture(asked, messages):
    """One request, a continued set-up or a missing response do not show that the server was silent."""
    login = Login()
    trace = Trace()
    for place, message in enumerate(login.messages[:messages]):
        trace.message((place // 2 * 30 + place % 2 * 10) * MS, message)
    for time in asked:
        ask(trace, time * MS, login.packets[0])
    row = only(analyse(trace))
    assert row["outcome"] != "failed"
    assert row["reason"] is None


def test_a_response_that_was_lost_is_waited_for_and_not_the_server():
    """IKE_AUTH exchange 2 is answered at once, but the response comes only when the request comes again."""
    login = Login()
    request, response, *later = login.messages[4:]
    trace = Trace()
    for place, message in enumerate(login.messages[:4]):
        trace.message((place // 2 * 30 + place % 2 * 10) * MS, message)
    for time, message in ((60, request), (70, response), (560, request), (561, response)):
        trace.message(time * MS, message)
    for place, message in enumerate(later):
        trace.message((581 + place // 2 * 30 + place % 2 * 10) * MS, message)
    for start, (asking, answer) in ((63, login.packets[:2]), (584, login.packets[2:])):
        ask(trace, start * MS, asking)
        tell(trace, (start + 4) * MS, answer)
    row = only(analyse(trace, vantage="responder", rtt_ms=20))
    assert row["setup_ns"] == (581 + 40) * MS
    assert row["aaa_ns"] == 8 * MS
    # 500 ms until the request came again, of which the server had 4
    assert row["retransmission_wait_ns"] == 496 * MS
    # turns of 10, 10, 1, 10 (less 4 of the server's) and 10 ms; four gaps of 20 ms are the path
    assert (row["responder_ns"], row["network_ns"], row["initiator_ns"]) == (37 * MS, 80 * MS, 0)


def test_a_server_that_was_still_asking():
    login = Login()
    login.packets = login.packets[:2]
    login.messages = login.messages[:6]
    trace = Trace()
    for place, message in enumerate(login.messages):
        trace.message((place // 2 * 30 + place % 2 * 10) * MS, message)
    ask(trace, 63 * MS, login.packets[0])
    tell(trace, 67 * MS, login.packets[1])
    row = only(analyse(trace))
    assert (row["outcome"], row["reason"], row["aaa_request_messages"]) == ("cut", None, 1)


def test_a_request_sent_again_is_a_retransmission():
    login = Login()
    trace = login.play(Trace())
    ask(trace, 65 * MS, login.packets[0])
    analysis = analyse(trace)
    row = only(analysis)
    first, challenge, second, accept = (AROUND + len(packet) for packet in login.packets)
    assert counts(row) == (3, 2 * first + second, 2, challenge + accept)
    assert (row["aaa_ns"], row["retransmission_wait_ns"]) == (
        6 * MS,
        2 * MS,
    )  # sent at 63 and 65, answered at 67
    assert rows(analysis.handshakes, *(f"aaa_retransmitted_{name}" for name in ("messages", "frames", "bytes"))) == [
        (1, 1, first)
    ]
    again = analysis.messages.filter(pl.col("protocol") == "RADIUS", pl.col("transmission") > 1)
    assert rows(again, "type", "message_id", "needed_bytes") == [("Access-Request", 1, 0)]
    assert row["retransmitted_messages"] == 0  # between the peers


def test_a_replay_an_hour_later_has_its_own_requests():
    trace = Login().play(Trace())
    trace.repeat(trace.packets, 3600 * SECOND)
    first, second = analyse(trace).handshakes.iter_rows(named=True)
    assert counts(first) == counts(second)
    assert (first["aaa_request_messages"], first["aaa_retransmitted_messages"]) == (2, 0)
    assert first["aaa_ns"] == second["aaa_ns"] == 8 * MS


def test_a_server_that_answers_each_transmission_answers_in_order():
    login = Login()
    trace = login.play(Trace())
    ask(trace, 65 * MS, login.packets[0])
    tell(trace, 69 * MS, login.packets[1])
    row = only(analyse(trace))
    assert (row["aaa_ns"], row["retransmission_wait_ns"], row["aaa_retransmitted_messages"]) == (8 * MS, 0, 2)


def test_a_second_response_may_come_when_the_responder_has_gone_on():
    login = Login()
    trace = login.play(Trace())
    ask(trace, 65 * MS, login.packets[0])
    tell(trace, 75 * MS, login.packets[1])  # the responder answered the initiator at 70 ms
    row = only(analyse(trace))
    assert (row["aaa_request_messages"], row["aaa_response_messages"], row["aaa_ns"]) == (3, 3, 8 * MS)


MISSING = "the capture lacks RADIUS messages of a set-up: the AAA server's time is unknown"


@pytest.mark.parametrize("missing", [(0,), (1,), (2,), (3,), (0, 1), (2, 3), (1, 3), (0, 2), (1, 2)])
def test_the_servers_time_is_unknown_if_the_capture_lacks_radius_messages(missing):
    """Packets 0 to 3: Access-Request, Access-Challenge, Access-Request, Access-Accept."""
    login = Login()
    trace = login.play(Trace())
    lost = [login.packets[place] for place in missing]
    trace.drop([packet for packet in trace.packets if any(packet.data.endswith(data) for data in lost)])
    analysis = analyse(trace)
    row = only(analysis)
    # without any request, nothing on this link belongs to a handshake
    seen = (2 - sum(place % 2 == 0 for place in missing)) or None
    assert row["aaa_request_messages"] == seen
    assert row["aaa_ns"] is None
    # as without RADIUS in the capture: five turns of 10 ms
    assert row["responder_ns"] + (row["network_ns"] or 0) == 50 * MS
    assert row["setup_ns"] == 130 * MS
    assert [warning.message[: len(MISSING)] for warning in analysis.warnings] == [MISSING] * (seen is not None)


def test_a_missing_exchange_with_the_server_shows_where_the_state_stays_the_same():
    """Three IKE_AUTH exchanges with EAP; the capture lacks the RADIUS packets of the second one."""
    login = Login()
    rng = Random(1)
    login.messages = Handshake(1).setup(eap=3)
    more = radius_.access_request(3, eap_.eap(eap_.RESPONSE, 2, eap_.MD5, b"w"), rng, state=login.state)
    again = radius_.challenge(login.packets[2], eap_.eap(eap_.REQUEST, 2, eap_.MD5, b"v"), login.state)
    packets = [*login.packets[:3], again, more, radius_.accept(more, SUCCESS)]
    for without, expected in (((), 12 * MS), ((2, 3), None)):
        trace = Trace()
        for place, message in enumerate(login.messages):
            trace.message((place // 2 * 30 + place % 2 * 10) * MS, message)
        for place, packet in enumerate(packets):
            if place not in without:
                (tell if place % 2 else ask)(trace, ((place // 2 + 2) * 30 + 3 + place % 2 * 4) * MS, packet)
        row = only(analyse(trace))
        assert (row["outcome"], row["aaa_ns"]) == ("completed", expected)


def test_a_silent_server_before_another_one_is_not_a_missing_message():
    """RFC 2865, 2.5: after repetitions, the client may ask an alternate server."""
    login = Login()
    trace = login.play(Trace())
    other = radius_.access_request(99, parse_radius(login.packets[0]).eap_message, Random(7))
    ask(trace, 62 * MS, other, server=HOME)
    row = only(analyse(trace))
    assert (row["aaa_request_messages"], row["aaa_ns"]) == (3, 8 * MS)


def test_a_state_that_the_snapshot_length_cut_off_is_not_a_missing_message():
    """The Access-Challenge ends within its EAP-Message; the State follows it."""
    login = Login()
    trace = login.play(Trace())
    challenge = next(packet for packet in trace.packets if packet.data.endswith(login.packets[1]))
    trace.drop([challenge])
    trace.add(challenge.time_ns - trace.start_ns, challenge.data[:-25], length=len(challenge.data))
    assert only(analyse(trace))["aaa_ns"] == 8 * MS


def test_an_identifier_that_is_used_again_is_another_request():
    rng = Random(3)
    login = Login()
    other = radius_.access_request(1, eap_.eap(eap_.RESPONSE, 0, eap_.IDENTITY, b"late"), rng)
    trace = login.play(Trace())
    ask(trace, 10 * SECOND, other)
    tell(trace, 10 * SECOND + MS, radius_.accept(other, SUCCESS))
    analysis = analyse(trace)
    assert only(analysis)["aaa_request_messages"] == 2
    last = analysis.messages.filter(pl.col("protocol") == "RADIUS").tail(2)
    assert rows(last, "type", "transmission", "handshake") == [
        ("Access-Request", 1, None),
        ("Access-Accept", 1, None),
    ]


def test_ports_of_the_client_tell_requests_apart():
    """The same identifier at once from two ports of the client (RFC 2865, 5)."""
    login = Login()
    trace = login.play(Trace())
    accounting = radius_._build(4, 1, bytes(16), [(40, b"\0\0\0\1")])
    ask(trace, 64 * MS, accounting, port=40001)
    tell(trace, 65 * MS, radius_._build(5, 1, bytes(16), []), port=40001)
    analysis = analyse(trace)
    assert only(analysis)["aaa_request_messages"] == 2
    assert only(analysis)["aaa_response_messages"] == 2


def test_accounting_is_not_the_handshakes():
    login = Login()
    trace = login.play(Trace())
    packet = radius_._build(4, 7, Random(1).randbytes(16), [(40, b"\0\0\0\1")])
    ask(trace, SECOND, packet, to=1813)
    tell(trace, SECOND + MS, radius_._build(5, 7, bytes(16), []), to=1813)
    analysis = analyse(trace)
    assert (only(analysis)["aaa_request_messages"], only(analysis)["aaa_response_messages"]) == (2, 2)
    assert analysis.captures[0].accounting["radius"] == 6
    last = analysis.messages.filter(pl.col("protocol") == "RADIUS").tail(2)
    assert rows(last, "type", "kind", "handshake", "set_up") == [
        ("Accounting-Request", "request", None, False),
        ("Accounting-Response", "response", None, False),
    ]


def both(first, last, *, later=MS):
    """Two logins at the same time."""
    trace = first.play(Trace())
    return last.play(trace, at=later)


def test_two_at_once_fit_both_and_are_counted_to_none():
    first, last = Login(1), Login(2, initiator="192.0.2.3", identifier=101)
    analysis = analyse(both(first, last))
    assert analysis.handshakes["aaa_request_messages"].to_list() == [None, None]
    assert analysis.handshakes["aaa_ns"].to_list() == [None, None]
    assert analysis.captures[0].accounting["radius"] == 8
    assert [warning.frame is not None and "(1, 2)" in warning.message for warning in analysis.warnings] == [
        True,
        True,
    ]
    assert analysis.frames.filter(pl.col("protocol") == "RADIUS")["handshake"].null_count() == 8
    assert analysis.handshakes["outcome"].to_list() == ["completed"] * 2


def test_a_warning_names_the_handshakes_as_the_report_does(tmp_path):
    trace = both(Login(1), Login(2, initiator="192.0.2.3", identifier=101))
    analysis = analyse_files(tmp_path, trace, trace)
    assert ["(1, 2)" in one.message for one in analysis.warnings] == [True, True, False, False]
    assert ["(3, 4)" in one.message for one in analysis.warnings] == [False, False, True, True]


def stations(calling, called=b"192.0.2.2[4500]"):
    return [(radius_.CALLED_STATION_ID, called), (radius_.CALLING_STATION_ID, calling)]


def test_two_at_once_are_told_apart_by_the_stations():
    first = Login(1, more=stations(b"192.0.2.1[4500]"))
    last = Login(2, initiator="192.0.2.3", identifier=101, more=stations(b"192.0.2.3[4500]"))
    analysis = analyse(both(first, last))
    assert analysis.handshakes["aaa_request_messages"].to_list() == [2, 2]
    sent = [AROUND * 2 + len(item.packets[0]) + len(item.packets[2]) for item in (first, last)]
    assert analysis.handshakes["aaa_request_bytes"].to_list() == sent
    assert analysis.warnings == []


def test_two_at_once_behind_one_nat_are_told_apart_by_their_ports():
    first = Login(1, nat=True, nat_ports=(30000, 30001), more=stations(b"192.0.2.1[30001]"))
    last = Login(2, nat=True, nat_ports=(31000, 31001), identifier=101, more=stations(b"192.0.2.1[31001]"))
    analysis = analyse(both(first, last))
    assert analysis.handshakes["aaa_request_messages"].to_list() == [2, 2]
    assert analysis.warnings == []


def test_the_state_leads_to_the_one_that_both_requests_fit():
    """The first pair fits both handshakes; the second, by its State of the same conversation, only one."""
    first, last = Login(1), Handshake(2, initiator="192.0.2.3")
    trace = first.play(Trace())
    # an exchange of the other is open from 58 to 72 ms, around the first pair, and none from 93 to 97 ms
    for time, message in zip((0, 10, 58, 72), last.setup(), strict=True):
        trace.message(time * MS, message)
    analysis = analyse(trace)
    assert rows(analysis.handshakes, "initiator_address", "aaa_request_messages") == [
        ("192.0.2.1", 2),
        ("192.0.2.3", None),
    ]


def test_radius_without_ike_has_no_handshakes():
    login = Login()
    trace = Trace()
    for place, packet in enumerate(login.packets):
        (tell if place % 2 else ask)(trace, place * MS, packet)
    analysis = analyse(trace)
    assert len(analysis.handshakes) == 0
    assert len(analysis.messages) == 4
    assert analysis.messages["handshake"].null_count() == 4


HOME = "198.51.100.9"
PROXY_STATE = 33


def forwarded(trace, at, packets, *, identifier, more=(), proxy=AAA, home=HOME):
    """What a proxy asks its own server: the same EAP messages, within the time that the responder waits."""
    rng = Random(identifier)
    for place in (0, 1):
        request, response = packets[2 * place : 2 * place + 2]
        eap, state = parse_radius(request).eap_message, parse_radius(request).state
        time = at + ((place + 2) * 30 + 3) * MS
        own = radius_.access_request(identifier + place, eap, rng, state=state, more=more)
        answer = parse_radius(response)
        theirs = radius_.answer(own, answer.code, answer.eap_message, state=answer.state, more=more)
        trace.send(time + MS, own, sport=45000, dport=1812, source=proxy, destination=home)
        trace.send(time + 3 * MS, theirs, sport=1812, dport=45000, source=home, destination=proxy)


@pytest.mark.parametrize(
    ("more", "proxy"),
    [((), AAA), ([(PROXY_STATE, b"42")], AAA), ([(PROXY_STATE, b"42")], "198.51.100.77")],
    ids=["address", "address and state", "another address and state"],
)
def test_what_a_proxy_asks_is_no_part_of_the_responders_link(more, proxy):
    login = Login()
    alone = only(analyse(login.play(Trace())))
    trace = Login().play(Trace())
    forwarded(trace, 0, login.packets, identifier=70, more=more, proxy=proxy)
    analysis = analyse(trace)
    row = only(analysis)
    assert counts(row) == counts(alone) == (2, *counts(alone)[1:2], 2, *counts(alone)[3:])
    assert (row["nas_address"], row["aaa_address"], row["aaa_ns"]) == (NAS, AAA, 8 * MS)
    assert analysis.captures[0].accounting["radius"] == 8
    assert analysis.warnings == []


def test_a_proxy_asks_for_two_users_with_one_identity():
    """Both ask at once with the same EAP message, and the second one is answered first."""
    trace = Trace()
    packets = []
    for place, seed in enumerate((1, 2)):
        login = Login(seed, identifier=10 * seed, initiator=f"192.0.2.{10 + seed}")
        for number, message in enumerate(login.messages[:5]):
            trace.message(place * 10 * MS + number * 10 * MS, message)
        packets.append(login.packets)
        ask(trace, (50 + 10 * place) * MS, packets[place][0], port=40000 + place)
    own = radius_.access_request(70, parse_radius(packets[0][0]).eap_message, Random(1))
    tell(trace, 64 * MS, packets[1][1], port=40001)
    trace.send(66 * MS, own, sport=45000, dport=1812, source=AAA, destination=HOME)
    frames = analyse(trace).frames
    assert frames.filter(pl.col("destination") == HOME)["handshake"].to_list() == [None]


def test_a_proxy_beside_the_responder():
    """Both have one address: the responder asks there, and the proxy asks from there."""
    login = Login()
    alone = only(analyse(login.play(Trace())))
    trace = Trace()
    for place, message in enumerate(login.messages):
        trace.message((place // 2 * 30 + place % 2 * 10) * MS, message)
    for place, exchange in enumerate((2, 3)):
        time = (exchange * 30 + 3) * MS
        question, answer = login.packets[2 * place : 2 * place + 2]
        ends = {"sport": 40000, "dport": 1812, "source": NAS, "destination": NAS}
        trace.send(time, question, **ends)
        trace.send(time + 4 * MS, answer, **{**ends, "sport": 1812, "dport": 40000})
    forwarded(trace, 0, login.packets, identifier=70, proxy=NAS)
    analysis = analyse(trace)
    row = only(analysis)
    assert counts(row) == counts(alone)
    assert (row["nas_address"], row["aaa_address"], row["aaa_ns"]) == (NAS, NAS, 8 * MS)
    assert analysis.warnings == []


def test_a_second_server_is_asked_by_the_responder_itself():
    login = Login()
    trace = login.play(Trace())
    other = radius_.access_request(99, parse_radius(login.packets[0]).eap_message, Random(7))
    ask(trace, 62 * MS, other, server=HOME)
    assert counts(only(analyse(trace)))[0] == 3
