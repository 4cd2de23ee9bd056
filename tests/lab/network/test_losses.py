"""Losses on a schedule: what a seed determines, the lengths of bursts, and which frames a host does not get."""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from math import sqrt

import numpy as np
import pytest

from ikeanalyze.lab.network import emulation, topology
from ikeanalyze.lab.network.losses import SCHEDULED_FRAMES, ReceiverCounts, ReceiverLosses, draw_lost_frames
from ikeanalyze.lab.network.namespaces import NetnsSandbox, run_command
from ikeanalyze.lab.network.topology import LabNetwork
from ikeanalyze.lab.scenario.expansion import expand_cases
from ikeanalyze.lab.scenario.links import LinkConditions
from ikeanalyze.model.prediction.channel import make_channel
from ikeanalyze.model.prediction.link import LinkModel, LossBurst
from tests.lab import traffic


def run_lengths(lost: list[int], count: int, *, of_lost: bool) -> Counter[int]:
    """The number of runs of lost (or arrived) frames by length, without the first and the last, which may be cut."""
    numbers = set(lost)
    runs = [(key, len(list(run))) for key, run in groupby(number in numbers for number in range(count))]
    return Counter(length for key, length in runs[1:-1] if key == of_lost)


def geometric_chi_square(lengths: Counter[int], mean: float) -> tuple[float, int]:
    """Pearson's statistic of run lengths against a geometric distribution, and its degrees of freedom."""
    total, stop = lengths.total(), 1 / mean
    statistic, length, left = 0.0, 1, float(total)
    while (expected := total * stop * (1 - stop) ** (length - 1)) >= 5 and left - expected >= 5:
        statistic += (lengths[length] - expected) ** 2 / expected
        left -= expected
        length += 1
    rest = sum(count for size, count in lengths.items() if size >= length)
    return statistic + (rest - left) ** 2 / left, length - 1


def is_plausible(statistic: float, freedom: int) -> bool:
    """Whether a chi-square statistic is below its 99.9 % point (Wilson and Hilferty's approximation)."""
    return statistic < freedom * (1 - 2 / (9 * freedom) + 3.09 * sqrt(2 / (9 * freedom))) ** 3


def test_the_same_key_gives_the_same_losses_and_another_key_others():
    for burst in (None, LossBurst(3, True)):
        first = draw_lost_frames(0.2, burst, "7 link up 1")
        assert first == draw_lost_frames(0.2, burst, "7 link up 1")
        for other in ("8 link up 1", "7 aaa_link up 1", "7 link down 1", "7 link up 2"):
            # two independent schedules share 4 % of the frames: as many as chance allows
            both = len(set(first) & set(draw_lost_frames(0.2, burst, other)))
            assert abs(both - SCHEDULED_FRAMES * 0.04) < 0.25 * SCHEDULED_FRAMES * 0.04


def test_a_seed_means_the_same_in_every_version():
    """As Python 3.11 gave it on the day that seeds were introduced."""
    assert draw_lost_frames(0.2, None, "1 link up 1", 40) == [15, 16, 20, 23, 28, 32]
    assert draw_lost_frames(0.2, LossBurst(3, True), "1 link up 1", 40) == [34, 35, 36]


def test_a_higher_loss_loses_the_same_frames_and_more():
    assert set(draw_lost_frames(0.05, None, "x")) < set(draw_lost_frames(0.2, None, "x"))


@pytest.mark.parametrize("loss", [0.01, 0.2, 0.9])
def test_independent_losses_have_the_share_and_the_runs_of_chance(loss):
    count = 100_000
    lost = draw_lost_frames(loss, None, "x", count)
    assert abs(len(lost) - count * loss) < 4 * sqrt(count * loss * (1 - loss))
    assert is_plausible(*geometric_chi_square(run_lengths(lost, count, of_lost=False), 1 / loss))


@pytest.mark.parametrize(("loss", "mean"), [(0.05, 3), (0.2, 3), (0.2, 1), (0.1, 8.5)])
def test_bursts_have_the_lengths_of_gilberts_model(loss, mean):
    """All frames of a burst are lost: runs of lost frames and the gaps between them are geometric."""
    count = 100_000
    lost = draw_lost_frames(loss, LossBurst(mean, True), "x", count)
    bursts, gaps = (run_lengths(lost, count, of_lost=of_lost) for of_lost in (True, False))
    assert is_plausible(*geometric_chi_square(bursts, mean)) if mean > 1 else set(bursts) == {1}
    assert is_plausible(*geometric_chi_square(gaps, mean * (1 - loss) / loss))
    assert len(lost) / count == pytest.approx(loss, rel=0.1)


def test_a_frame_in_a_burst_may_arrive_as_in_the_predictions_channel():
    """Shares of a lost frame, of two in a row and of lost-arrived-lost are those of `predict`'s channel."""
    burst, loss, count = LossBurst(4, True, 0.5), 0.2, 50
    channel = make_channel(LinkModel(0, loss, burst=burst), 2000, np.random.default_rng(1))
    expected = channel.draw_losses(np.arange(2000), np.zeros((2000, count)))
    drawn = np.zeros((2000, count), np.bool_)
    for row in range(2000):
        drawn[row, draw_lost_frames(loss, burst, str(row), count)] = True
    for pattern in ((True,), (True, True), (True, False, True)):
        ours, theirs = (share_of(losses, pattern) for losses in (drawn, expected))
        assert ours == pytest.approx(theirs, rel=0.05), pattern


def share_of(losses, pattern) -> float:
    width = losses.shape[1] - len(pattern) + 1
    return float(np.all([losses[:, i : i + width] == value for i, value in enumerate(pattern)], axis=0).mean())


@pytest.fixture
def hosts(lab):
    """Builds the hosts of a case, with perfect paths."""
    with NetnsSandbox() as sandbox:

        def build(**data):
            network = topology.build_network(sandbox, expand_cases(data, "x", "x")[0])
            for path in (network.path, network.aaa_path):
                if path is not None:
                    emulation.start_emulator(sandbox, path, LinkConditions(), netem=False, drops_at_receiver=True)
            return network

        yield build


def lost_there(network, count, **how) -> list[int]:
    arrived = {arrival.number for arrival in traffic.there(network, count, pause=0, **how)}
    return [number for number in range(count) if number not in arrived]


@pytest.mark.lab
def test_exactly_the_frames_of_the_schedule_are_lost_and_each_handshake_begins_its_own(hosts):
    network = hosts()
    losses = ReceiverLosses(network.responder, topology.LINK, LinkConditions(loss_percent=20), "up", "7 link")
    schedules = []
    for handshake in (1, 2, 1):
        losses.start(handshake)
        schedules.append(draw_lost_frames(0.2, None, f"7 link up {handshake}"))
        # after the end of the schedule, it begins again
        again = [SCHEDULED_FRAMES + number for number in schedules[-1] if number < 100]
        count = SCHEDULED_FRAMES + 100 if handshake == 2 else 300
        assert lost_there(network, count) == [number for number in schedules[-1] + again if number < count]
    assert schedules[0] == schedules[2] != schedules[1]
    assert len(traffic.back(network, 300, pause=0)) == 300  # the other direction has its own


@pytest.mark.lab
def test_a_receiver_counts_frames_over_all_handshakes(hosts):
    network = hosts()
    conditions = LinkConditions(loss_percent=20, drop_larger_than=1300)
    losses = ReceiverLosses(network.responder, topology.LINK, conditions, "up", "7 link")
    losses.start(0)
    assert losses.count_frames() == ReceiverCounts(arrived=0, lost=0, dropped=0)
    arrived, lost = 0, 0
    for handshake in (1, 2):
        losses.start(handshake)
        arrived += len(traffic.there(network, 100, pause=0))
        lost += len(draw_lost_frames(0.2, None, f"7 link up {handshake}", 100))
    assert losses.count_frames() == ReceiverCounts(arrived=200, lost=lost, dropped=0)
    assert arrived == 200 - lost
    losses.start(3)
    assert traffic.there(network, 10, size=1400, patience=1) == []
    large_lost = len(draw_lost_frames(0.2, None, "7 link up 3", 10))  # before the size is looked at
    assert losses.count_frames() == ReceiverCounts(arrived=210, lost=lost + large_lost, dropped=10 - large_lost)


@pytest.mark.lab
def test_frames_of_other_protocols_take_no_place_in_the_schedule(hosts):
    network = hosts()
    ReceiverLosses(network.responder, topology.LINK, LinkConditions(loss_percent=50), "up", "1 link").start(1)
    echo = [sys.executable, "-m", "ikeanalyze.lab.network.ping", network.initiator_address, network.responder_address]
    for _ in range(20):
        run_command(network.initiator.command(*echo, "5"))  # exit status 1 if one were lost
    assert lost_there(network, 100) == draw_lost_frames(0.5, None, "1 link up 1", 100)


@pytest.mark.lab
def test_bursts_on_the_wire_are_as_long_as_asked(hosts):
    network, count = hosts(), 12_000
    conditions = LinkConditions(loss_percent=20, burst_frames=3, seed=5)
    ReceiverLosses(network.responder, topology.LINK, conditions, "up", "5 link").start(1)
    lost = lost_there(network, count)
    assert is_plausible(*geometric_chi_square(run_lengths(lost, count, of_lost=True), 3))
    assert is_plausible(*geometric_chi_square(run_lengths(lost, count, of_lost=False), 12))


@pytest.mark.lab
def test_two_links_of_a_host_have_their_own_losses(hosts):
    network = hosts(initiator={"auth": "eap-md5"})
    for interface, name, direction in ((topology.LINK, "link", "up"), (topology.AAA_LINK, "aaa_link", "down")):
        conditions = LinkConditions(loss_percent=30)
        ReceiverLosses(network.responder, interface, conditions, direction, f"3 {name}").start(1)
    assert lost_there(network, 200) == draw_lost_frames(0.3, None, "3 link up 1", 200)
    arrived = traffic.send(network.aaa, network.responder, network.client_address, 200, pause=0)
    lost = set(range(200)) - {arrival.number for arrival in arrived}
    assert lost == set(draw_lost_frames(0.3, None, "3 aaa_link down 1", 200))


def receive_sizes(network: LabNetwork, sizes: Sequence[int]) -> set[int]:
    """Send datagrams of these sizes over IPv6 to the responder; return the sizes that arrive."""
    receive = (
        "import socket; s = socket.socket(10, 2); s.bind(('::', 4000)); print('ready', flush=True); s.settimeout(1)\n"
        "try:\n while True: print(len(s.recv(3000)))\nexcept TimeoutError: pass"
    )
    send = "import socket\ns = socket.socket(10, 2)\n"
    send += f"for n in {list(sizes)}: s.sendto(bytes(n), ({network.responder_address!r}, 4000))"
    command = network.responder.command(sys.executable, "-c", receive)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout.readline() == "ready\n"
        run_command(network.initiator.command(sys.executable, "-c", send))
        return set(map(int, receiver.communicate(timeout=30)[0].split()))


@pytest.mark.lab
def test_ip_fragments_are_dropped_and_nothing_else(hosts):
    network = hosts()
    ReceiverLosses(network.responder, topology.LINK, LinkConditions(drop_ip_fragments=True), "up", "1 link").start(1)
    assert len(traffic.there(network, 20, size=1400)) == 20
    assert traffic.there(network, 20, size=1600, patience=1) == []
    assert len(traffic.back(network, 20, size=1600)) == 20


@pytest.mark.lab
def test_over_ipv6_each_fragment_has_its_place(hosts):
    """Two fragments each: the datagram arrives if neither is lost."""
    network = hosts(ip_version=6)
    ReceiverLosses(network.responder, topology.LINK, LinkConditions(loss_percent=10), "up", "1 link").start(1)
    arrived = receive_sizes(network, range(2000, 2060))
    lost = {number // 2 for number in draw_lost_frames(0.1, None, "1 link up 1", 120)}
    assert arrived == {2000 + number for number in set(range(60)) - lost}


@pytest.mark.lab
def test_large_packets_are_dropped_without_a_message_to_their_sender(hosts):
    """IP and UDP headers have 28 bytes."""
    network = hosts()
    conditions = LinkConditions(drop_larger_than=1300, drop_direction="up")
    ReceiverLosses(network.responder, topology.LINK, conditions, "up", "1 link").start(1)
    ReceiverLosses(network.initiator, topology.LINK, conditions, "down", "1 link").start(1)
    assert len(traffic.there(network, 20, size=1272)) == 20
    assert traffic.there(network, 20, size=1273, patience=1) == []
    assert len(traffic.back(network, 20, size=1400)) == 20


@pytest.mark.lab
def test_large_packets_of_ipv6_are_dropped(hosts):
    """IP and UDP headers have 48 bytes."""
    network = hosts(ip_version=6)
    ReceiverLosses(network.responder, topology.LINK, LinkConditions(drop_larger_than=1300), "up", "1 link").start(1)
    assert receive_sizes(network, [1252, 1253]) == {1252}


@pytest.mark.lab
def test_the_datagrams_of_a_port_are_dropped_in_the_directions_that_are_named(hosts):
    network = hosts()
    for port, count in ((traffic.PORT, 0), (traffic.PORT + 1, 20)):
        conditions = LinkConditions(drop_port=port, drop_direction="up")
        ReceiverLosses(network.responder, topology.LINK, conditions, "up", "1 link").start(1)
        assert len(traffic.there(network, 20, patience=1)) == count
        assert len(traffic.back(network, 20)) == 20
