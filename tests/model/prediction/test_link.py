import pytest

from ikeanalyze.model.prediction.link import LinkError, LinkModel, LossBurst, validate_link


@pytest.mark.parametrize(
    "link",
    [
        LinkModel(0),
        LinkModel(600, 0.999, 300, 100, 1e12, 296, True, 50, LossBurst(100, False), "x"),
        LinkModel(1, 0.5, burst=LossBurst(1, True)),
        LinkModel(1, 0.2, burst=LossBurst(2, True, 0.5)),
    ],
)
def test_what_can_be(link):
    assert validate_link(link) is link


@pytest.mark.parametrize(
    ("link", "what", "text"),
    [
        (LinkModel(-1), "rtt", "-1 is not in the range"),
        (LinkModel(float("nan")), "rtt", "nan"),
        (LinkModel(1, -0.1), "loss", "-0.1 is not a share of lost frames from 0 to less than 1."),
        (LinkModel(1, 1), "loss", "20 % is written 0.2"),
        (LinkModel(1, float("nan")), "loss", "nan"),
        (LinkModel(10, jitter_ms=6), "jitter", "0 to 5 milliseconds"),
        (LinkModel(10, rate_up=0), "rate", "bit/s"),
        (LinkModel(10, rate_down=float("inf")), "rate", "bit/s"),
        (LinkModel(10, mtu=100), "mtu", "296 to 65535 bytes"),
        (LinkModel(10, aaa_rtt_ms=-1), "aaa-rtt", "milliseconds"),
        (LinkModel(10, burst=LossBurst(0, False)), "burst", "not the length"),
        (LinkModel(10, 0.1, burst=LossBurst(1, False, 1.5)), "burst-loss", "more than 0 and up to 1"),
        (LinkModel(10, 0.5, burst=LossBurst(1, False, 0.4)), "burst-loss", "needs a higher loss in bursts"),
        (LinkModel(10, 0.1, burst=LossBurst(0.5, True)), "burst", "at least one frame"),
        (LinkModel(10, 0.8, burst=LossBurst(2, True)), "burst", "at least 4 frames"),
    ],
)
def test_impossible_links_are_errors(link, what, text):
    with pytest.raises(LinkError) as error:
        validate_link(link)
    assert error.value.what == what
    assert text in str(error.value)
