"""Models a processor that protects one packet after another: its capacity, and how long packets wait.

Xenakis and Merakos ("IPsec-based end-to-end VPN deployment over UMTS", section 4.3, Fig. 11 to 13) simulated this with
packets at exponential intervals and sizes of a cut Pareto distribution. The same as a formula is an M/G/1 queue, whose mean
wait is that of Pollaczek and Khinchine, and M/D/1 where all packets have one size. What the formula leaves out: packets
come in calls, which makes real queues longer, and the nodes after the peer add their own delays.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ikeanalyze.model.arrays import Float64Array, Int64Array

#: What the paper's Table 3 and its text set.
PAPER_SHAPE: Final = 1.1
PAPER_LEAST: Final = 81.5  # bytes
PAPER_MOST: Final = 66666  # bytes
PAPER_CHANNEL: Final = 2_000_000.0  # bit/s
PAPER_MIPS: Final = (100.0, 200.0, 300.0, 500.0)  # those of Fig. 12


@dataclass(frozen=True, slots=True)
class PacketSizes:
    """How large packets are."""

    size: Int64Array  # bytes, each size once
    share: Float64Array  # of the packets, adding up to 1
    mean: float  # bytes, on the average


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """How long the server is busy with a packet."""

    mean_s: float
    square_s2: float  # mean of the square


@dataclass(frozen=True, slots=True)
class MeanDelay:
    """What a packet meets on the average."""

    load: float  # share of the time that the server is busy
    wait_ms: float  # in the queue
    total_ms: float  # in the queue and being served
    waiting_packets: float  # in the queue


def make_fixed_sizes(size: int) -> PacketSizes:
    """All packets have the same size: M/D/1."""
    return PacketSizes(np.array([size], np.int64), np.ones(1), float(size))


def make_pareto_sizes(shape: float = PAPER_SHAPE, least: float = PAPER_LEAST, most: int = PAPER_MOST) -> PacketSizes:
    """S_d = min(P, m) with P of a Pareto distribution of this shape, not below `least` (paper, section 4.3).

    Rounded to whole bytes. With the paper's values the mean is its 480 bytes.
    """
    size = np.arange(round(least), most + 1, dtype=np.int64)
    above = np.minimum((least / np.maximum(size[:-1] + 0.5, least)) ** shape, 1.0)
    share = -np.diff(above, prepend=1.0, append=0.0)
    return PacketSizes(size, share, float(size @ share))


def compute_service_time(seconds: Float64Array, sizes: PacketSizes) -> ServiceTime:
    """The service times of packets, one for each of `sizes`."""
    return ServiceTime(float(seconds @ sizes.share), float(seconds**2 @ sizes.share))


def compute_capacity_bps(server: ServiceTime, sizes: PacketSizes) -> float:
    """The largest rate of clear packets that the server keeps up with, in bit/s; infinite if it has nothing to do."""
    return 8 * sizes.mean / server.mean_s if server.mean_s else float("inf")


def compute_mean_delay(rate_bps: float, server: ServiceTime, sizes: PacketSizes) -> MeanDelay | None:
    """The mean delay when clear packets come at this rate in bit/s, at exponential intervals (M/G/1).

    Mean wait = arrivals per second · E[service²] / (2 · (1 - load)), Pollaczek and Khinchine's formula; packets waiting by
    Little's law. None: the server cannot keep up, the queue grows without end.
    """
    arrivals = rate_bps / (8 * sizes.mean)
    load = arrivals * server.mean_s
    if load >= 1:
        return None
    wait = arrivals * server.square_s2 / (2 * (1 - load))
    return MeanDelay(load, wait * 1e3, (wait + server.mean_s) * 1e3, arrivals * wait)
