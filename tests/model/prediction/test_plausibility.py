from dataclasses import replace

import pytest

from ikeanalyze.model.prediction.flow import CaptureLosses, ObservedWait
from ikeanalyze.model.prediction.link import IkeTransport, LinkModel
from ikeanalyze.model.prediction.plausibility import find_warnings
from ikeanalyze.model.prediction.predict import TransmissionConfig, predict_handshake
from ikeanalyze.model.prediction.processing_times import Computation
from ikeanalyze.model.retransmission_policy import LibreswanTimers, RetransmissionPolicy, StrongswanTimers
from tests.model.flows import exchange, flow, made, message

STRONGSWAN = StrongswanTimers().make_policy()


def warnings(recorded, policy=STRONGSWAN, transport=IkeTransport.UDP, **options):
    transmission = TransmissionConfig(policy, transport)
    return [
        item.message
        for item in find_warnings([predict_handshake(recorded, LinkModel(1), transmission, runs=10, **options)])
    ]


def observed(*waits):
    return CaptureLosses(3, 2, 0, tuple(ObservedWait(i, wait, 5) for i, wait in enumerate(waits, 1)))


def clean(**changes):
    """A handshake without reason for a warning, apart from `changes`."""
    exchanges = (exchange(message(100), message(100), answer_ms=1),)
    recorded = replace(made(*exchanges), samples=(exchanges, exchanges), path="given", path_rtt_ns=0)
    return replace(recorded, **changes)


def test_a_clean_capture_has_no_warnings():
    assert warnings(clean()) == []


def test_a_single_handshake_has_constant_processing_times():
    (text,) = warnings(clean(samples=()))
    assert text.startswith("only one usable handshake: the processing times are constant")
    # unless they were asked for
    assert warnings(clean(samples=()), computation=Computation.ONE) == []
    assert warnings(clean(samples=(), alone=True)) == []


@pytest.mark.parametrize(
    ("name", "vantage", "contained_ms"),
    [
        # from the second message to the third, by `tshark -T fields -e frame.time_relative`: 0.001616 to 0.002935
        ("psk-classic.pcap", "responder", 1.319),
        # from the first message to the second, and from the third to the fourth: 0.002935 to 0.004282
        ("psk-classic.pcap", "initiator", 1.347),
    ],
)
def test_a_round_trip_time_that_the_capture_contradicts(name, vantage, contained_ms):
    recorded = flow(name, vantage=vantage, rtt_ms=40)
    (text,) = [text for text in warnings(recorded) if "round-trip" in text]
    assert f"of the path, 40 ms, is longer than an interval of the capture that contains it, {contained_ms} ms" in text
    possible = flow(name, vantage=vantage, rtt_ms=contained_ms)
    assert not [text for text in warnings(possible) if "round-trip" in text]


def test_a_recorded_round_trip_time_is_possible():
    # the link of the lab had a round-trip time of 600 ms
    recorded = flow("lab/satellite.pcapng", vantage="responder", rtt_ms=600)
    assert not [text for text in warnings(recorded) if "round-trip" in text]
    other_side = flow("lab/satellite.pcapng", vantage="initiator", rtt_ms=600)
    assert [text for text in warnings(other_side) if "--vantage is the wrong side" in text]


def test_losses_of_the_capture():
    (text,) = warnings(clean(losses=CaptureLosses(60, 12, 2)))
    assert "12 with retransmissions and 2 unanswered of 60 handshakes" in text


@pytest.mark.parametrize(
    ("waits", "policy", "fits"),
    [
        ((4.0, 7.21), STRONGSWAN, True),
        ((4.6, 7.9, 12.4), STRONGSWAN, True),
        ((0.4, 0.72), STRONGSWAN, False),
        ((4.0, 4.0), STRONGSWAN, False),
        ((0.501, 0.5, 1.003, 2.0), LibreswanTimers().make_policy(), True),
        ((4.0, 7.2), LibreswanTimers().make_policy(), False),
        # jitter of strongSwan only shortens
        ((3.3,), StrongswanTimers(jitter=20).make_policy(), True),
        ((2.2,), StrongswanTimers(jitter=20).make_policy(), False),
        # the capture has more retransmissions than the policy
        ((1.0, 1.0), RetransmissionPolicy("x", (1.0, 1.0)), False),
    ],
)
def test_observed_waits_are_compared_with_the_policy(waits, policy, fits):
    texts = [text for text in warnings(clean(losses=observed(*waits)), policy) if "policy" in text]
    assert (texts == []) == fits


def test_the_warning_suggests_a_policy():
    *_, text = warnings(clean(losses=observed(0.4, 0.56, 0.784)))
    assert "after 0.4, 0.56, 0.784 s (medians), but the policy strongswan waits 4, 7.2, 13 s" in text
    assert text.endswith("exponential:timeout=0.4,base=1.4")


def test_over_tcp_the_waits_do_not_matter():
    texts = warnings(clean(losses=observed(0.4)), transport=IkeTransport.TCP)
    assert not [text for text in texts if "policy" in text]


def test_waits_are_those_of_the_scenario():
    # scenarios/loss20.toml: 0.3 s, times 1.3; charon's log has "retransmit 1 of request with message ID"
    losses = flow("lab/loss20.pcapng").losses
    assert [wait.median_s for wait in losses.waits][:2] == pytest.approx([0.3, 0.39], abs=0.01)
    assert (losses.handshakes, losses.unanswered) == (10, 0)
    assert losses.retransmitted == 6
    assert not [
        text
        for text in warnings(flow("lab/loss20.pcapng"), StrongswanTimers(timeout=0.3, base=1.3).make_policy())
        if "policy" in text
    ]
