"""Times and frames of the plain model of TCP, by hand."""

import numpy as np
import pytest

from ikeanalyze.model.prediction.layout import PacketizedMessage
from ikeanalyze.model.prediction.link import LinkModel
from ikeanalyze.model.prediction.simulation import SimulatedExchange
from ikeanalyze.model.prediction.simulation_tcp import simulate_tcp
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy, StrongswanTimers
from tests.model.flows import exchange, message


def step(request=1, response=1, **times):
    """So many segments of 500 bytes."""
    return SimulatedExchange(
        exchange(message(1), message(1), **times),
        PacketizedMessage(((500,),) * request),
        PacketizedMessage(((500,),) * response) if response else None,
    )


def run(steps, link, policy=None, runs=10):
    return simulate_tcp(steps, link, policy or StrongswanTimers().make_policy(), runs, np.random.default_rng(3))


def test_times_without_loss_agree_with_a_manual_computation():
    result = run([step(answer_ms=2), step(before_ms=3, answer_ms=5)], LinkModel(100))
    # SYN and two round trips
    assert result.setup_s == pytest.approx(0.3 + 0.002 + 0.003 + 0.005)
    # SYN, SYN-ACK, ACK; four messages and an acknowledgement for each
    assert (result.frames == 3 + 4 + 4).all()
    assert (result.bytes == 2 * 74 + 66 + 4 * 500 + 4 * 66).all()
    assert (result.messages == 4).all()


def test_messages_larger_than_the_window_need_round_trips():
    # ten segments, and ten a round trip later; 35 acknowledgements for 20 segments and one: 10 + 1
    result = run([step(request=20)], LinkModel(100))
    assert result.setup_s == pytest.approx(0.1 + 0.1 + 0.1)
    assert (result.frames == 3 + 21 + 11).all()
    # 10, 20 and 5
    assert run([step(request=35)], LinkModel(100)).setup_s == pytest.approx(0.4)


def test_retransmission_timers():
    result = run([step()], LinkModel(100, 0.2), runs=20_000)
    late = np.round(result.setup_s[~np.isnan(result.setup_s)] - 0.2, 3)
    values = np.unique(late)
    assert values.min() == 0
    # SYN, SYN-ACK, request, response; sigma 0.0035
    assert abs((late == 0).mean() - 0.8**4) < 0.014
    # a message lost: 1 s, twice: 1 + 2; a SYN lost: 1 s, and after it a message 3 s
    assert {1.0, 3.0, 4.0} <= set(values.tolist())
    assert not {0.5, 1.5, 2.5} & set(values.tolist())
    # one loss of a SYN (its way or the answer's), or of one of the messages: 1 s
    once = 0.36 * 0.64 * 0.64 + 0.64 * 2 * 0.2 * 0.64
    assert abs((late == 1).mean() - once) < 0.014


def test_a_long_path_has_a_long_timer():
    # three times 600 ms, after the single measurement of the SYN
    result = run([step()], LinkModel(600, 0.2), runs=5000)
    late = np.round(result.setup_s[~np.isnan(result.setup_s)] - 1.2, 3)
    assert 1.8 in late.tolist()
    assert sorted(set(late.tolist()))[:3] == [0.0, 1.0, 1.8]


def test_ike_gives_up_over_tcp():
    result = run([step(), step()], LinkModel(100, 0.6), RetransmissionPolicy("x", (2.0,)), runs=5000)
    assert 0.5 < (result.failed_in >= 0).mean() < 1
    assert np.nanmax(result.setup_s) < 127 + 2 * 2
    # no SYN in 127 s
    assert (run([step()], LinkModel(300_000)).failed_in == 0).all()


def test_requests_without_responses_are_sent_once():
    result = run([step(response=0), step(before_ms=1)], LinkModel(100))
    assert result.setup_s == pytest.approx(0.1 + 0.05 + 0.001 + 0.1)
