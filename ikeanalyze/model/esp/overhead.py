"""Computes the overhead of ESP for several suites: packet sizes, and the load of a processor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

import numpy as np

from ikeanalyze.model.arrays import Int64Array
from ikeanalyze.model.esp import packet_size, queue
from ikeanalyze.model.esp.algorithms import EspError, parse_suite
from ikeanalyze.model.esp.operations import count_operations, has_operation_counts
from ikeanalyze.model.esp.packet_size import PAPER_SUITES, EspConfig, EspEncapsulation, EspMode, EspPacketSize
from ikeanalyze.model.esp.queue import MeanDelay, PacketSizes, ServiceTime

#: Name of the results without ESP, for comparison.
CLEAR: Final = "clear"


@dataclass(frozen=True, slots=True)
class OverheadQuery:
    """The packets, suites, processors and rates to compute the overhead for."""

    forms: Sequence[EspConfig]
    sizes: Sequence[int]  # bytes of IP packets
    paper: bool = False  # sizes by the paper's formulas 9 to 12
    mtu: int | None = None  # bytes of the largest IP packet on the wire
    mips: Sequence[float] = ()  # processors, millions of operations per second
    traffic: PacketSizes | None = None  # sizes of the packets that a processor protects
    rates: Sequence[float] = ()  # bit/s of clear packets, IP headers included
    channel: float | None = None  # bit/s of the link after the processor
    per_byte: Mapping[str, float] = field(default_factory=dict)  # measured operations per byte, by suite


@dataclass(frozen=True, slots=True)
class PacketCost:
    """The size of a packet with ESP, and the cost of protecting it."""

    suite: str
    clear: int  # bytes of the IP packet without ESP
    size: int  # bytes of the IP packet with ESP
    ratio: float  # R(S): payload of TCP divided by `size`
    parts: EspPacketSize | None  # None: computed by the paper's formulas, which have no parts
    operations: float | None  # None: unknown
    us: tuple[float | None, ...]  # microseconds of each processor; None: unknown


@dataclass(frozen=True, slots=True)
class QueueDelay:
    """Delays at one rate."""

    rate_bps: float
    processor: MeanDelay | None  # None: it is overloaded
    channel: MeanDelay | None  # None: it is overloaded, or the query has none
    total_ms: float | None  # of both; None: one of them is overloaded


@dataclass(frozen=True, slots=True)
class EspProcessor:
    """A processor that protects the traffic of a query with one suite."""

    suite: str  # or CLEAR
    mips: float
    mean_operations: float  # per packet
    mean_us: float
    ceiling_bps: float | None  # maximum rate of clear packets for the processor; None: unlimited
    throughput_bps: float | None  # maximum rate for processor and channel; None: unlimited
    waiting: tuple[QueueDelay, ...]  # by rate


@dataclass(frozen=True, slots=True)
class OverheadResult:
    """The overhead that a query describes."""

    question: OverheadQuery
    packets: Sequence[PacketCost]  # by suite, then by size
    largest: Mapping[str, int | None]  # largest packet that fits the MTU, by suite; empty without MTU
    peers: Sequence[EspProcessor]
    grown: Mapping[str, float]  # mean packet size of the traffic with ESP divided by that without ESP, by suite


def list_paper_configs() -> list[EspConfig]:
    """Return the configurations of the paper: five suites, transport mode, IPv4, UDP."""
    return [EspConfig(parse_suite(name), EspMode.TRANSPORT, EspEncapsulation.UDP) for name in PAPER_SUITES]


def make_paper_query() -> OverheadQuery:
    """Return the query for the paper's figures: 5 and 8 by packet size, 11 to 14 by processor and rate."""
    return OverheadQuery(
        forms=list_paper_configs(),
        sizes=range(40, 1501, 4),
        paper=True,
        mips=(*range(100, 501, 25),),
        traffic=queue.make_pareto_sizes(),
        rates=tuple(1000.0 * rate for rate in (8, *range(32, 2049, 32))),
        channel=queue.PAPER_CHANNEL,
    )


def compute_overhead(question: OverheadQuery) -> OverheadResult:
    """Compute the overhead that a query describes.

    Raises:
        EspError: a size is invalid, or the query has processors and the operations of a suite are unknown.
    """
    for name in question.per_byte:
        if name not in {form.suite.name for form in question.forms}:
            raise EspError("operations", f"{name!r} is not one of the requested suites")
    packets = [_compute_packet_cost(question, form, size) for form in question.forms for size in question.sizes]
    largest = {}
    if question.mtu is not None:
        largest = {form.suite.name: packet_size.find_largest_payload(form, question.mtu) for form in question.forms}
    if question.traffic is None:
        return OverheadResult(question, packets, largest, [], {})
    traffic = question.traffic
    loads = [_compute_load(question, traffic, form) for form in (None, *question.forms)] if question.mips else []
    peers = [_make_processor(question, traffic, load, mips) for mips in question.mips for load in loads]
    grown = {
        form.suite.name: float(_compute_wire_bytes(question, form, traffic.size) @ traffic.share) / traffic.mean
        for form in question.forms
    }
    return OverheadResult(question, packets, largest, peers, grown)


def _compute_packet_cost(question: OverheadQuery, form: EspConfig, clear: int) -> PacketCost:
    name = form.suite.name
    work = None
    if has_operation_counts(form.suite) or name in question.per_byte:
        work = float(count_operations(form.suite, np.array([clear]), question.per_byte.get(name))[0])
    us = tuple(None if work is None else work / mips for mips in question.mips)
    if question.paper:
        packet_size.check_size(clear, 4)
        size, ratio = packet_size.compute_paper_size(name, clear), packet_size.compute_paper_ratio(name, clear)
        return PacketCost(name, clear, size, ratio, None, work, us)
    parts = packet_size.compute_packet_size(form, clear)
    return PacketCost(name, clear, parts.size, parts.ratio, parts, work, us)


def _compute_wire_bytes(question: OverheadQuery, form: EspConfig | None, size: Int64Array) -> Int64Array:
    if form is None:
        return size
    if question.paper:
        return packet_size.compute_paper_size(form.suite.name, size)
    return packet_size.compute_wire_bytes(form, size)


@dataclass(frozen=True, slots=True)
class _ProcessorLoad:
    """The load of processor and channel with one suite, or without ESP."""

    suite: str
    operations: ServiceTime  # of a processor with one operation per second
    channel: ServiceTime | None  # None: the query has no channel


def _compute_load(question: OverheadQuery, traffic: PacketSizes, form: EspConfig | None) -> _ProcessorLoad:
    """`form` None: without ESP, which takes no processor time."""
    work = np.zeros(len(traffic.size))
    if form is not None:
        work = count_operations(form.suite, traffic.size, question.per_byte.get(form.suite.name))
    channel = None
    if question.channel is not None:
        seconds = 8 * _compute_wire_bytes(question, form, traffic.size) / question.channel
        channel = queue.compute_service_time(seconds, traffic)
    name = CLEAR if form is None else form.suite.name
    return _ProcessorLoad(name, queue.compute_service_time(work, traffic), channel)


def _make_processor(question: OverheadQuery, traffic: PacketSizes, load: _ProcessorLoad, mips: float) -> EspProcessor:
    work, speed = load.operations, mips * 1e6
    processor = ServiceTime(work.mean_s / speed, work.square_s2 / speed**2)
    ceiling = throughput = queue.compute_capacity_bps(processor, traffic)
    if load.channel is not None:
        throughput = min(ceiling, queue.compute_capacity_bps(load.channel, traffic))
    return EspProcessor(
        suite=load.suite,
        mips=mips,
        mean_operations=work.mean_s,
        mean_us=processor.mean_s * 1e6,
        ceiling_bps=ceiling if isfinite(ceiling) else None,
        throughput_bps=throughput if isfinite(throughput) else None,
        waiting=tuple(_compute_delay(rate, processor, load.channel, traffic) for rate in question.rates),
    )


def _compute_delay(
    rate: float, processor: ServiceTime, channel: ServiceTime | None, traffic: PacketSizes
) -> QueueDelay:
    first = queue.compute_mean_delay(rate, processor, traffic)
    second = None if channel is None else queue.compute_mean_delay(rate, channel, traffic)
    if first is None or (channel is not None and second is None):
        return QueueDelay(rate, first, second, None)
    return QueueDelay(rate, first, second, first.total_ms + (0 if second is None else second.total_ms))
