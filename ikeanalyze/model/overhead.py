"""Computes the overhead of ESP for several suites: packet sizes, and the load of a processor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ikeanalyze.model.arrays import Int64Array
from ikeanalyze.model.esp_algorithms import EspError, suite
from ikeanalyze.model.esp_operations import is_counted, operations
from ikeanalyze.model.esp_overhead import (
    PAPER_SUITES,
    Carrier,
    Form,
    Mode,
    Protected,
    check_size,
    largest_clear,
    paper_ratio,
    paper_size,
    protected,
    wire_bytes,
)
from ikeanalyze.model.peer_queue import (
    PAPER_CHANNEL,
    Delay,
    Service,
    Sizes,
    ceiling_bps,
    delay,
    pareto,
    service,
)

#: Name of what is not protected at all, to compare with.
CLEAR: Final = "clear"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for."""

    forms: Sequence[Form]
    sizes: Sequence[int]  # bytes of IP packets
    paper: bool = False  # sizes by the paper's formulas 9 to 12
    mtu: int | None = None  # bytes of the largest IP packet on the wire
    mips: Sequence[float] = ()  # processors, millions of operations per second
    traffic: Sizes | None = None  # sizes of packets that a processor gets
    rates: Sequence[float] = ()  # bit/s of clear packets, IP headers included
    channel: float | None = None  # bit/s of the link behind the processor
    per_byte: Mapping[str, float] = field(default_factory=dict)  # operations by suite, where they were measured


@dataclass(frozen=True, slots=True)
class PacketCost:
    """One packet."""

    suite: str
    clear: int  # bytes of the IP packet without ESP
    size: int  # with it
    ratio: float  # R(S): payload of TCP divided by `size`
    parts: Protected | None  # None: by the paper's formulas, which have no parts
    operations: float | None  # to protect it; None: not known
    us: tuple[float | None, ...]  # microseconds that takes, of each processor


@dataclass(frozen=True, slots=True)
class Waiting:
    """Delays at one rate."""

    rate_bps: float
    processor: Delay | None  # None: it cannot keep up
    channel: Delay | None  # None: it cannot keep up, or there is none
    total_ms: float | None  # of both; None: one of them cannot keep up


@dataclass(frozen=True, slots=True)
class Peer:
    """A processor that protects packets of the question's traffic with one suite."""

    suite: str  # or CLEAR
    mips: float
    mean_operations: float  # of a packet
    mean_us: float
    ceiling_bps: float | None  # rate of clear packets that the processor keeps up with; None: any
    throughput_bps: float | None  # that processor and channel keep up with; None: any
    waiting: tuple[Waiting, ...]  # of each rate


@dataclass(frozen=True, slots=True)
class Overhead:
    """The answer."""

    question: Question
    packets: Sequence[PacketCost]  # suite by suite
    largest: Mapping[str, int | None]  # of each suite the largest packet that fits the MTU; empty without one
    peers: Sequence[Peer]
    grown: Mapping[str, float]  # of each suite, mean size of the traffic's packets with ESP divided by that without


def paper_forms() -> list[Form]:
    """The scenarios of the paper: five suites, transport mode, IPv4, UDP."""
    return [Form(suite(name), Mode.TRANSPORT, Carrier.UDP) for name in PAPER_SUITES]


def paper_question() -> Question:
    """All that the paper draws: its Fig. 5 and 8 over the size of packets, 11 to 14 over processors and rates."""
    return Question(
        forms=paper_forms(),
        sizes=range(40, 1501, 4),
        paper=True,
        mips=(*range(100, 501, 25),),
        traffic=pareto(),
        rates=tuple(1000.0 * rate for rate in (8, *range(32, 2049, 32))),
        channel=PAPER_CHANNEL,
    )


def overhead(question: Question) -> Overhead:
    """Compute what is asked for.

    Raises:
        EspError: a size is impossible, or the operations of a suite are not known and a processor is asked for.
    """
    for name in question.per_byte:
        if name not in {form.suite.name for form in question.forms}:
            raise EspError("operations", f"{name!r} is none of the suites that are asked for")
    packets = [_packet(question, form, size) for form in question.forms for size in question.sizes]
    largest = {}
    if question.mtu is not None:
        largest = {form.suite.name: largest_clear(form, question.mtu) for form in question.forms}
    if question.traffic is None:
        return Overhead(question, packets, largest, [], {})
    traffic = question.traffic
    loads = [_load(question, traffic, form) for form in (None, *question.forms)] if question.mips else []
    peers = [_peer(question, traffic, load, mips) for mips in question.mips for load in loads]
    grown = {
        form.suite.name: float(_wire(question, form, traffic.size) @ traffic.share) / traffic.mean
        for form in question.forms
    }
    return Overhead(question, packets, largest, peers, grown)


def _packet(question: Question, form: Form, clear: int) -> PacketCost:
    name = form.suite.name
    work = None
    if is_counted(form.suite) or name in question.per_byte:
        work = float(operations(form.suite, np.array([clear]), question.per_byte.get(name))[0])
    us = tuple(None if work is None else work / mips for mips in question.mips)
    if question.paper:
        check_size(clear, 4)
        return PacketCost(name, clear, paper_size(name, clear), paper_ratio(name, clear), None, work, us)
    parts = protected(form, clear)
    return PacketCost(name, clear, parts.size, parts.ratio, parts, work, us)


def _wire(question: Question, form: Form | None, size: Int64Array) -> Int64Array:
    if form is None:
        return size
    return paper_size(form.suite.name, size) if question.paper else wire_bytes(form, size)


@dataclass(frozen=True, slots=True)
class _Load:
    """What the traffic asks of processor and channel, with one suite or none."""

    suite: str
    operations: Service  # at one operation in a second
    channel: Service | None  # None: there is none


def _load(question: Question, traffic: Sizes, form: Form | None) -> _Load:
    """`form` None: without protection, which takes the processor no time."""
    work = np.zeros(len(traffic.size))
    if form is not None:
        work = operations(form.suite, traffic.size, question.per_byte.get(form.suite.name))
    channel = None
    if question.channel is not None:
        channel = service(8 * _wire(question, form, traffic.size) / question.channel, traffic)
    return _Load(CLEAR if form is None else form.suite.name, service(work, traffic), channel)


def _peer(question: Question, traffic: Sizes, load: _Load, mips: float) -> Peer:
    work = load.operations
    speed = mips * 1e6
    processor = Service(work.mean_s / speed, work.square_s2 / speed**2)
    ceiling = _finite(ceiling_bps(processor, traffic))
    throughput = ceiling
    if load.channel is not None:
        most = ceiling_bps(load.channel, traffic)
        throughput = most if ceiling is None else min(ceiling, most)
    return Peer(
        suite=load.suite,
        mips=mips,
        mean_operations=work.mean_s,
        mean_us=processor.mean_s * 1e6,
        ceiling_bps=ceiling,
        throughput_bps=throughput,
        waiting=tuple(_waiting(rate, processor, load.channel, traffic) for rate in question.rates),
    )


def _waiting(rate: float, processor: Service, channel: Service | None, traffic: Sizes) -> Waiting:
    first = delay(rate, processor, traffic)
    second = None if channel is None else delay(rate, channel, traffic)
    if first is None or (channel is not None and second is None):
        return Waiting(rate, first, second, None)
    return Waiting(rate, first, second, first.total_ms + (0 if second is None else second.total_ms))


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
