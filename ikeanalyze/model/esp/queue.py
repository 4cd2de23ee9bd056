"""Models a processor that protects one packet after another: its capacity, and how long packets wait.

Xenakis and Merakos ("IPsec-based end-to-end VPN deployment over UMTS", section 4.3, Fig. 11 to 13) simulated this with
packets at exponential intervals and sizes of a truncated Pareto distribution. This is an M/G/1 queue, or M/D/1 if all
packets have the same size, whose mean wait is given by the formula of Pollaczek and Khinchine. The formula does not
consider that packets arrive in bursts, which makes real queues longer, and that other nodes add their own delays.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ikeanalyze.model.arrays import Float64Array, Int64Array

#: Parameters of the paper, from Table 3 and the text.
PAPER_SHAPE: Final = 1.1
PAPER_LEAST: Final = 81.5  # bytes
PAPER_MOST: Final = 66666  # bytes
PAPER_CHANNEL: Final = 2_000_000.0  # bit/s
PAPER_MIPS: Final = (100.0, 200.0, 300.0, 500.0)  # those of Fig. 12


@dataclass(frozen=True, slots=True)
class PacketSizes:
    """The distribution of packet sizes."""

    size: Int64Array  # bytes, without duplicates
    share: Float64Array  # share of the packets with this size, adding up to 1
    mean: float  # bytes


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """The time that the server needs for a packet."""

    mean_s: float
    square_s2: float  # mean of the square


@dataclass(frozen=True, slots=True)
class MeanDelay:
    """Mean values of a queue."""

    load: float  # share of the time in which the server is busy
    wait_ms: float  # in the queue
    total_ms: float  # in the queue and at the server
    waiting_packets: float  # in the queue


def make_fixed_sizes(size: int) -> PacketSizes:
    """Return a distribution with a single size, for an M/D/1 queue."""
    return PacketSizes(np.array([size], np.int64), np.ones(1), float(size))


def make_pareto_sizes(shape: float = PAPER_SHAPE, least: float = PAPER_LEAST, most: int = PAPER_MOST) -> PacketSizes:
    """Return the sizes S_d = min(P, m), where P has a Pareto distribution with minimum `least` (paper, section 4.3).

    Sizes are rounded to whole bytes. With the default values the mean is 480 bytes, as in the paper.
    """
    size = np.arange(round(least), most + 1, dtype=np.int64)
    above = np.minimum((least / np.maximum(size[:-1] + 0.5, least)) ** shape, 1.0)
    share = -np.diff(above, prepend=1.0, append=0.0)
    return PacketSizes(size, share, float(size @ share))


def compute_service_time(seconds: Float64Array, sizes: PacketSizes) -> ServiceTime:
    """Return the service time of packets of these sizes; `seconds`: service time of a packet of each size. (sizes,)"""
    return ServiceTime(float(seconds @ sizes.share), float(seconds**2 @ sizes.share))


def compute_capacity_bps(server: ServiceTime, sizes: PacketSizes) -> float:
    """Return the maximum rate of clear packets in bit/s; infinite if the server needs no time."""
    return 8 * sizes.mean / server.mean_s if server.mean_s else float("inf")


def compute_mean_delay(rate_bps: float, server: ServiceTime, sizes: PacketSizes) -> MeanDelay | None:
    """Return the mean delay if clear packets arrive at this rate in bit/s, at exponential intervals (M/G/1).

    Mean wait = arrivals per second · E[service²] / (2 · (1 - load)), the formula of Pollaczek and Khinchine; the number
    of waiting packets follows from Little's law. None: the server is overloaded, and the queue grows without limit.
    """
    arrivals = rate_bps / (8 * sizes.mean)
    load = arrivals * server.mean_s
    if load >= 1:
        return None
    wait = arrivals * server.square_s2 / (2 * (1 - load))
    return MeanDelay(load, wait * 1e3, (wait + server.mean_s) * 1e3, arrivals * wait)
