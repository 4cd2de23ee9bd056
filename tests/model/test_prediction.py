import time

import numpy as np
import pytest

from ikeanalyze.model.layout import LayoutError
from ikeanalyze.model.link import Link, LinkError, Transport
from ikeanalyze.model.policy import libreswan, strongswan
from ikeanalyze.model.prediction import Use, predict
from tests.model.flows import capture, exchange, flow, made, message


def test_summary():
    found = predict(flow("pq-mlkem768-psk.pcap"), Link(100, 0.2), Use(strongswan()), keep=True)
    assert found.runs == 10_000
    assert found.failures == sum(found.failed_in.values())
    assert found.failure[1] < found.failure[0] < found.failure[2]
    assert found.once == (6, 7, 3908)
    assert len(found.samples["bytes"]) == found.runs - found.failures
    values = found.samples["setup_ms"]
    assert found.setup_ms.mean == pytest.approx(values.mean())
    assert found.setup_ms.p95 == pytest.approx(np.quantile(values, 0.95))
    assert found.setup_ms.least <= found.setup_ms.median <= found.setup_ms.p99 <= found.setup_ms.greatest
    assert found.setup_ms.least == pytest.approx(300 + 6.202)
    # the mean of the simulation is within four standard errors of the closed form
    for name in ("bytes", "messages"):
        simulated = getattr(found, name)
        assert abs(simulated.mean - getattr(found.closed, name)) < 4 * simulated.mean_error
    assert abs(found.setup_ms.mean - 1000 * found.closed.setup_s) < 4 * found.setup_ms.mean_error
    assert found.failure[1] <= 1 - found.closed.success <= found.failure[2]
    assert "samples" not in repr(found)


def test_without_loss_nothing_varies():
    found = predict(flow("psk-classic.pcap"), Link(600), Use(strongswan()), runs=100)
    assert found.setup_ms.mean == found.setup_ms.greatest == pytest.approx(1204.282)
    assert found.setup_ms.deviation == 0
    assert found.failure[0] == 0
    assert found.samples == {}


def test_what_a_satellite_takes():
    # recorded by the responder over an emulated path of 600 ms, which sees one round trip of the two
    recorded = flow("lab/satellite.pcapng", vantage="responder", rtt_ms=600)
    found = predict(recorded, Link(600), Use(strongswan()), runs=10)
    assert found.setup_ms.mean == pytest.approx(recorded.setup_ns / 1e6 + 600)


def test_a_handshake_that_cannot_succeed():
    recorded = flow("lab/rsa-chain3.pcapng")
    blocked = Link(10, mtu=1500, drop_ip_fragments=True)
    found = predict(recorded, blocked, Use(strongswan(), fragment_size=0), runs=100)
    assert found.failure[0] == 1
    assert found.failed_in == {"IKE_AUTH 1": 100}
    assert found.setup_ms is None
    assert found.closed is None
    assert found.all_bytes > recorded.bytes
    # as in the lab, where a link dropped IP fragments: without IKE fragmentation IKE_AUTH was never answered
    (lab,) = capture("lab/fragments-dropped_fragment-size-0.pcapng").handshakes["outcome"].to_list()
    assert lab == "unanswered"
    # RFC 7383 gets through
    assert predict(recorded, blocked, Use(strongswan(), fragment_size=1280), runs=100).failures == 0


def test_over_tcp():
    found = predict(flow("pq-mlkem768-psk.pcap"), Link(600, 0.05), Use(libreswan(), Transport.TCP))
    assert found.closed is None
    assert "TCP" in found.not_closed
    assert found.messages.mean == 6
    assert found.setup_ms.least == pytest.approx(4 * 600 + 6.202)
    with pytest.raises(LayoutError, match="IKEv2 into TCP, not IKEv1"):
        predict(flow("ikev1-xauth.pcap"), Link(1), Use(strongswan(), Transport.TCP))


def test_ikev1_too():
    recorded = flow("lab/ikev1_mode-main.pcapng")
    found = predict(recorded, Link(100), Use(strongswan()), runs=10)
    # three exchanges of main mode, and quick mode, whose third message nothing waits for
    assert found.setup_ms.mean == pytest.approx(400 + recorded.setup_ns / 1e6)
    assert found.messages.mean == 9


def test_no_link_is_like_that():
    with pytest.raises(LinkError):
        predict(made(exchange(message(100), message(100))), Link(1, 2.0), Use(strongswan()))


def test_ten_thousand_runs_are_quick():
    recorded = flow("pq-loss15.pcap")  # messages in up to eight fragments
    start = time.process_time()
    predict(recorded, Link(100, 0.2), Use(strongswan()))
    assert time.process_time() - start < 1
