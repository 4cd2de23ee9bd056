"""Against what Xenakis and Merakos print of their simulation, and a simulation of ours."""

import numpy as np
import pytest

from ikeanalyze.model.esp.algorithms import parse_suite
from ikeanalyze.model.esp.operations import count_operations
from ikeanalyze.model.esp.queue import (
    compute_capacity_bps,
    compute_mean_delay,
    compute_service_time,
    make_fixed_sizes,
    make_pareto_sizes,
)

PARETO = make_pareto_sizes()


def peer(name, mips, sizes=PARETO):
    return compute_service_time(count_operations(parse_suite(name), sizes.size) / (mips * 1e6), sizes)


def test_the_mean_size_is_the_papers():
    assert PARETO.share.sum() == pytest.approx(1)
    assert PARETO.mean == pytest.approx(480, abs=0.5)
    # P(S_d = m), all of the tail: (k / m) ** a
    assert PARETO.share[-1] == pytest.approx((81.5 / 66666) ** 1.1, rel=1e-4)


@pytest.mark.parametrize(("name", "kbps", "off"), [("3des", 768, 0.03), ("3des-md5", 716, 0.09)])
def test_ceilings_agree_with_the_paper(name, kbps, off):
    """The paper's ceilings, of a simulation with bursts and steps of the rate, are a few per cent below."""
    result = compute_capacity_bps(peer(name, 100), PARETO) / 1e3
    assert kbps <= result <= kbps * (1 + off)


def test_which_processors_suffice():
    """ "If the involved MS processing capabilities are less than 300 MIPS" 3DES reduces the throughput of 2 Mbit/s."""
    for name in ("null-md5", "des", "des-md5"):
        assert compute_capacity_bps(peer(name, 100), PARETO) > 2e6
    for name in ("3des", "3des-md5"):
        assert compute_capacity_bps(peer(name, 200), PARETO) < 2e6 < compute_capacity_bps(peer(name, 300), PARETO)


def test_the_buffer_of_figure_13():
    """DES+MD5 at 100 MIPS: "the mean buffer size reaches at 45Kbytes" at 2 Mbit/s."""
    mean_delay = compute_mean_delay(2e6, peer("des-md5", 100), PARETO)
    assert mean_delay.waiting_packets * PARETO.mean / 1e3 == pytest.approx(45, abs=1)
    assert compute_mean_delay(2e6, peer("3des-md5", 100), PARETO) is None
    assert compute_mean_delay(2e6, peer("3des-md5", 200), PARETO) is None
    assert compute_mean_delay(2e6, peer("3des-md5", 500), PARETO).load < 0.55


def test_packets_of_one_size_wait_as_in_m_d_1():
    """M/D/1: the mean wait is load / (2 * (1 - load)) services."""
    sizes = make_fixed_sizes(480)
    server = peer("3des", 100, sizes)
    assert server.mean_s == pytest.approx(4.8546e-3)
    mean_delay = compute_mean_delay(compute_capacity_bps(server, sizes) / 2, server, sizes)
    assert mean_delay.load == pytest.approx(0.5)
    assert mean_delay.wait_ms == pytest.approx(4.8546 / 2)
    assert mean_delay.total_ms == pytest.approx(4.8546 * 1.5)
    assert compute_mean_delay(compute_capacity_bps(server, sizes), server, sizes) is None


def test_waiting_times_agree_with_a_simulation():
    """Lindley's recursion over a million packets; sizes with a short tail, so that the mean settles."""
    random = np.random.default_rng(3)
    sizes = make_pareto_sizes(shape=3.0, least=300, most=1500)
    server = peer("3des", 100, sizes)
    rate = 0.7 * compute_capacity_bps(server, sizes)
    count = 1_000_000
    drawn = random.choice(sizes.size, count, p=sizes.share)
    served = count_operations(parse_suite("3des"), drawn) / 100e6
    between = random.exponential(8 * sizes.mean / rate, count)
    # the wait of packet n + 1 is that of n, and its service, less the time between them, not below 0
    walk = np.concatenate([[0.0], np.cumsum(served[:-1] - between[1:])])
    wait = walk - np.minimum.accumulate(walk)
    assert compute_mean_delay(rate, server, sizes).wait_ms == pytest.approx(1e3 * wait.mean(), rel=0.03)


def test_without_load_there_is_no_wait():
    server = compute_service_time(np.zeros(1), make_fixed_sizes(64))
    assert compute_capacity_bps(server, make_fixed_sizes(64)) == float("inf")
    assert compute_mean_delay(1e9, server, make_fixed_sizes(64)).total_ms == 0
