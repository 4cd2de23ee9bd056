import math
import random

from ikeanalyze.lab.network.relay import MAX_QUEUED, RelayDirection


def direction(**rules):
    return RelayDirection(
        **({"delay": 0.0, "jitter": 0.0, "loss": 0.0, "bits_per_second": 0.0, "random": random.Random(1)} | rules)
    )


def test_a_frame_arrives_after_the_delay_and_in_order():
    way = direction(delay=0.3, jitter=0.1)
    for number in range(200):
        way.add_frame(bytes([number]), number / 1000)
    assert way.pop_due(0.19) == []
    assert b"".join(way.pop_due(1)) == bytes(range(200))
    assert way.next_at is None
    assert way.waiting == 0


def test_loss_is_within_binomial_limits():
    way, count, loss = direction(loss=0.2), 10_000, 0.2
    for _ in range(count):
        way.add_frame(b"x", 0.0)
    assert abs(way.lost - count * loss) < 5 * math.sqrt(count * loss * (1 - loss))
    assert way.lost + len(way.pop_due(1)) == count


def test_frames_wait_for_their_turn():
    way = direction(bits_per_second=8000)  # a byte per millisecond
    way.add_frame(bytes(100), 0.0)
    way.add_frame(bytes(100), 0.0)
    assert len(way.pop_due(0.099)) == 0
    assert len(way.pop_due(0.101)) == 1
    assert len(way.pop_due(0.201)) == 1


def test_a_full_queue_drops():
    way = direction(delay=1)
    for _ in range(MAX_QUEUED + 5):
        way.add_frame(b"x", 0.0)
    assert way.overflowed == 5
    assert way.waiting == way.counts["undelivered"] == MAX_QUEUED
