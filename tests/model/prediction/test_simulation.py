"""Simulated handshakes, compared with times, counts and probabilities that were computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from ikeanalyze.model.prediction.channel import LinkDirection
from ikeanalyze.model.prediction.layout import PacketizedMessage
from ikeanalyze.model.prediction.link import LinkModel, ResponseTrigger
from ikeanalyze.model.prediction.simulation import (
    SUCCEEDED,
    RequestResponse,
    SimulatedExchange,
    simulate_exchange,
    simulate_udp,
)
from ikeanalyze.model.retransmission_policy import LibreswanTimers, RetransmissionPolicy, StrongswanTimers
from tests.model.flows import exchange, message

SMALL = PacketizedMessage(((100,),))


def steps(*exchanges):
    return [SimulatedExchange(item, _laid(item.request), item.response and _laid(item.response)) for item in exchanges]


def _laid(message):
    return PacketizedMessage(tuple(part.frames for part in message.parts))


def run(exchanges, link, policy=None, response_trigger=ResponseTrigger.FIRST, runs=10, seed=1):
    return simulate_udp(
        exchanges, link, policy or StrongswanTimers().make_policy(), response_trigger, runs, np.random.default_rng(seed)
    )


def test_times_without_loss_agree_with_a_manual_computation():
    first = exchange(message(100), message(200, 50), answer_ms=3)
    second = exchange(message(300), message(400), before_ms=5, answer_ms=7, aaa_ms=4, trips=2)
    result = run(steps(first, second), LinkModel(100, aaa_rtt_ms=10))
    # two round trips, what both sides and the AAA server took, and two round trips to it
    assert result.setup_s == pytest.approx(0.2 + 0.003 + 0.005 + 0.007 + 0.004 + 0.02)
    assert (result.messages == 4).all()
    assert (result.frames == 5).all()
    assert (result.bytes == 100 + 200 + 50 + 300 + 400 + 5 * 46).all()
    assert (result.failed_in == SUCCEEDED).all()


def test_times_on_a_slow_link_agree_with_a_manual_computation():
    # 8 kbit/s: 146 and 246 bytes take 0.146 and 0.246 s; each way 50 ms
    result = run(steps(exchange(message(100), message(200))), LinkModel(100, rate_up=8000, rate_down=8000))
    assert result.setup_s == pytest.approx(0.146 + 0.246 + 0.1)


def test_a_timer_that_is_shorter_than_the_round_trip():
    # libreswan repeats after 0.5 s; the response comes after 0.6 s, and the second transmission was not needed
    result = run(steps(exchange(message(100), message(200))), LinkModel(600), LibreswanTimers().make_policy())
    assert result.setup_s == pytest.approx(0.6)
    assert (result.messages == 4).all()
    assert (result.bytes == 2 * (146 + 246)).all()


def test_a_responder_that_computes_does_not_answer():
    # sent at 0, 0.1 and 0.2 s; the response is ready at 0.25 s
    waits = RetransmissionPolicy("x", (0.1,) * 5)
    result = run(steps(exchange(message(100), message(200), answer_ms=250)), LinkModel(0), waits)
    assert (result.messages == 4).all()
    assert result.setup_s == pytest.approx(0.25)
    # at 0.3 s the repeated request is answered: it is on its way when the response comes
    result = run(steps(exchange(message(100), message(200), answer_ms=250)), LinkModel(80), waits)
    assert (result.messages == 4 + 2).all()
    assert result.setup_s == pytest.approx(0.33)


def test_a_handshake_fails_after_the_last_timer():
    # each request of the second exchange is lost: six transmissions
    exchanges = steps(exchange(message(100), message(200)), exchange(message(100), message(200)))
    result = run(
        [exchanges[0], SimulatedExchange(exchanges[1].exchange, PacketizedMessage(((100, 100),)), SMALL)],
        LinkModel(10, drop_ip_fragments=True),
    )
    assert np.isnan(result.setup_s).all()
    # a round trip of 10 ms, and the six timers of strongSwan
    assert result.end_s == pytest.approx(0.01 + sum(StrongswanTimers().make_policy().waits))
    assert (result.failed_in == 1).all()
    assert (result.messages == 2 + 6).all()
    # a response after the last timer comes too late
    result = run(exchanges, LinkModel(10_000), RetransmissionPolicy("x", (2.0, 2.0)))
    assert (result.failed_in == 0).all()
    assert (result.messages == 2 + 2).all()


def test_requests_without_responses_are_sent_once():
    last = exchange(message(100), None, before_ms=1)
    result = run(steps(exchange(message(100), message(200)), last), LinkModel(100))
    assert result.setup_s == pytest.approx(0.101)
    assert (result.messages == 3).all()


def test_the_responder_may_send_the_request():
    by_responder = replace(exchange(message(100), message(200)), asker="responder")
    result = run(steps(by_responder), LinkModel(0, rate_up=8000))
    assert result.setup_s == pytest.approx(0.246)


@pytest.mark.parametrize("response_trigger", list(ResponseTrigger))
def test_fragments_are_kept(response_trigger):
    # probability that all of ten fragments have arrived after k transmissions at 20 % loss: (1 - 0.2^k)^10 if the
    # receiver keeps fragments of earlier transmissions, otherwise 1 - (1 - 0.8^10)^k
    exchanges = [SimulatedExchange(exchange(message(100), message(100)), PacketizedMessage(((1,),) * 10), SMALL)]
    result = run(
        exchanges,
        LinkModel(0, 0.2, rate_down=None),
        RetransmissionPolicy("x", (1.0,) * 3),
        response_trigger,
        runs=20_000,
    )
    tries = 3
    most = (1 - 0.2**tries) ** 10  # of which the last response arrives with a probability of at least 0.8
    anew = 1 - (1 - 0.8**10) ** tries
    assert anew < 0.3
    assert 0.6 < (result.failed_in == SUCCEEDED).mean() < most


class Scripted:
    """A link that loses the given frames of each message."""

    def __init__(self, *messages):
        self.messages = list(messages)

    def draw_losses(self, rows, times):
        return np.broadcast_to(self.messages.pop(0), times.shape)


def test_fragments_after_a_response_belong_to_the_next_one():
    # a frame takes 1 s, a request 3 s, every 10 s. Fragment 3 is kept from the first transmission, so the request is
    # complete at 12 s. The fragment at 13 s belongs to a repeated request, complete at 22 s, and that at 23 s to the
    # next one, complete at 32 s. Two responses are lost
    def side(losses, rate):
        arrays = (np.zeros(1) for _ in range(5))
        return LinkDirection(LinkModel(0), rate, np.random.default_rng(1), losses, *arrays)

    there = side(Scripted([True, True, False], False, False, False), 800)
    back = side(Scripted(True, True, False), None)
    turn = RequestResponse(PacketizedMessage(((100,), (100,), (100,))), SMALL, 0.0, ResponseTrigger.ALL)
    waits = np.arange(10, 70, 10.0)[None, :]
    assert simulate_exchange(turn, there, back, np.array([0]), np.zeros(1), waits).tolist() == [32]
    assert (there.messages[0], back.messages[0]) == (4, 3)


def test_runs_are_simulated_in_blocks(monkeypatch):
    import ikeanalyze.model.prediction.simulation as module

    exchanges = steps(exchange(message(100, 100), message(200)))
    monkeypatch.setattr(module, "_MAX_BLOCK_FRAMES", 7)
    result = run(exchanges, LinkModel(10, 0.1), runs=1000)
    assert len(result.setup_s) == len(result.bytes) == 1000
    assert abs(np.isnan(result.setup_s).mean()) < 0.01


def test_the_same_seed_gives_the_same_runs():
    exchanges = steps(exchange(message(100, 100), message(200)))
    first, same, different = (run(exchanges, LinkModel(10, 0.2, jitter_ms=3), runs=50, seed=seed) for seed in (1, 1, 2))
    assert (first.setup_s == same.setup_s).all()
    assert (first.setup_s != different.setup_s).any()
