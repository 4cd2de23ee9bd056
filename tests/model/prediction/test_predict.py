"""Predictions of recorded handshakes on other links: the summary, and its agreement with the closed form."""

import time
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from ikeanalyze.model.prediction.layout import LayoutError
from ikeanalyze.model.prediction.link import IkeTransport, LinkError, LinkModel
from ikeanalyze.model.prediction.predict import TransmissionConfig, estimate_share, predict_handshake
from ikeanalyze.model.prediction.processing_times import Computation
from ikeanalyze.model.retransmission_policy import LibreswanTimers, StrongswanTimers
from tests.model.flows import capture, exchange, flow, made, message


def test_the_summary_describes_the_simulated_handshakes():
    prediction = predict_handshake(
        flow("pq-mlkem768-psk.pcap"),
        LinkModel(100, 0.2),
        TransmissionConfig(StrongswanTimers().make_policy()),
        keep=True,
    )
    assert prediction.runs == 10_000
    assert prediction.failures == sum(prediction.failed_in.values())
    assert prediction.failure[1] < prediction.failure[0] < prediction.failure[2]
    assert prediction.once == (6, 7, 3908)
    assert len(prediction.samples["bytes"]) == prediction.runs - prediction.failures
    values = prediction.samples["setup_ms"]
    assert prediction.setup_ms.mean == pytest.approx(values.mean())
    assert prediction.setup_ms.p95 == pytest.approx(np.quantile(values, 0.95))
    assert (
        prediction.setup_ms.least
        <= prediction.setup_ms.median
        <= prediction.setup_ms.p99
        <= prediction.setup_ms.greatest
    )
    assert prediction.setup_ms.least == pytest.approx(300 + 6.202)
    # the mean of the simulation is within four standard errors of the closed form
    for name in ("bytes", "messages"):
        simulated = getattr(prediction, name)
        assert abs(simulated.mean - getattr(prediction.closed, name)) < 4 * simulated.mean_error
    assert abs(prediction.setup_ms.mean - 1000 * prediction.closed.setup_s) < 4 * prediction.setup_ms.mean_error
    assert prediction.failure[1] <= 1 - prediction.closed.success <= prediction.failure[2]
    assert "samples" not in repr(prediction)


def test_without_loss_nothing_varies():
    prediction = predict_handshake(
        flow("psk-classic.pcap"), LinkModel(600), TransmissionConfig(StrongswanTimers().make_policy()), runs=100
    )
    assert prediction.setup_ms.mean == prediction.setup_ms.greatest == pytest.approx(1204.282)
    assert prediction.setup_ms.deviation == 0
    assert prediction.failure[0] == 0
    assert prediction.samples == {}


def test_a_satellite_link_recorded_at_the_responder():
    # recorded by the responder over an emulated path of 600 ms, which sees one round trip of the two
    recorded = flow("lab/satellite.pcapng", vantage="responder", rtt_ms=600)
    prediction = predict_handshake(
        recorded, LinkModel(600), TransmissionConfig(StrongswanTimers().make_policy()), runs=10
    )
    assert prediction.setup_ms.mean == pytest.approx(recorded.setup_ns / 1e6 + 600)


def test_a_handshake_that_cannot_succeed():
    recorded = flow("lab/rsa-chain3.pcapng")
    blocked = LinkModel(10, mtu=1500, drop_ip_fragments=True)
    prediction = predict_handshake(
        recorded, blocked, TransmissionConfig(StrongswanTimers().make_policy(), fragment_size=0), runs=100
    )
    assert prediction.failure[0] == 1
    assert prediction.failed_in == {"IKE_AUTH 1": 100}
    assert prediction.setup_ms is None
    assert prediction.closed is None
    assert prediction.all_bytes > recorded.bytes
    # as in the lab, where a link dropped IP fragments: without IKE fragmentation IKE_AUTH was never answered
    (lab,) = capture("lab/fragments-dropped_fragment-size-0.pcapng").handshakes["outcome"].to_list()
    assert lab == "unanswered"
    # RFC 7383 gets through
    assert (
        predict_handshake(
            recorded, blocked, TransmissionConfig(StrongswanTimers().make_policy(), fragment_size=1280), runs=100
        ).failures
        == 0
    )


def test_tcp_has_no_closed_form_and_needs_ikev2():
    prediction = predict_handshake(
        flow("pq-mlkem768-psk.pcap"),
        LinkModel(600, 0.05),
        TransmissionConfig(LibreswanTimers().make_policy(), IkeTransport.TCP),
    )
    assert prediction.closed is None
    assert "TCP" in prediction.not_closed
    assert prediction.messages.mean == 6
    assert prediction.setup_ms.least == pytest.approx(4 * 600 + 6.202)
    with pytest.raises(LayoutError, match="IKEv2 into TCP, not IKEv1"):
        predict_handshake(
            flow("ikev1-xauth.pcap"),
            LinkModel(1),
            TransmissionConfig(StrongswanTimers().make_policy(), IkeTransport.TCP),
        )


def test_ikev1_needs_a_round_trip_for_each_exchange():
    recorded = flow("lab/ikev1_mode-main.pcapng")
    prediction = predict_handshake(
        recorded, LinkModel(100), TransmissionConfig(StrongswanTimers().make_policy()), runs=10
    )
    # three exchanges of main mode, and quick mode, whose third message has no response
    assert prediction.setup_ms.mean == pytest.approx(400 + recorded.setup_ns / 1e6)
    assert prediction.messages.mean == 9


def test_an_impossible_link_is_refused():
    with pytest.raises(LinkError):
        predict_handshake(
            made(exchange(message(100), message(100))),
            LinkModel(1, 2.0),
            TransmissionConfig(StrongswanTimers().make_policy()),
        )


def spread(*answers_ms, sizes=None):
    """A handshake of one exchange, and comparable ones with these times and bytes of the response."""
    sizes = sizes or [200] * len(answers_ms)
    samples = [
        (exchange(message(100), message(size), answer_ms=answer_ms),)
        for answer_ms, size in zip(answers_ms, sizes, strict=True)
    ]
    return replace(made(*samples[0]), samples=tuple(samples))


def run(recorded, link, **options):
    return predict_handshake(recorded, link, TransmissionConfig(StrongswanTimers().make_policy()), keep=True, **options)


def test_set_up_times_have_the_spread_of_the_recorded_handshakes():
    recorded = spread(100, 2, 3, 4)  # the first is cold
    prediction = run(recorded, LinkModel(10))
    values, counts = np.unique(np.round(prediction.samples["setup_ms"]), return_counts=True)
    assert values.tolist() == [12, 13, 14, 110]
    # each a quarter of the runs: standard deviation 43
    assert np.all(np.abs(counts - 2500) < 200)
    assert prediction.closed.setup_s * 1000 == pytest.approx(10 + 109 / 4)
    assert (prediction.computation, prediction.handshakes) == (Computation.SAMPLE, 4)
    assert run(recorded, LinkModel(10), computation=Computation.ONE).setup_ms.median == pytest.approx(110)
    median = run(recorded, LinkModel(10), computation=Computation.MEDIAN)
    assert median.setup_ms.mean == median.setup_ms.p99 == pytest.approx(13.5)
    assert median.closed.setup_s * 1000 == pytest.approx(13.5)


def test_the_spread_equals_that_of_a_recording():
    # without loss and delay, the predicted set-up times are those of the capture (recorded at the responder)
    recorded = flow("lab/loss20.pcapng")
    table = capture("lab/loss20.pcapng").handshakes
    clean = table.filter(pl.col("retransmitted_messages") == 0)["setup_ns"].to_numpy() / 1e6
    prediction = run(recorded, LinkModel(0))
    assert prediction.handshakes == 10
    for value in clean:
        assert np.isclose(prediction.samples["setup_ms"], value).any()


def test_sizes_have_the_spread_of_the_recorded_handshakes():
    prediction = run(spread(1, 1, 1, 1, sizes=[200, 200, 200, 203]), LinkModel(10, 0.1))
    without_loss = run(spread(1, 1, 1, 1, sizes=[200, 200, 200, 203]), LinkModel(10))
    values, counts = np.unique(without_loss.samples["bytes"], return_counts=True)
    assert values.tolist() == [100 + 200 + 2 * 46, 100 + 203 + 2 * 46]
    assert counts[1] == pytest.approx(2500, abs=200)
    assert without_loss.closed.bytes == pytest.approx(100 + 200.75 + 2 * 46)
    assert abs(prediction.bytes.mean - prediction.closed.bytes) < 4 * prediction.bytes.mean_error
    assert without_loss.once == (2, 2, 392)


def test_the_number_of_different_sizes_is_bounded(monkeypatch):
    monkeypatch.setattr("ikeanalyze.model.prediction.predict._MAX_VARIANTS", 2)
    prediction = run(spread(1, 2, 3, sizes=[200, 203, 206]), LinkModel(10))
    values, counts = np.unique(prediction.samples["bytes"], return_counts=True)
    assert values.tolist() == [392, 395]
    # the processing times of the third handshake are combined with the sizes of the first one
    assert counts[1] == pytest.approx(3333, abs=200)
    assert set(np.round(prediction.samples["setup_ms"])) == {11, 12, 13}
    assert prediction.closed.bytes == pytest.approx(393)


def test_a_slow_handshake_rules_out_the_closed_form():
    # in one of three handshakes the responder takes longer than the timer
    prediction = run(spread(1, 1, 5000), LinkModel(10, 0.1))
    assert "as long as the shortest timer or longer" in prediction.not_closed


def test_repeated_attempts_agree_with_the_closed_form():
    recorded = flow("pq-mlkem768-psk.pcap")
    timers = StrongswanTimers(timeout=0.3, base=1.3, tries=2).make_policy()
    once = predict_handshake(recorded, LinkModel(20, 0.3), TransmissionConfig(timers))
    again = predict_handshake(
        recorded, LinkModel(20, 0.3), TransmissionConfig(timers, until_established=True), runs=20_000
    )
    assert once.failure[0] > 0.3
    assert (once.attempts, again.failures) == (1, 0)
    # attempts are independent: their number is geometric
    assert again.attempts == pytest.approx(1 / once.closed.success, rel=0.02)
    for name, exact in (
        ("setup_ms", 1000 * again.closed.setup_s),
        ("bytes", again.closed.bytes),
        ("messages", again.closed.messages),
    ):
        simulated = getattr(again, name)
        assert abs(simulated.mean - exact) < 4 * simulated.mean_error
    assert again.closed.success == 1
    # a failed attempt takes all timers of an exchange
    assert again.setup_ms.greatest > 1000 * sum(timers.waits)


def test_attempts_without_success_end():
    blocked = LinkModel(10, mtu=1500, drop_ip_fragments=True)
    transmission = TransmissionConfig(StrongswanTimers().make_policy(), fragment_size=0, until_established=True)
    prediction = predict_handshake(flow("lab/rsa-chain3.pcapng"), blocked, transmission, runs=5)
    assert (prediction.failures, prediction.attempts) == (5, 100)
    assert prediction.closed is None


def test_budgets_count_failed_handshakes():
    # 12, 13, 14 and 110 ms (see above), and half of all handshakes fail: one transmission, and 29 % of frames lost
    recorded = spread(100, 2, 3, 4)
    prediction = run(recorded, LinkModel(10), budgets_ms=(11.9, 13.5, 200))
    assert [budget.ms for budget in prediction.budgets] == [11.9, 13.5, 200]
    assert [budget.share for budget in prediction.budgets] == pytest.approx([0, 0.5, 1], abs=0.02)
    assert all(budget.low <= budget.share <= budget.high for budget in prediction.budgets)
    single = TransmissionConfig(StrongswanTimers(tries=0).make_policy())
    lossy = predict_handshake(recorded, LinkModel(10, 1 - 0.5**0.5), single, budgets_ms=(200,))
    assert lossy.budgets[0].share == pytest.approx(0.5, abs=0.02)


def test_ten_thousand_runs_are_quick():
    recorded = flow("pq-loss15.pcap")  # messages in up to eight fragments
    start = time.process_time()
    predict_handshake(recorded, LinkModel(100, 0.2), TransmissionConfig(StrongswanTimers().make_policy()))
    assert time.process_time() - start < 1


@pytest.mark.parametrize(("count", "runs"), [(0, 10), (10, 10), (0, 1), (1, 1), (3, 10), (9_999, 10_000), (1, 10**6)])
def test_intervals_of_shares_are_those_of_scipy(count, runs):
    expected = stats.binomtest(count, runs).proportion_ci(0.95, method="wilson")
    assert estimate_share(count, runs) == pytest.approx((count / runs, expected.low, expected.high), rel=1e-12)
