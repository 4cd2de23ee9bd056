"""Computes the overhead of ESP for several suites: packet sizes, and the load of a processor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ikeanalyze.model.arrays import Int64Array
from ikeanalyze.model.esp.algorithms import EspError, parse_suite
from ikeanalyze.model.esp.operations import count_operations, has_operation_counts
from ikeanalyze.model.esp.packet_size import (
    PAPER_SUITES,
    EspConfig,
    EspEncapsulation,
    EspMode,
    EspPacketSize,
    check_size,
    compute_packet_size,
    compute_paper_ratio,
    compute_paper_size,
    compute_wire_bytes,
    find_largest_payload,
)
from ikeanalyze.model.esp.queue import (
    PAPER_CHANNEL,
    MeanDelay,
    PacketSizes,
    ServiceTime,
    compute_capacity_bps,
    compute_mean_delay,
    compute_service_time,
    make_pareto_sizes,
)

#: Name of the unprotected packets, for comparison.
CLEAR: Final = "clear"


@dataclass(frozen=True, slots=True)
class OverheadQuery:
    """The packets, suites, processors and rates to compute the overhead for."""

    forms: Sequence[EspConfig]
    sizes: Sequence[int]  # bytes of IP packets
    paper: bool = False  # sizes by the paper's formulas 9 to 12
    mtu: int | None = None  # bytes of the largest IP packet on the wire
    mips: Sequence[float] = ()  # processors, millions of operations per second
    traffic: PacketSizes | None = None  # sizes of packets that a processor gets
    rates: Sequence[float] = ()  # bit/s of clear packets, IP headers included
    channel: float | None = None  # bit/s of the link after the processor
    per_byte: Mapping[str, float] = field(default_factory=dict)  # operations by suite, where they were measured


@dataclass(frozen=True, slots=True)
class PacketCost:
    """One packet."""

    suite: str
    clear: int  # bytes of the IP packet without ESP
    size: int  # with it
    ratio: float  # R(S): payload of TCP divided by `size`
    parts: EspPacketSize | None  # None: by the paper's formulas, which have no parts
    operations: float | None  # to protect it; None: not known
    us: tuple[float | None, ...]  # microseconds that takes, of each processor


@dataclass(frozen=True, slots=True)
class QueueDelay:
    """Delays at one rate."""

    rate_bps: float
    processor: MeanDelay | None  # None: it cannot keep up
    channel: MeanDelay | None  # None: it cannot keep up, or there is none
    total_ms: float | None  # of both; None: one of them cannot keep up


@dataclass(frozen=True, slots=True)
class EspProcessor:
    """A processor that protects packets of the question's traffic with one suite."""

    suite: str  # or CLEAR
    mips: float
    mean_operations: float  # of a packet
    mean_us: float
    ceiling_bps: float | None  # rate of clear packets that the processor keeps up with; None: any
    throughput_bps: float | None  # that processor and channel keep up with; None: any
    waiting: tuple[QueueDelay, ...]  # of each rate


@dataclass(frozen=True, slots=True)
class OverheadResult:
    """The answer."""

    question: OverheadQuery
    packets: Sequence[PacketCost]  # suite by suite
    largest: Mapping[str, int | None]  # of each suite the largest packet that fits the MTU; empty without one
    peers: Sequence[EspProcessor]
    grown: Mapping[str, float]  # of each suite, mean size of the traffic's packets with ESP divided by that without


def list_paper_configs() -> list[EspConfig]:
    """The scenarios of the paper: five suites, transport mode, IPv4, UDP."""
    return [EspConfig(parse_suite(name), EspMode.TRANSPORT, EspEncapsulation.UDP) for name in PAPER_SUITES]


def make_paper_query() -> OverheadQuery:
    """All that the paper draws: its Fig. 5 and 8 over the size of packets, 11 to 14 over processors and rates."""
    return OverheadQuery(
        forms=list_paper_configs(),
        sizes=range(40, 1501, 4),
        paper=True,
        mips=(*range(100, 501, 25),),
        traffic=make_pareto_sizes(),
        rates=tuple(1000.0 * rate for rate in (8, *range(32, 2049, 32))),
        channel=PAPER_CHANNEL,
    )


def compute_overhead(question: OverheadQuery) -> OverheadResult:
    """Compute the overhead that a query describes.

    Raises:
        EspError: a size is impossible, or the operations of a suite are not known and a processor is asked for.
    """
    for name in question.per_byte:
        if name not in {form.suite.name for form in question.forms}:
            raise EspError("operations", f"{name!r} is none of the suites that are asked for")
    packets = [_packet(question, form, size) for form in question.forms for size in question.sizes]
    largest = {}
    if question.mtu is not None:
        largest = {form.suite.name: find_largest_payload(form, question.mtu) for form in question.forms}
    if question.traffic is None:
        return OverheadResult(question, packets, largest, [], {})
    traffic = question.traffic
    loads = [_load(question, traffic, form) for form in (None, *question.forms)] if question.mips else []
    peers = [_peer(question, traffic, load, mips) for mips in question.mips for load in loads]
    grown = {
        form.suite.name: float(_wire(question, form, traffic.size) @ traffic.share) / traffic.mean
        for form in question.forms
    }
    return OverheadResult(question, packets, largest, peers, grown)


def _packet(question: OverheadQuery, form: EspConfig, clear: int) -> PacketCost:
    name = form.suite.name
    work = None
    if has_operation_counts(form.suite) or name in question.per_byte:
        work = float(count_operations(form.suite, np.array([clear]), question.per_byte.get(name))[0])
    us = tuple(None if work is None else work / mips for mips in question.mips)
    if question.paper:
        check_size(clear, 4)
        return PacketCost(
            name, clear, compute_paper_size(name, clear), compute_paper_ratio(name, clear), None, work, us
        )
    parts = compute_packet_size(form, clear)
    return PacketCost(name, clear, parts.size, parts.ratio, parts, work, us)


def _wire(question: OverheadQuery, form: EspConfig | None, size: Int64Array) -> Int64Array:
    if form is None:
        return size
    return compute_paper_size(form.suite.name, size) if question.paper else compute_wire_bytes(form, size)


@dataclass(frozen=True, slots=True)
class _ProcessorLoad:
    """What the traffic asks of processor and channel, with one suite or none."""

    suite: str
    operations: ServiceTime  # at one operation in a second
    channel: ServiceTime | None  # None: there is none


def _load(question: OverheadQuery, traffic: PacketSizes, form: EspConfig | None) -> _ProcessorLoad:
    """`form` None: without protection, which takes the processor no time."""
    work = np.zeros(len(traffic.size))
    if form is not None:
        work = count_operations(form.suite, traffic.size, question.per_byte.get(form.suite.name))
    channel = None
    if question.channel is not None:
        channel = compute_service_time(8 * _wire(question, form, traffic.size) / question.channel, traffic)
    return _ProcessorLoad(CLEAR if form is None else form.suite.name, compute_service_time(work, traffic), channel)


def _peer(question: OverheadQuery, traffic: PacketSizes, load: _ProcessorLoad, mips: float) -> EspProcessor:
    work = load.operations
    speed = mips * 1e6
    processor = ServiceTime(work.mean_s / speed, work.square_s2 / speed**2)
    ceiling = _finite(compute_capacity_bps(processor, traffic))
    throughput = ceiling
    if load.channel is not None:
        most = compute_capacity_bps(load.channel, traffic)
        throughput = most if ceiling is None else min(ceiling, most)
    return EspProcessor(
        suite=load.suite,
        mips=mips,
        mean_operations=work.mean_s,
        mean_us=processor.mean_s * 1e6,
        ceiling_bps=ceiling,
        throughput_bps=throughput,
        waiting=tuple(_waiting(rate, processor, load.channel, traffic) for rate in question.rates),
    )


def _waiting(rate: float, processor: ServiceTime, channel: ServiceTime | None, traffic: PacketSizes) -> QueueDelay:
    first = compute_mean_delay(rate, processor, traffic)
    second = None if channel is None else compute_mean_delay(rate, channel, traffic)
    if first is None or (channel is not None and second is None):
        return QueueDelay(rate, first, second, None)
    return QueueDelay(rate, first, second, first.total_ms + (0 if second is None else second.total_ms))


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
