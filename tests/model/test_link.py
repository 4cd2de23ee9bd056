import pytest

from ikeanalyze.model.link import Burst, Link, LinkError, checked


@pytest.mark.parametrize(
    "link",
    [
        Link(0),
        Link(600, 0.999, 300, 100, 1e12, 296, True, 50, Burst(100, False), "x"),
        Link(1, 0.5, burst=Burst(1, True)),
        Link(1, 0.2, burst=Burst(2, True, 0.5)),
    ],
)
def test_what_can_be(link):
    assert checked(link) is link


@pytest.mark.parametrize(
    ("link", "what", "text"),
    [
        (Link(-1), "rtt", "-1 is not allowed"),
        (Link(float("nan")), "rtt", "nan"),
        (Link(1, -0.1), "loss", "-0.1 is no share of lost frames: 0 to less than 1."),
        (Link(1, 1), "loss", "20 % is written 0.2"),
        (Link(1, float("nan")), "loss", "nan"),
        (Link(10, jitter_ms=6), "jitter", "0 to 5 milliseconds"),
        (Link(10, rate_up=0), "rate", "bit/s"),
        (Link(10, rate_down=float("inf")), "rate", "bit/s"),
        (Link(10, mtu=100), "mtu", "296 to 65535 bytes"),
        (Link(10, aaa_rtt_ms=-1), "aaa-rtt", "milliseconds"),
        (Link(10, burst=Burst(0, False)), "burst", "no length"),
        (Link(10, 0.1, burst=Burst(1, False, 1.5)), "burst-loss", "more than 0 to 1"),
        (Link(10, 0.5, burst=Burst(1, False, 0.4)), "burst-loss", "needs more loss within bursts"),
        (Link(10, 0.1, burst=Burst(0.5, True)), "burst", "one frame long at least"),
        (Link(10, 0.8, burst=Burst(2, True)), "burst", "4 frames long at least"),
    ],
)
def test_impossible_links_are_errors(link, what, text):
    with pytest.raises(LinkError) as error:
        checked(link)
    assert error.value.what == what
    assert text in str(error.value)
