"""The closed form against the plainest computation there is: all ways in which a few transmissions can go."""

from collections import defaultdict
from itertools import product

import numpy as np
import pytest

from ikeanalyze.model.prediction.closed_form import NoClosedFormError, compute_exchange_expectation, compute_expectation
from ikeanalyze.model.prediction.layout import PacketizedMessage
from ikeanalyze.model.prediction.link import LinkModel, LossBurst, ResponseTrigger
from ikeanalyze.model.prediction.simulation import SimulatedExchange, simulate_udp
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy, StrongswanTimers
from tests.model.flows import exchange as recorded
from tests.model.flows import message

WAITS = np.array([1.0, 2.0, 4.0, 8.0])


def subsets(chances):
    """Each set of parts that may arrive, with its probability."""
    for kept in product((0, 1), repeat=len(chances)):
        yield (
            frozenset(i for i, k in enumerate(kept) if k),
            np.prod([c if k else 1 - c for c, k in zip(chances, kept, strict=True)]),
        )


def enumerated(a, b, waits, response_trigger):
    """success, requests, responses, requests_if_done, responses_if_done, wait."""
    # state: arrived parts of the request, parts of repeats since the last response, parts of the response, responses
    states = {(frozenset(), frozenset(), frozenset(), 0): 1.0}
    everything, whole = frozenset(range(len(a))), frozenset(range(len(b)))
    done = defaultdict(float)
    at = np.concatenate([[0.0], np.cumsum(waits)[:-1]])
    wait = requests = 0.0
    for k in range(1, len(waits) + 1):
        after = defaultdict(float)
        for (requested, since, answered, responses), p in states.items():
            requests += p
            for came, q in subsets(a):
                fresh = since
                if requested == everything:
                    fresh = since | came
                    respond = 0 in came if response_trigger is ResponseTrigger.FIRST else fresh == everything
                    if respond:
                        fresh = frozenset()
                else:
                    respond = requested | came == everything
                for back, r in subsets(b) if respond else [(frozenset(), 1.0)]:
                    new = answered | back
                    if new == whole:
                        done[k, responses + 1] += p * q * r
                        wait += p * q * r * at[k - 1]
                    else:
                        after[requested | came, fresh, new, responses + respond] += p * q * r
        states = after
    success = sum(done.values())
    failed = sum(responses * p for (*_, responses), p in states.items())
    requests_if_done = sum(k * p for (k, _), p in done.items()) / success
    responses_if_done = sum(s * p for (_, s), p in done.items()) / success
    return (
        success,
        requests,
        responses_if_done * success + failed,
        requests_if_done,
        responses_if_done,
        wait / success,
    )


@pytest.mark.parametrize("response_trigger", list(ResponseTrigger))
@pytest.mark.parametrize(
    ("a", "b"),
    [([0.8], [0.8]), ([0.8, 0.8], [0.7]), ([0.9, 0.6, 0.7], [0.8, 0.5]), ([0.3, 0.95], [0.2]), ([1.0], [1.0])],
)  # fmt: skip
def test_results_agree_with_an_enumeration_of_all_losses(a, b, response_trigger):
    exchange_expectation = compute_exchange_expectation(np.array(a), np.array(b), WAITS, response_trigger)
    values = (
        exchange_expectation.success, exchange_expectation.requests, exchange_expectation.responses,
        exchange_expectation.requests_if_done, exchange_expectation.responses_if_done, exchange_expectation.wait_s,
    )  # fmt: skip
    assert values == pytest.approx(enumerated(a, b, WAITS, response_trigger), abs=1e-12)


def test_without_a_limit_it_is_geometric():
    exchange_expectation = compute_exchange_expectation(np.array([0.8]), np.array([0.8]), np.ones(200))
    assert exchange_expectation.success == pytest.approx(1)
    assert exchange_expectation.requests == pytest.approx(1 / 0.64)
    assert exchange_expectation.responses == pytest.approx(1 / 0.8)


def steps(request, response, **times):
    return [
        SimulatedExchange(
            recorded(message(1), message(1), **times),
            PacketizedMessage(request),
            response and PacketizedMessage(response),
        )
    ]


@pytest.mark.parametrize("response_trigger", list(ResponseTrigger))
def test_results_agree_with_the_simulation(response_trigger):
    one = steps(((600,), (600,), (100,)), ((500, 500), (80,)), answer_ms=300)
    two = steps(((300,),), ((700,), (700,)), before_ms=10)
    what, link, policy = (
        one + two,
        LinkModel(50, 0.15),
        StrongswanTimers(timeout=0.5, base=1.5, tries=5, jitter=10).make_policy(),
    )
    exact = compute_expectation(what, link, policy, response_trigger)
    runs = 60_000
    result = simulate_udp(what, link, policy, response_trigger, runs, np.random.default_rng(7))
    fine = ~np.isnan(result.setup_s)
    assert fine.mean() == pytest.approx(exact.success, abs=4 * (exact.success * (1 - exact.success) / runs) ** 0.5)
    for values, mean in (
        (result.messages[fine], exact.messages),
        (result.bytes[fine], exact.bytes),
        (result.bytes, exact.all_bytes),
        (result.messages, exact.all_messages),
        (result.end_s, exact.all_s),
        (result.setup_s[fine], exact.setup_s),
    ):
        assert values.mean() == pytest.approx(mean, abs=4 * values.std() / len(values) ** 0.5)


def test_only_the_first_response_is_computed():
    # half of the frames are lost; two transmissions, 10 s apart; a path of 1 s and 3 s of work. By hand:
    # both arrive (1/4); the request is lost once (1/2 * 1/4); the response is lost once, repeated at once (1/4 * 1/4)
    answered = ((1 / 4, 4), (1 / 8, 10 + 4), (1 / 16, 10 + 1))
    share = sum(chance for chance, _ in answered)
    what = steps(((100,),), ((100,),), answer_ms=2000, aaa_ms=400, trips=2)
    exact = compute_expectation(
        what, LinkModel(1000, 0.5, aaa_rtt_ms=300), RetransmissionPolicy("x", (10, 10)), ResponseTrigger.FIRST
    )
    assert exact.success == pytest.approx(share)
    assert exact.setup_s == pytest.approx(sum(chance * seconds for chance, seconds in answered) / share)


def test_on_a_slow_line_without_loss():
    exact = compute_expectation(
        steps(((600,), (600,)), ((500,),)),
        LinkModel(50, rate_up=8000),
        StrongswanTimers().make_policy(),
        ResponseTrigger.FIRST,
    )
    assert exact.setup_s == pytest.approx(1.2 + 0.05)
    # which of two fragments completes a message decides about its time
    lossy = LinkModel(50, 0.1, rate_up=8000)
    assert (
        compute_expectation(
            steps(((600,), (600,)), ((500,),)), lossy, StrongswanTimers().make_policy(), ResponseTrigger.FIRST
        ).setup_s
        is None
    )
    assert (
        compute_expectation(
            steps(((600,),), ((500,),)), lossy, StrongswanTimers().make_policy(), ResponseTrigger.FIRST
        ).setup_s
        is not None
    )


def test_requests_without_responses_need_no_round_trip():
    exact = compute_expectation(
        steps(((600,),), None, before_ms=3), LinkModel(50, 0.5), StrongswanTimers().make_policy(), ResponseTrigger.FIRST
    )
    assert (exact.success, exact.messages, exact.bytes, exact.all_bytes, exact.setup_s) == (
        1,
        1,
        600,
        600,
        0.003,
    )


@pytest.mark.parametrize(
    ("link", "policy", "why"),
    [
        (LinkModel(1, 0.1, burst=LossBurst(10, False)), StrongswanTimers().make_policy(), "bursts"),
        (LinkModel(600), RetransmissionPolicy("x", (0.5, 1)), "as long as the shortest timer"),
        (LinkModel(400, jitter_ms=60), RetransmissionPolicy("x", (0.5, 1)), "as long as the shortest timer"),
        (LinkModel(1, drop_ip_fragments=True), StrongswanTimers().make_policy(), "no handshake succeeds"),
    ],
)
def test_some_predictions_have_no_closed_form(link, policy, why):
    with pytest.raises(NoClosedFormError, match=why):
        compute_expectation(steps(((600, 600),), ((500,),)), link, policy, ResponseTrigger.FIRST)
    # bursts without loss are none
    compute_expectation(
        steps(((600,),), ((500,),)),
        LinkModel(1, burst=LossBurst(10, False)),
        StrongswanTimers().make_policy(),
        ResponseTrigger.FIRST,
    )
