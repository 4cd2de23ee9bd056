from ikeanalyze.replay.session.recorded_messages import RecordedHandshake
from ikeanalyze.replay.session.verbatim import MAX_ANSWERS, MAX_MESSAGES, RenewedMessage, VerbatimSession
from tests.craft import ike
from tests.replay.recorded_messages import MS, hybrid

NOW = 5 * 10**18


def as_it_is(message):
    return RenewedMessage(message.data, ("SPIi",) if message.exchange_type == 34 else ())


def run(handshake, answers=(), *, speed=1.0, wait_ms=500):
    """Drive with a clock of our own. `answers`: (ms, data); what was sent when (ms), and how it ended."""
    core = VerbatimSession(handshake, as_it_is, speed=speed, wait_ns=wait_ms * MS)
    coming = [(NOW + round(at * MS), data) for at, data in answers]
    now, out = NOW, []
    step = core.begin(now)
    while True:
        for one in step.send:
            core.sent(one, now)
            out.append(((now - NOW) / MS, one))
        if step.finished:
            return out, step.finished
        if coming and coming[0][0] <= step.wake_ns:
            now, data = coming.pop(0)
            step = core.receive(data, now, 500)
        else:
            now = step.wake_ns
            step = core.tick(now)


def test_messages_are_sent_at_the_recorded_times():
    out, finished = run(hybrid())
    assert [(at, value.exchange_type, value.fragment, value.transmission, value.port) for at, value in out] == [
        (0, 34, None, 1, 500),
        *((10, 43, number, 1, 4500) for number in (1, 2)),
        *((1010, 43, number, 2, 4500) for number in (1, 2)),
        (1030, 35, None, 1, 4500),
    ]
    assert [value.data for _, value in out] == [request.data for request in hybrid().requests]
    assert [(item.transmissions, item.datagrams) for item in finished.sent] == [(1, 1), (2, 4), (1, 1)]
    assert [item.changed for item in finished.sent] == [("SPIi",), (), ()]
    assert [item.recorded.kind for item in finished.sent] == ["accepted", "encrypted", "encrypted"]
    assert (finished.ended_ns - NOW) / MS == 1530


def test_the_speed_divides_the_recorded_times():
    out, _ = run(hybrid(), speed=10)
    assert [at for at, _ in out] == [0, 1, 1, 101, 101, 103]


def test_answers_are_put_to_their_messages():
    recorded = hybrid()
    init, middle, auth = (recorded.response_to(recorded.requests[place]).data for place in (0, 1, 5))
    cookie = ike.message(init[:8], bytes(8), 34, ike.RESPONSE, 0, [ike.notify(ike.COOKIE, bytes(8))])
    answers = [(4, cookie), (6, init), (1015, middle), (1042, auth)]
    _, finished = run(recorded, answers)
    first, second, third = finished.sent
    assert [(a.answer.kind, a.round_trip_ns / MS) for a in first.answers] == [("COOKIE", 4), ("accepted", 6)]
    assert first.answers[0].differs[0] == "answer: accepted recorded, COOKIE now"
    assert first.answers[1].differs == ()
    assert second.answers[0].round_trip_ns / MS == 5  # from the retransmission
    assert third.answers[0].differs == ()
    # all is answered: a moment for what comes twice, and that is it
    assert (finished.ended_ns - NOW) / MS == 1142


def test_what_answers_nothing():
    recorded = hybrid()
    init = recorded.messages[1].data
    request = recorded.messages[0].data
    stranger = b"stranger" + init[8:]
    _, finished = run(recorded, [(1, b"garbage"), (2, stranger), (3, request), (4, init[:-1])])
    assert (finished.garbage, finished.unasked) == (2, 2)
    assert not any(item.answers for item in finished.sent)


def test_a_flood_is_counted_and_not_kept():
    recorded = hybrid()
    init = recorded.messages[1].data
    _, finished = run(recorded, [(3 + number / 1000, init) for number in range(500)])
    assert len(finished.sent[0].answers) == MAX_ANSWERS
    assert finished.sent[0].more_answers == 500 - MAX_ANSWERS


def test_a_capture_of_a_million_messages_is_not_sent():
    one = hybrid()
    many = RecordedHandshake(1, (one.messages[0],) * (MAX_MESSAGES + 7))
    out, finished = run(many)
    assert (len(out), finished.left_out) == (MAX_MESSAGES, 7)


def test_first_and_response():
    one = hybrid()
    assert one.first == one.messages[0]
    assert RecordedHandshake(1, one.messages[1:]).first is None
    assert RecordedHandshake(1, one.messages[:1]).response_to(one.messages[0]) is None
