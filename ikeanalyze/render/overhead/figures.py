"""The figures of the cost of ESP: those of Xenakis and Merakos that are drawn from formulas, the same for any suite,
and what was measured in a capture.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ikeanalyze.analysis.esp.traffic import EspTraffic
from ikeanalyze.model.esp.overhead import (
    CLEAR,
    EspProcessor,
    OverheadResult,
    QueueDelay,
    compute_overhead,
    make_paper_query,
)
from ikeanalyze.model.esp.queue import PAPER_MIPS
from ikeanalyze.render.core.figures import charts
from ikeanalyze.render.core.figures.charts import Axes, draw_curves
from ikeanalyze.render.core.figures.files import Figure
from ikeanalyze.render.core.values import format_count, format_duration
from ikeanalyze.render.overhead.esp_traffic import count_sizes, name_sas

#: Number of lines that can be distinguished in one chart.
_LINES: Final = 7

Rows = list[Mapping[str, Any]]


def make_paper_figures() -> Iterator[Figure]:
    """Figures 5, 8 and 11 to 14 of the paper, from its formulas and the M/G/1 queue in place of its simulation."""
    result = compute_overhead(make_paper_query())
    yield from make_computed_figures(result, {f"esp-delay-{mips:g}-mips" for mips in PAPER_MIPS})
    for suite in ("des-md5", "3des-md5"):
        yield from _make_buffer_figures(result, suite)
    yield from _make_growth_figures(result)


def make_computed_figures(result: OverheadResult, delays: set[str] | None = None) -> Iterator[Figure]:
    """What there are several sizes, processors or rates of. `delays`: names of the delay figures; None: all."""
    question = result.question
    if len(question.sizes) > 1:
        yield _make_ratio_figure(result)
        if any(packet.operations for packet in result.packets):
            yield _make_operations_figure(result)
    if len(question.mips) > 1:
        yield _make_throughput_figure(result)
    if len(question.rates) > 1:
        for mips in question.mips:
            figure = _make_delay_figure(result, mips)
            if delays is None or figure.name in delays:
                yield figure


def make_measured_figures(traffic: EspTraffic) -> Iterator[Figure]:
    """Sizes of all packets, and the rate of the SAs that have most bytes; none without ESP."""
    if not traffic.sas:
        return
    yield _make_size_figure(traffic)
    pairs = sorted(zip(name_sas(traffic), traffic.sas, strict=True), key=lambda pair: -pair[1].bytes)[:_LINES]
    named, sas = zip(*pairs, strict=True)
    rows: Rows = []
    start = min(sa.first_ns for sa in sas)
    for name, sa in pairs:
        bytes_at = {interval.start_ns: interval.bytes for interval in sa.rate}
        mbps = 0.0
        for moment in range(min(bytes_at), max(bytes_at) + 1, traffic.interval_ns):
            mbps = 8e3 * bytes_at.get(moment, 0) / traffic.interval_ns
            # the first interval may begin before the first packet
            rows.append({"group": name, "x": max(moment - start, 0) / 1e9, "y": mbps})
        # a step has an end, without which the last interval, or the only one, would not be seen
        rows.append({"group": name, "x": (max(bytes_at) + traffic.interval_ns - start) / 1e9, "y": mbps})
    left_out = f" The {len(sas)} with most bytes of {len(traffic.sas):,}." if len(traffic.sas) > len(sas) else ""
    yield _make_curve_figure(
        "esp-rate",
        "ESP: rate over time",
        f"Bits of frames in each {format_duration(traffic.interval_ns)}, by SPI.{left_out}",
        Axes("time, s", "Mbit/s"),
        rows,
        named,
        stepped=True,
    )


def _make_size_figure(traffic: EspTraffic) -> Figure:
    counts = count_sizes(traffic)
    total = counts.total()
    rows = []
    for bound in sorted(counts):
        text = f"to {bound:,} bytes: {format_count(counts[bound], 'packet')}"
        rows.append({"label": f"to {bound:,}", "value": counts[bound], "text": text, "said": text})
    return Figure(
        "esp-sizes",
        "ESP: sizes of packets",
        f"{format_count(total, 'ESP packet')} by size in bytes, from SPI to ICV.",
        lambda style: charts.draw_bars(rows, style, x_title="packets"),
    )


def _make_curve_figure(
    name: str, title: str, caption: str, axes: Axes, rows: Rows, groups: Sequence[str], *, stepped: bool = False
) -> Figure:
    return Figure(name, title, caption, lambda style: draw_curves(rows, style, axes, groups=groups, stepped=stepped))


def _list_suites(result: OverheadResult) -> list[str]:
    return [form.suite.name for form in result.question.forms][:_LINES]


def _make_ratio_figure(result: OverheadResult) -> Figure:
    """The paper's Fig. 8."""
    names = _list_suites(result)
    rows: Rows = [
        {"group": packet.suite, "x": packet.clear, "y": packet.ratio}
        for packet in result.packets
        if packet.suite in names
    ]
    header = 20 + (20 if result.question.forms[0].inner == 4 else 40)
    rows += [{"group": CLEAR, "x": n, "y": max(n - header, 0) / n} for n in result.question.sizes]
    return _make_curve_figure(
        "esp-ratio",
        "ESP: payload to packet size",
        "TCP's payload divided by the bytes of the IP packet on the wire.",
        Axes("IP packet, bytes", "ratio"),
        rows,
        [CLEAR, *names[: _LINES - 1]],
    )


def _make_operations_figure(result: OverheadResult) -> Figure:
    """The paper's Fig. 5."""
    packets = [packet for packet in result.packets if packet.operations is not None]
    names = list(dict.fromkeys(packet.suite for packet in packets))[:_LINES]
    rows: Rows = [
        {"group": packet.suite, "x": packet.clear, "y": packet.operations}
        for packet in packets
        if packet.suite in names
    ]
    return _make_curve_figure(
        "esp-operations",
        "ESP: operations for a packet",
        "Operations of a processor that protects one packet.",
        Axes("IP packet, bytes", "operations"),
        rows,
        names,
    )


def _list_peer_rows(
    result: OverheadResult, y: Callable[[EspProcessor], float | None], x: Callable[[EspProcessor], float]
) -> Rows:
    return [{"group": peer.suite, "x": x(peer), "y": value} for peer in result.peers if (value := y(peer)) is not None]


def _make_throughput_figure(result: OverheadResult) -> Figure:
    """The paper's Fig. 11."""
    rows = _list_peer_rows(
        result, lambda peer: peer.throughput_bps and peer.throughput_bps / 1e3, lambda peer: peer.mips
    )
    channel = result.question.channel
    behind = "" if channel is None else f" and a channel of {channel / 1e3:,.0f} kbit/s"
    groups = [name for name in (CLEAR, *_list_suites(result)) if any(row["group"] == name for row in rows)]
    return _make_curve_figure(
        "esp-throughput",
        "ESP: throughput by processor",
        f"Highest rate of clear packets that the processor{behind} can carry.",
        Axes("processor, MIPS", "kbit/s"),
        rows,
        groups[:_LINES],
    )


def _list_wait_rows(
    result: OverheadResult, mips: float, y: Callable[[QueueDelay], float | None], suites: Sequence[str]
) -> Rows:
    return [
        {"group": peer.suite, "x": delay.rate_bps / 1e3, "y": value}
        for peer in result.peers
        if peer.mips == mips and peer.suite in suites
        for delay in peer.waiting
        if (value := y(delay)) is not None
    ]


def _make_delay_figure(result: OverheadResult, mips: float) -> Figure:
    """The paper's Fig. 12: a to d are 100, 200, 300 and 500 MIPS."""
    names = [CLEAR, *_list_suites(result)][:_LINES] if result.question.channel is not None else _list_suites(result)
    rows = _list_wait_rows(result, mips, lambda delay: delay.total_ms, names)
    where = "the processor" + ("" if result.question.channel is None else " and the channel")
    return _make_curve_figure(
        f"esp-delay-{mips:g}-mips",
        f"ESP: mean delay, {mips:g} MIPS",
        f"Waiting and service at {where}, of packets at exponential intervals. A line ends where the rate is too high.",
        Axes("rate, kbit/s", "delay, ms", log=True),
        rows,
        names,
    )


def _make_buffer_figures(result: OverheadResult, suite: str) -> Iterator[Figure]:
    """The paper's Fig. 13: mean bytes that wait for the processor."""
    traffic = result.question.traffic
    assert traffic is not None
    rows: Rows = []
    for mips in PAPER_MIPS:
        for row in _list_wait_rows(
            result, mips, lambda delay: None if delay.processor is None else delay.processor.waiting_packets, [suite]
        ):
            rows.append({**row, "group": f"{mips:g} MIPS", "y": row["y"] * traffic.mean / 1e3})
    yield _make_curve_figure(
        f"esp-buffer-{suite}",
        f"ESP: mean buffer, {suite}",
        "Packets that wait for the processor, times their mean size.",
        Axes("rate, kbit/s", "kbytes"),
        rows,
        [f"{mips:g} MIPS" for mips in PAPER_MIPS],
    )


def _make_growth_figures(result: OverheadResult) -> Iterator[Figure]:
    """The paper's Fig. 14."""
    rows: Rows = [
        {"group": name, "x": rate / 1e3, "y": rate * (factor - 1) / 1e3}
        for name, factor in result.grown.items()
        for rate in result.question.rates
    ]
    yield _make_curve_figure(
        "esp-rate-increase",
        "ESP: increase of the data rate",
        "Rate of the packets in ESP less that of the clear ones.",
        Axes("rate, kbit/s", "more, kbit/s"),
        rows,
        list(result.grown),
    )
