"""Parameters of an emulated link, its effect between two hosts, and losses after the capture point."""

import signal
import time
from math import sqrt

import pytest

from ikeanalyze.lab import LabError, machine
from ikeanalyze.lab.network import emulation, topology
from ikeanalyze.lab.network.emulation import build_netem_command
from ikeanalyze.lab.network.namespaces import NetnsSandbox, run_command
from ikeanalyze.lab.scenario.expansion import expand_cases
from ikeanalyze.lab.scenario.links import LinkConditions
from tests.lab import traffic


@pytest.fixture
def network(lab):
    with NetnsSandbox() as sandbox:
        yield sandbox, topology.build_network(sandbox, expand_cases({}, "x", "x")[0])


def relayed(sandbox, network, conditions):
    emulator = emulation.start_emulator(sandbox, network.path, conditions, netem=False, drops_at_receiver=False, seed=5)
    assert emulator.kind == "relay"
    return emulator


def median(arrivals) -> float:
    return sorted(arrival.delay_ms for arrival in arrivals)[len(arrivals) // 2]


def measured(measure, right) -> bool:
    """Whether one of the measurements of two minutes is right.

    A busy machine sometimes adds to the delay of a link and never reduces it; an error of the link is in all of them.
    """
    deadline = time.monotonic() + 120
    while not right(measure()):
        if time.monotonic() > deadline:
            return False
    return True


@pytest.mark.lab
def test_the_relays_delay_is_right_within_a_millisecond(network):
    sandbox, network = network
    relayed(sandbox, network, LinkConditions(rtt_ms=50))

    def right(arrivals) -> bool:
        assert [arrival.number for arrival in arrivals] == list(range(200))
        assert min(arrival.delay_ms for arrival in arrivals) >= 25
        return median(arrivals) < 26

    assert measured(lambda: traffic.there(network, 200), right)
    assert measured(lambda: traffic.back(network, 200), right)


@pytest.mark.lab
def test_the_relays_loss_is_within_binomial_limits(network):
    sandbox, network = network
    count, loss = 2500, 0.2
    emulator = relayed(sandbox, network, LinkConditions(loss_percent=loss * 100))
    lost = {
        "there": count - len(traffic.there(network, count, pause=0)),
        "back": count - len(traffic.back(network, count, pause=0)),
    }
    limit = 5 * sqrt(count * loss * (1 - loss))
    reported = emulator.stop()
    for way, number in lost.items():
        assert abs(number - count * loss) < limit, way
        # a few frames of IPv6's own may be lost as well
        assert 0 <= reported[way]["lost"] - number < 20
        assert reported[way]["overflowed"] == 0


@pytest.mark.lab
def test_the_relays_jitter_is_within_its_bounds_and_never_overtakes(network):
    sandbox, network = network
    relayed(sandbox, network, LinkConditions(rtt_ms=40, jitter_ms=15))

    def right(arrivals) -> bool:
        delays = [arrival.delay_ms for arrival in arrivals]
        assert [arrival.number for arrival in arrivals] == list(range(60))
        assert min(delays) >= 5
        # uniform from 5 to 35: of 60, each half has its share (5 sigma are 19)
        return sorted(delays)[-3] < 36 and 11 <= sum(delay < 20 for delay in delays) <= 49

    # far enough apart for each to have a delay of its own
    assert measured(lambda: traffic.there(network, 60, pause=0.035), right)


@pytest.mark.lab
def test_what_comes_while_the_relay_gets_no_processor_is_not_lost(network):
    sandbox, network = network
    emulator = relayed(sandbox, network, LinkConditions(rtt_ms=2))
    count = 12_000
    emulator.process.send_signal(signal.SIGSTOP)
    traffic.hand_over(network, count)
    assert emulator.count_in_flight() >= 1  # it has read none of them
    emulator.process.send_signal(signal.SIGCONT)
    emulation.wait_until_idle([emulator], 60)
    there = emulator.stop()["there"]
    assert there["received"] >= count
    assert there["overflowed"] == 0
    assert there["undelivered"] < 20  # a few frames of IPv6's own


@pytest.mark.lab
def test_what_the_relay_has_not_read_at_its_end_is_counted(network):
    sandbox, network = network
    emulator = relayed(sandbox, network, LinkConditions(rtt_ms=2))
    emulator.process.send_signal(signal.SIGSTOP)
    traffic.hand_over(network, 50)
    emulator.process.terminate()  # it sees both signals when it goes on
    emulator.process.send_signal(signal.SIGCONT)
    there = emulator.stop()["there"]
    assert there["received"] >= 50
    assert there["undelivered"] >= 50 - 1


@pytest.mark.lab
def test_a_link_is_calm_when_all_has_arrived(network):
    sandbox, network = network
    emulator = relayed(sandbox, network, LinkConditions(rate_kbps=50))
    # 20 frames of 1042 bytes, 167 ms each; that nobody listens, each is told about by ICMP
    began = time.monotonic()
    traffic.hand_over(network, 20, size=1000)
    emulation.wait_until_idle([emulator], 0.2)
    assert emulator.count_in_flight() > 1
    emulation.wait_until_idle([emulator], 60)
    assert emulator.count_in_flight() == 0
    assert time.monotonic() - began > 3.3
    assert emulator.stop()["there"]["undelivered"] == 0


@pytest.mark.lab
def test_what_the_kernel_holds_back_is_counted(network):
    sandbox, network = network
    emulator = emulation.start_emulator(sandbox, network.path, LinkConditions(), netem=False, drops_at_receiver=True)
    assert emulator.count_in_flight() == 0
    shaped = ("tc", "qdisc", "add", "dev", topology.FAR, "root", "tbf", "rate", "8kbit", "burst", "2k")
    try:  # netem's queue is told as every other one is
        run_command(network.path.command(*shaped, "limit", "100k"))
    except LabError:
        pytest.skip("this kernel has no tbf")
    emulator.kind = "netem"
    traffic.hand_over(network, 20, size=1000)
    assert 10 < emulator.count_in_flight() <= 20


@pytest.mark.lab
def test_a_relay_that_is_dead_is_known(network):
    sandbox, network = network
    emulator = relayed(sandbox, network, LinkConditions(rtt_ms=50))
    assert emulator.alive
    emulator.process.kill()
    emulator.process.wait(10)
    assert not emulator.alive


@pytest.mark.lab
def test_the_relays_rate(network):
    sandbox, network = network
    relayed(sandbox, network, LinkConditions(rate_kbps=1000))

    # 20 frames of 1042 bytes: 8.336 ms each at 1 Mbit/s
    def right(arrivals) -> bool:
        took = arrivals[-1].at_ms - arrivals[0].at_ms
        return took == pytest.approx(19 * 8.336, rel=0.1)

    assert measured(lambda: traffic.there(network, 20, pause=0, size=1000), right)


@pytest.mark.parametrize(
    "conditions",
    [{"drop_ip_fragments": True}, {"loss_percent": 5, "seed": 1}, {"loss_up_percent": 5, "burst_frames": 3}],
)
def test_relay_and_netem_have_neither_schedules_nor_dropped_fragments(conditions):
    with pytest.raises(LabError, match="nftables"):
        emulation.start_emulator(None, None, LinkConditions(**conditions), netem=False, drops_at_receiver=False)


def test_netem_gets_the_conditions_of_each_direction():
    symmetric = LinkConditions(600, 5, 20, 2000)
    command = " ".join(build_netem_command("up", symmetric, 20))
    assert command.endswith("dev far root netem limit 20000 delay 300ms 5ms loss 20% rate 2000kbit")
    command = " ".join(build_netem_command("down", LinkConditions(600, rate_up_kbps=384, delay_down_ms=10), 0))
    assert command.endswith("dev near root netem limit 20000 delay 10ms")
    command = " ".join(build_netem_command("up", LinkConditions(600, rate_up_kbps=384, delay_down_ms=10), 0))
    assert command.endswith("dev far root netem limit 20000 delay 300ms rate 384kbit")


@pytest.mark.lab
def test_each_direction_of_the_relay_has_its_own_delay_rate_and_loss(network):
    sandbox, network = network
    emulator = relayed(
        sandbox, network, LinkConditions(delay_up_ms=40, delay_down_ms=5, rate_up_kbps=1000, loss_down_percent=50)
    )
    assert measured(lambda: traffic.there(network, 20, size=1000, pause=0.01), lambda there: 48 <= median(there) < 50)
    assert measured(lambda: traffic.back(network, 60), lambda back: 5 <= median(back) < 6)
    counts = emulator.stop()
    assert counts["there"]["lost"] == 0
    assert counts["back"]["lost"] > 10


@pytest.mark.lab
def test_netem_where_the_kernel_has_it(network):
    sandbox, network = network
    if not machine.has_netem():
        pytest.skip("this kernel has no netem; the relay is tested above")
    emulation.start_emulator(sandbox, network.path, LinkConditions(rtt_ms=50), netem=True, drops_at_receiver=True)
    assert measured(lambda: traffic.there(network, 100), lambda arrivals: 25 <= median(arrivals) < 26)
