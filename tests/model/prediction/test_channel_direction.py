"""One direction of a simulated link: delay, rate, loss, jitter, and the frames that it counts."""

import numpy as np
import pytest

from ikeanalyze.model.prediction.channel import LinkDirection
from ikeanalyze.model.prediction.layout import PacketizedMessage
from ikeanalyze.model.prediction.link import LinkModel


def direction(link, runs=2, *, up=True):
    return LinkDirection.of(link, runs, np.random.default_rng(1), up=up)


def test_propagation_and_counts():
    link_direction = direction(LinkModel(600))
    rows = np.array([1])
    assert link_direction.send(rows, np.array([1.0]), PacketizedMessage(((100,), (200, 50)))).tolist() == [[1.3, 1.3]]
    link_direction.send(rows, np.array([2.0]), PacketizedMessage(((70,),)), counted=False)
    assert link_direction.messages.tolist() == [0, 1]
    assert link_direction.frames.tolist() == [0, 4]
    assert link_direction.bytes.tolist() == [0, 420]


def test_a_slow_link_queues_packets():
    # 8 kbit/s: 100 bytes take 0.1 s; packets that arrive meanwhile wait
    link_direction = direction(LinkModel(0, rate_up=8000, rate_down=1e6), runs=1)
    rows, laid = np.array([0]), PacketizedMessage(((100,), (200, 100)))
    assert link_direction.send(rows, np.array([0.0]), laid)[0].tolist() == pytest.approx([0.1, 0.4])
    assert link_direction.send(rows, np.array([0.1]), laid)[0].tolist() == pytest.approx([0.5, 0.8])
    assert link_direction.send(rows, np.array([9.0]), laid)[0].tolist() == pytest.approx([9.1, 9.4])
    assert direction(LinkModel(0, rate_up=8000), up=False).rate is None


def test_a_datagram_needs_all_its_frames():
    runs = 40_000
    link_direction = direction(LinkModel(0, 0.2), runs)
    result = link_direction.send(np.arange(runs), np.zeros(runs), PacketizedMessage(((1,), (1, 1, 1))))
    arrived = np.isfinite(result).mean(axis=0)
    # 0.8 and 0.8 ** 3; sigma 0.0025
    assert np.abs(arrived - [0.8, 0.512]).max() < 0.01


def test_dropped_ip_fragments_lose_the_datagram():
    link_direction = direction(LinkModel(0, drop_ip_fragments=True), 1)
    assert np.isfinite(link_direction.send(np.array([0]), np.zeros(1), PacketizedMessage(((1,), (1, 1)))))[
        0
    ].tolist() == [
        True,
        False,
    ]


def test_jitter_changes_arrival_times():
    runs = 10_000
    result = direction(LinkModel(100, jitter_ms=20), runs).send(
        np.arange(runs), np.zeros(runs), PacketizedMessage(((1,), (1,)))
    )
    assert (result[:, 0] == result[:, 1]).all()  # all frames of a message have the same delay
    assert 0.030 <= result.min() < 0.031
    assert 0.069 < result.max() <= 0.070


def test_jitter_does_not_reorder_messages():
    # as in the relay of the lab: the second message leaves 1 ms later, and both delays vary by 40 ms
    runs = 10_000
    link_direction = direction(LinkModel(100, jitter_ms=20), runs)
    first, second = (
        link_direction.send(np.arange(runs), np.full(runs, at), PacketizedMessage(((1,),)))[:, 0] for at in (0, 0.001)
    )
    assert (second >= first).all()
    assert (second == first).any()
    assert second.max() <= 0.071


def test_a_lost_message_does_not_delay_the_next():
    runs = 10_000
    link_direction = direction(LinkModel(100, loss=0.5, jitter_ms=20), runs)
    first, second = (
        link_direction.send(np.arange(runs), np.full(runs, at), PacketizedMessage(((1,),)))[:, 0] for at in (0, 0.001)
    )
    after_loss = np.isfinite(second) & np.isinf(first)
    # uniform from 31 to 71 ms, as without the first message
    assert second[after_loss].mean() == pytest.approx(0.051, abs=4 * 0.04 / 12**0.5 / after_loss.sum() ** 0.5)
