"""Python, the compiled core and the Wireshark plugin tell handshakes with the same SPIs apart (docs/rules.md)."""

import pytest

import ikeanalyze
from tests.craft import MS, SECOND, Handshake, Trace, ike, ikev1, redirected
from tests.dissectors.run_plugin import fields

HOUR = 3600 * SECOND


def play_set_up():
    """IKE_SA_INIT and IKE_AUTH: four packets, and what follows them."""
    handshake, trace = Handshake(1), Trace()
    trace.play(handshake.setup())
    return handshake, trace, trace.packets


def replay_all():
    _, trace, packets = play_set_up()
    trace.repeat(packets, HOUR)
    trace.repeat(packets, 2 * HOUR)
    return trace, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]


def replay_with_three_requests():
    """The responder asks for a cookie and for another key exchange, so that IKE_SA_INIT has three requests."""
    trace = Trace()
    trace.play(Handshake(1).setup(before="both"))
    trace.repeat(trace.packets, HOUR)
    return trace, [1] * 8 + [2] * 8


def replay_the_first_request():
    """The IKE SA goes on: it has a request an hour later, after the replay."""
    handshake, trace, packets = play_set_up()
    trace.repeat(packets[:1], HOUR)
    trace.message(HOUR + SECOND, handshake.encrypted(ike.INFORMATIONAL, 10, message_id=2))
    return trace, [1, 1, 1, 1, 2, 1]


def delay_the_first_request():
    """The IKE_AUTH request is the third packet, so the network can deliver this for 2 minutes after it."""
    _, trace, packets = play_set_up()
    trace.repeat(packets[:1], 120 * SECOND)
    return trace, [1, 1, 1, 1, 1]


def repeat_a_request_without_response():
    _, trace, packets = play_set_up()
    trace.drop(packets[1:])
    trace.repeat(packets[:1], HOUR)
    return trace, [1, 1]


def begin_within_an_ike_sa():
    """The first request of the capture is a later one of the IKE SA, so the first IKE_SA_INIT is not seen to repeat."""
    handshake, trace = Handshake(1), Trace()
    trace.message(0, handshake.encrypted(ike.INFORMATIONAL, 10, message_id=2))
    trace.play(handshake.setup(), at=HOUR)
    return trace, [1, 1, 1, 1, 1]


def replay_after_a_redirect():
    """The initiator keeps its SPI at the other gateway, so that it has sent its next request with the same SPI."""
    trace = Trace()
    _, _, messages = redirected(same_spi=True)
    trace.play(messages)
    trace.repeat(trace.packets, HOUR)
    return trace, [1] * 6 + [2] * 6


def replay_what_a_redirect_ended():
    """The initiator goes on with another SPI. The first one has IKE_SA_INIT alone, which cannot be told from a
    retransmission.
    """
    trace = Trace()
    _, _, messages = redirected()
    trace.play(messages)
    trace.repeat(trace.packets[:2], HOUR)
    return trace, [1] * 8


def play_set_up_again(after, **how):
    """Another set-up of peers that choose the same SPIs again, and have other nonces and keys."""
    handshake, trace, _ = play_set_up()
    again = Handshake(2)
    again.spi_i, again.spi_r = handshake.spi_i, handshake.spi_r
    trace.play(again.setup(**how), at=after)
    return handshake, again, trace


def set_up_after_a_replay():
    """Another set-up has the SPIi of the replayed one, and another responder's SPI."""
    handshake, trace, packets = play_set_up()
    trace.repeat(packets, HOUR)
    other = Handshake(2)
    other.spi_i = handshake.spi_i
    trace.play(other.setup(before="COOKIE"), at=2 * HOUR)
    return trace, [1] * 4 + [2] * 4 + [3] * 6


def choose_the_same_spis_again():
    _, again, trace = play_set_up_again(SECOND)
    trace.play(again.informational(), at=2 * SECOND)
    return trace, [1] * 4 + [2] * 6


def choose_the_same_spis_again_with_three_requests():
    *_, trace = play_set_up_again(SECOND, before="both")
    return trace, [1] * 4 + [2] * 8


def choose_the_same_spis_and_nonce_again():
    """The key exchange data differ, as they do if only SPIs and nonces come from the seeded generator."""
    handshake, trace, packets = play_set_up()
    request = bytearray(packets[0].data)
    request[request.index(bytes([0, ike.ECP_256, 0, 0])) + 4] ^= 1
    trace.add(SECOND, bytes(request))
    other = Handshake(2)
    other.spi_i, other.spi_r = handshake.spi_i, handshake.spi_r
    response, *rest = other.setup()[1:]
    trace.play([response, *rest], at=SECOND)
    return trace, [1] * 4 + [2] * 4


def repeat_the_response_before_the_next_answer():
    """The first request was sent twice, and its second response comes when the other set-up has begun."""
    handshake, trace, packets = play_set_up()
    trace.repeat(packets[:1], 10 * MS)
    again = Handshake(2)
    again.spi_i, again.spi_r = handshake.spi_i, handshake.spi_r
    messages = again.setup()
    trace.message(SECOND, messages[0])
    trace.repeat(packets[1:2], SECOND)
    trace.play(messages[1:], at=SECOND + 20 * MS)
    return trace, [1] * 5 + [2, 1] + [2] * 3


def answer_two_requests_with_the_same_bytes():
    """Only the responder has a seeded generator for more than its SPI."""
    handshake, trace, packets = play_set_up()
    again = Handshake(2)
    again.spi_i, again.spi_r = handshake.spi_i, handshake.spi_r
    request, _, *rest = again.setup()
    trace.message(SECOND, request)
    trace.repeat(packets[1:2], SECOND)
    trace.play(rest, at=SECOND + 30 * MS)
    return trace, [1] * 4 + [2] * 4


def begin_within_an_earlier_ike_sa(**how):
    """The IKE SA of the first messages has the SPIi of the next set-up, and another responder's SPI; it goes on."""
    earlier = Handshake(1, switch=False)
    earlier.setup()
    trace, later = Trace(), Handshake(2, switch=False)
    later.spi_i = earlier.spi_i
    trace.play(earlier.informational())
    trace.play(later.setup(**how), at=SECOND)
    trace.play(earlier.informational(), at=2 * SECOND)
    return trace


def begin_within_an_ike_sa_before_another():
    return begin_within_an_earlier_ike_sa(), [1, 1, 2, 2, 2, 2, 1, 1]


def begin_within_an_ike_sa_before_another_with_three_requests():
    return begin_within_an_earlier_ike_sa(before="both"), [1, 1, *[2] * 8, 1, 1]


def begin_within_an_ike_sa_before_another_on_other_ports():
    earlier, trace, later = Handshake(1), Trace(), Handshake(2)
    earlier.setup()
    later.spi_i = earlier.spi_i
    trace.play(earlier.informational())
    trace.play(later.setup(), at=SECOND)
    return trace, [1, 1, 2, 2, 2, 2]


def begin_within_an_ike_sa_before_a_retransmission():
    """The request of the other IKE SA comes twice before its response."""
    trace = begin_within_an_earlier_ike_sa()
    trace.repeat(trace.packets[2:3], 10 * MS)
    return trace, [1, 1, 2, 2, 2, 2, 2, 1, 1]


def begin_within_an_ike_sa_that_changed_its_address():
    """The clock was set back: the responder's SPI is the same."""
    handshake, trace = Handshake(1), Trace()
    messages = handshake.setup()
    handshake.initiator = "192.0.2.77"
    trace.play(handshake.informational())
    trace.play(messages, at=HOUR)
    return trace, [1] * 6


def begin_within_main_mode():
    """The clock was set back: the first two messages of IKEv1 come after the others."""
    trace, cookies = Trace(), (b"initiate", b"answered")
    for time, body in enumerate((b"key 1", b"key 2", b"identity 1", b"identity 2")):
        data = ikev1.encrypted(*cookies, ikev1.MAIN_MODE, ikev1.KE, body)
        trace.send(time * MS, data, from_initiator=time % 2 == 0)
    trace.send(HOUR, ikev1.message(cookies[0], bytes(8), ikev1.MAIN_MODE, [ikev1.sa()]))
    trace.send(HOUR + MS, ikev1.message(*cookies, ikev1.MAIN_MODE, [ikev1.sa()]), from_initiator=False)
    return trace, [1] * 6


def begin_within_an_ike_sa_before_a_request_and_two_others():
    """A later message of a third IKE SA follows the request, whose response is missing."""
    handshake, trace, third, last = Handshake(1), Trace(), Handshake(3), Handshake(2)
    messages = handshake.setup()
    third.spi_i = last.spi_i = handshake.spi_i
    last.spi_r = handshake.spi_r
    trace.play(handshake.informational())
    trace.message(SECOND, messages[0])
    third.setup()
    trace.play(third.informational()[:1], at=2 * SECOND)
    trace.play(last.setup(), at=HOUR)
    return trace, [1, 1, 1, 2, 3, 3, 3, 3]


def begin_within_an_ike_sa_before_an_unanswered_request():
    """Nothing shows whether the request begins another IKE SA."""
    trace = begin_within_an_earlier_ike_sa()
    trace.drop(trace.packets[3:])
    return trace, [1, 1, 1]


def begin_within_an_ike_sa_whose_request_comes_twice():
    """The clock was set back before IKE_SA_INIT, so the request in the first packet came after it."""
    handshake, trace = Handshake(1), Trace()
    messages = handshake.setup()
    trace.play(handshake.informational())
    trace.message(HOUR, messages[0])
    trace.play(messages, at=HOUR + 2 * SECOND)
    return trace, [1] * 7


def begin_within_an_ike_sa_before_another_out_of_order():
    """The IKE_AUTH request of the other IKE SA is captured before the IKE_SA_INIT response."""
    trace = begin_within_an_earlier_ike_sa()
    response = trace.packets[3:4]
    trace.drop(response)
    trace.repeat(response, 5 * MS)
    return trace, [1, 1, 2, 2, 2, 2, 1, 1]


def begin_another_ike_sa_between_request_and_response():
    """The response shows that the request began an IKE SA of its own, before the one between them."""
    trace = begin_within_an_earlier_ike_sa()
    between = Handshake(3, initiator="192.0.2.3").setup()
    trace.message(SECOND + 5 * MS, between[0])
    return trace, [1, 1, 2, 3, 2, 2, 2, 1, 1]


def begin_within_an_ike_sa_before_a_refusal():
    """The request that the responder refuses is missing, and the IKE SA of the next one has another responder's SPI."""
    trace = begin_within_an_earlier_ike_sa(before="COOKIE")
    trace.drop(trace.packets[2:3])
    return trace, [1, 1, 1, 2, 2, 2, 2, 1, 1]


def begin_with_the_response_that_refuses_the_first_request():
    """It has another responder's SPI than the response that accepts the next request."""
    handshake, trace = Handshake(1), Trace()
    refusal = [ike.notify(ike.INVALID_KE_PAYLOAD, bytes(2))]
    trace.message(
        0, handshake.clear(ike.IKE_SA_INIT, refusal, from_initiator=False, response=True, spi_r=bytes([1] * 8))
    )
    trace.play(handshake.setup(), at=MS)
    return trace, [1] * 5


def begin_within_two_ike_sas_before_unanswered_requests():
    """Nothing shows whether the requests begin other IKE SAs than those of the messages before them."""
    first, second, trace = Handshake(1, switch=False), Handshake(2, switch=False), Trace()
    second.spi_i = first.spi_i
    requests = [handshake.setup()[0] for handshake in (first, second)]
    for at, handshake, request in zip((0, SECOND), (first, second), requests, strict=True):
        trace.play(handshake.informational()[:1], at=at)
        trace.message(at + 20 * MS, request)
    return trace, [1, 1, 2, 2]


def choose_the_same_nonce_for_two_keys_and_a_cookie():
    """The request with the cookie has the key exchange data of the second request; the first one came again."""
    handshake, trace = Handshake(1), Trace()
    nonce = ike.nonce(bytes(32))
    keys = [ike.ke(ike.ECP_256, bytes([value]) * 64) for value in (1, 2)]

    def request(*payloads):
        return handshake.clear(ike.IKE_SA_INIT, [*payloads, nonce], spi_r=bytes(8))

    offered = ike.sa([ike.CLASSIC])
    first, second = (request(offered, key) for key in keys)
    with_cookie = request(ike.notify(ike.COOKIE, bytes(8)), offered, keys[1])
    for row, message in enumerate((first, second, first, with_cookie)):
        trace.message(row * SECOND, message)
    return trace, [1, 2, 1, 2]


CASES = (
    replay_all,
    replay_with_three_requests,
    replay_after_a_redirect,
    replay_what_a_redirect_ended,
    replay_the_first_request,
    delay_the_first_request,
    repeat_a_request_without_response,
    begin_within_an_ike_sa,
    set_up_after_a_replay,
    begin_within_an_ike_sa_before_another,
    begin_within_an_ike_sa_before_another_with_three_requests,
    begin_within_an_ike_sa_before_another_on_other_ports,
    begin_within_an_ike_sa_before_a_retransmission,
    begin_within_an_ike_sa_that_changed_its_address,
    begin_within_main_mode,
    begin_within_an_ike_sa_before_a_request_and_two_others,
    begin_within_an_ike_sa_before_an_unanswered_request,
    begin_within_an_ike_sa_whose_request_comes_twice,
    begin_within_an_ike_sa_before_another_out_of_order,
    begin_another_ike_sa_between_request_and_response,
    begin_within_an_ike_sa_before_a_refusal,
    begin_with_the_response_that_refuses_the_first_request,
    begin_within_two_ike_sas_before_unanswered_requests,
    choose_the_same_nonce_for_two_keys_and_a_cookie,
    choose_the_same_spis_again,
    choose_the_same_spis_again_with_three_requests,
    choose_the_same_spis_and_nonce_again,
    repeat_the_response_before_the_next_answer,
    answer_two_requests_with_the_same_bytes,
)
each_case = pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)


@pytest.mark.usefixtures("implementation")
@each_case
def test_reports_have_the_replays(make, tmp_path):
    trace, expected = make()
    analysis = ikeanalyze.read(trace.write(tmp_path / "capture.pcap"))
    assert analysis.frames["handshake"].to_list() == expected


@pytest.mark.turns
@each_case
def test_the_plugin_has_the_replays(make, tshark):
    trace, expected = make()
    assert [int(number) for (number,) in fields(tshark, trace.pcap(), "ikex.handshake")] == expected


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize(
    ("make", "frame", "start"),
    [
        (replay_all, 5, "2 handshakes have the SPIs of earlier ones, in packets 5, 9:"),
        (choose_the_same_spis_again, 5, "a handshake has the SPIs of an earlier one:"),
        (delay_the_first_request, 5, "an IKE_SA_INIT request came again more than 1 s after the initiator's next"),
    ],
)
def test_a_warning_names_what_repeats(make, frame, start):
    analysis = ikeanalyze.read(make()[0].pcap())
    (warning,) = analysis.warnings
    assert (warning.frame, warning.message.startswith(start)) == (frame, True)


@pytest.mark.usefixtures("implementation")
def test_no_warning_of_a_retransmission_before_the_next_request():
    handshake, trace = Handshake(1), Trace()
    messages = handshake.setup()
    trace.message(0, messages[0])
    trace.play(messages, at=4 * SECOND)
    assert ikeanalyze.read(trace.pcap()).warnings == []


@pytest.mark.usefixtures("implementation")
def test_no_warning_of_a_retransmission_after_the_clock_was_set_back():
    trace, _ = begin_within_an_ike_sa_whose_request_comes_twice()
    assert ikeanalyze.read(trace.pcap()).warnings == []


@pytest.mark.usefixtures("implementation")
def test_no_warning_of_a_request_that_the_network_delayed_for_less_than_a_second():
    _, trace, packets = play_set_up()
    trace.repeat(packets[:1], 900 * MS)
    assert ikeanalyze.read(trace.pcap()).warnings == []


def test_a_replayed_handshake_has_its_own_messages_and_times():
    _, trace, packets = play_set_up()
    trace.repeat(packets, HOUR)
    first, second = ikeanalyze.read(trace.pcap()).handshakes.iter_rows(named=True)
    for name in ("outcome", "initiator_messages", "responder_messages", "setup_ns", "blowup"):
        assert first[name] == second[name]
    assert (first["outcome"], first["retransmitted_messages"], first["blowup"]) == ("completed", 0, 1)
