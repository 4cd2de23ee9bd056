"""Predictions made up for tests of what shows them."""

from dataclasses import replace

import numpy as np

from ikeanalyze.model.prediction.closed_form import HandshakeExpectation
from ikeanalyze.model.prediction.link import LinkModel, LossBurst
from ikeanalyze.model.prediction.predict import BudgetShare, Distribution, Prediction, TransmissionConfig
from ikeanalyze.model.prediction.processing_times import Computation
from ikeanalyze.model.retransmission_policy import StrongswanTimers
from tests.model.flows import exchange, made, message


def spread(mean, scale=1.0):
    """Some distribution with this mean."""
    return Distribution(mean, 0.01 * mean, 0.5 * mean, 0.9 * mean, 2 * mean, 3 * mean * scale, 0.5 * mean, 4 * mean)


def prediction(**changes):
    """One handshake of two exchanges at 20 % loss; `changes` are of its fields, `link` and `transmission` of theirs."""
    flow = made(
        exchange(message(300, encrypted=False, marker=0), message(320, encrypted=False, marker=0), answer_ms=1.5),
        exchange(message(1200, 300), message(900), before_ms=2, answer_ms=3, aaa_ms=4, trips=2),
    )
    flow = replace(flow, setup_ns=10_500_000, **changes.pop("flow", {}))
    link = replace(LinkModel(600, 0.2), **changes.pop("link", {}))
    transmission = replace(TransmissionConfig(StrongswanTimers().make_policy()), **changes.pop("transmission", {}))
    runs = np.linspace(500, 4000, 50)
    one = Prediction(
        flow,
        link,
        transmission,
        1,
        10_000,
        Computation.SAMPLE,
        1,
        66,
        (0.0066, 0.0052, 0.0084),
        {"IKE_SA_INIT 0": 20, "IKE_AUTH 1": 46},
        spread(13342.4),
        spread(5785),
        spread(8.586),
        spread(10.34),
        5802.2,
        (4, 5, 3206),
        HandshakeExpectation(0.9926, 8.583, 5779.4, 5797.5, 13.4243),
        None,
        {"setup_ms": runs, "bytes": runs, "messages": runs, "frames": runs},
    )
    return replace(one, **changes)


def failed(**changes):
    """A handshake that never succeeds."""
    return prediction(
        failures=10_000,
        failure=(1.0, 0.9996, 1.0),
        failed_in={"IKE_AUTH 1": 10_000},
        setup_ms=None,
        bytes=None,
        messages=None,
        frames=None,
        closed=None,
        not_closed="no handshake succeeds",
        samples={},
        **changes,
    )


def sweep():
    """Two captures, three losses."""
    return [
        prediction(flow={"capture": f"/x/{name}.pcap"}, link={"loss": loss}, setup_ms=spread(100 * (i + 1)))
        for name in ("a", "b")
        for i, loss in enumerate((0, 0.1, 0.2))
    ]


def repeated():
    """Failed handshakes attempted again, and budgets."""
    budgets = (BudgetShare(50, 0.25, 0.24, 0.26), BudgetShare(300, 0.9, 0.89, 0.91))
    return prediction(transmission={"until_established": True}, attempts=1.25, budgets=budgets)


def bursts():
    """A prediction with every setting."""
    return prediction(
        flow={"capture": "b.pcap", "path": "estimated", "path_rtt_ns": 300_000, "others": 3},
        link={
            "jitter_ms": 5,
            "rate_up": 384e3,
            "rate_down": 7.2e6,
            "mtu": 1280,
            "drop_ip_fragments": True,
            "aaa_rtt_ms": 10,
            "burst": LossBurst(3, True, 0.5),
            "name": "ship",
        },
        transmission={"policy": StrongswanTimers(tries=2, jitter=10).make_policy(), "fragment_size": 600},
        closed=None,
        not_closed="losses come in bursts",
    )
