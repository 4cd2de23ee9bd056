import numpy as np
import pytest

from ikeanalyze.model.prediction.link import LinkModel
from ikeanalyze.model.prediction.processing_times import collect_turn_times, make_constant_times
from tests.model.flows import exchange, message


def handshake(before_ms, *answers_ms, aaa_ms=0, trips=0):
    """Exchanges with these times of the responder; None: unknown."""
    made = [
        exchange(
            message(100),
            message(100),
            before_ms=before_ms if i else 0,
            answer_ms=answer_ms,
            aaa_ms=aaa_ms if i else 0,
            trips=trips if i else 0,
        )
        for i, answer_ms in enumerate(answers_ms)
    ]
    return tuple(made)


LINK = LinkModel(10)


def test_times_of_one_handshake_stay_together():
    times = collect_turn_times([handshake(1, 2, 3), handshake(10, 20, 30)], LINK)
    drawn = times.draw(np.array([0, 1, 1]), np.random.default_rng(1))
    assert drawn.before_s * 1000 == pytest.approx(np.array([[0, 1], [0, 10], [0, 10]]))
    assert drawn.answer_s * 1000 == pytest.approx(np.array([[2, 3], [20, 30], [20, 30]]))


def test_an_unknown_time_is_drawn_from_the_handshakes_that_know_it():
    times = collect_turn_times([handshake(1, 2, None), handshake(1, 4, 5), handshake(1, 4, 7)], LINK)
    drawn = times.draw(np.zeros(4000, np.intp), np.random.default_rng(1))
    assert set(np.round(drawn.answer_s[:, 1] * 1000)) == {5, 7}
    assert drawn.answer_s[:, 1].mean() * 1000 == pytest.approx(6, abs=0.1)
    assert (drawn.answer_s[:, 0] == 0.002).all()
    assert times.fill_with_means().answer_s[0, 1] * 1000 == pytest.approx(6)
    # the first handshake still has its gap
    assert np.isnan(times.own_s[0, 1])


def test_a_time_that_no_handshake_knows_is_zero():
    times = collect_turn_times([handshake(1, 2, None), handshake(1, 4, None)], LINK)
    assert times.draw(np.array([0, 1]), np.random.default_rng(1)).answer_s[:, 1].tolist() == [0, 0]
    assert times.fill_with_means().answer_s[:, 1].tolist() == [0, 0]


def test_medians_are_of_each_turn():
    times = collect_turn_times([handshake(1, 2, 30), handshake(5, 4, 20), handshake(3, 3, None)], LINK)
    medians = times.take_medians()
    assert medians.before_s.tolist() == [[0, 0.003]]
    assert medians.answer_s * 1000 == pytest.approx(np.array([[3, 25]]))


def test_the_aaa_server_counts_even_if_the_processing_time_is_unknown():
    link = LinkModel(10, aaa_rtt_ms=100)
    recorded = handshake(1, 2, None, aaa_ms=7, trips=2)
    assert make_constant_times(recorded, link, 2).answer_s * 1000 == pytest.approx(np.array([[2, 207]] * 2))
