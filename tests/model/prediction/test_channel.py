import numpy as np
import pytest

from ikeanalyze.model.prediction.channel import make_channel
from ikeanalyze.model.prediction.link import LinkModel, LossBurst

RUNS = 20_000


def lost(link, frames, gap_s=0.0, seed=1):
    """Losses of `frames` frames, one message each, so far apart. (RUNS, frames)"""
    channel = make_channel(link, RUNS, np.random.default_rng(seed))
    rows = np.arange(RUNS)
    return np.column_stack([channel.draw_losses(rows, np.full((RUNS, 1), i * gap_s)) for i in range(frames)])


@pytest.mark.parametrize(
    "link",
    [
        LinkModel(1, 0.2),
        LinkModel(1, 0.2, burst=LossBurst(3, True)),
        LinkModel(1, 0.2, burst=LossBurst(100, False)),
        LinkModel(1, 0.2, burst=LossBurst(100, False, 0.4)),
    ],
    ids=["independent", "frames", "ms", "leaky"],
)
def test_the_mean_is_what_was_asked_for(link):
    # 20,000 runs whose first frames are independent: sigma of the share is 0.0028
    result = lost(link, 6, 0.05)
    assert abs(result[:, 0].mean() - 0.2) < 0.012
    assert abs(result[:, -1].mean() - 0.2) < 0.012


def test_none_and_independent():
    assert not lost(LinkModel(1), 5).any()
    assert not lost(LinkModel(1, 0.0, burst=LossBurst(100, False)), 5).any()
    result = lost(LinkModel(1, 0.2), 2)
    assert abs((result[:, 0] & result[:, 1]).mean() - 0.04) < 0.006


def test_bursts_of_frames_are_as_long_as_asked():
    # the length of a run of lost frames is geometric with mean 3: after a lost one the next is lost with 1 - 1/3
    result = lost(LinkModel(1, 0.2, burst=LossBurst(3, True)), 12)
    after = result[:, 1:][result[:, :-1]]
    assert abs(after.mean() - 2 / 3) < 0.01
    # and a good state lasts so that a fifth of the frames is lost: 3 * 0.8 / 0.2 = 12
    assert abs(result[:, 1:][~result[:, :-1]].mean() - 1 / 12) < 0.005


@pytest.mark.parametrize("gap", [0.0, 0.05, 0.2, 5.0])
def test_bursts_over_time_depend_on_the_gap_only(gap):
    # two states in continuous time, the bad one of mean 0.1 s, a fifth of the time:
    # P(bad | bad, t later) = 0.2 + 0.8 exp(-t (1/0.1 + 1/0.4))
    result = lost(LinkModel(1, 0.2, burst=LossBurst(100, False)), 2, gap)
    expected = 0.2 + 0.8 * np.exp(-gap * 12.5)
    assert abs(result[:, 1][result[:, 0]].mean() - expected) < 0.02


def test_fragments_of_one_message_share_their_fate():
    channel = make_channel(LinkModel(1, 0.2, burst=LossBurst(100, False)), RUNS, np.random.default_rng(1))
    result = channel.draw_losses(np.arange(RUNS), np.zeros((RUNS, 4)))
    assert (result.all(axis=1) == result.any(axis=1)).all()


def test_each_run_has_a_state_of_its_own():
    channel = make_channel(LinkModel(1, 0.2, burst=LossBurst(1000, False)), RUNS, np.random.default_rng(1))
    half = np.arange(0, RUNS, 2)
    first = channel.draw_losses(half, np.zeros((len(half), 1)))
    again = channel.draw_losses(np.arange(RUNS), np.full((RUNS, 1), 1e-6))
    assert (again[::2, 0] == first[:, 0]).mean() > 0.999
    assert abs(again[1::2, 0].mean() - 0.2) < 0.02
