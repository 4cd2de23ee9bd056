"""The sections of ESP overhead in text formats: packets, processors and delays, or what a capture contains."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from ikeanalyze.analysis.esp.traffic import EspTraffic
from ikeanalyze.model.esp.algorithms import EspCipherSuite
from ikeanalyze.model.esp.overhead import OverheadResult
from ikeanalyze.render.core.section import Columns, KeyValueSection, Section, TableSection, tabulate
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import UNKNOWN, Cell, format_decimal, format_integer, format_ratio
from ikeanalyze.render.overhead import esp_traffic

_PAPER: Final = (
    "formulas 9 to 12 of Xenakis and Merakos, without the initialization vector of RFC 2405 and RFC 2451 (8 bytes)"
)
_QUEUE: Final = "packets at exponential intervals (M/G/1, or M/D/1 where all have one size); the paper's come in calls"


@dataclass(frozen=True, slots=True)
class OverheadReport:
    """A computed or a measured overhead."""

    computed: OverheadResult | None = None
    measured: EspTraffic | None = None
    suite: EspCipherSuite | None = None  # with `measured`: the assumed algorithms of its packets


def render_sections(report: OverheadReport, *, every: bool) -> Iterator[Section]:
    """The measured, then the computed overhead."""
    if report.measured is not None:
        yield from esp_traffic.render_sections(report.measured, report.suite, every=every)
    if report.computed is not None:
        yield from _render_computed(report.computed, every=every)


def _render_computed(result: OverheadResult, *, every: bool) -> Iterator[Section]:
    yield KeyValueSection("ESP overhead", _render_facts(result), level=1)
    yield _render_packet_table(result, every=every)
    if result.peers:
        yield _render_peer_table(result, every=every)
        if result.question.rates:
            yield _render_delay_table(result, every=every)


def _render_facts(result: OverheadResult) -> list[tuple[str, str]]:
    question = result.question
    form = question.forms[0]
    facts = [("sizes", "bytes of IP packets, headers included; the ratio is TCP's payload to all of it")]
    if question.paper:
        facts.append(("by", _PAPER))
    facts.append(("mode", form.mode))
    facts.append(("carried by", f"IPv{form.outer}" + ("" if form.carrier == "none" else f", {form.carrier.upper()}")))
    if form.inner != form.outer:
        facts.append(("protected", f"IPv{form.inner} packets"))
    if question.mips and question.traffic is not None:
        traffic = question.traffic
        size = f"{traffic.mean:,.0f} bytes" + (" on average" if len(traffic.size) > 1 else "")
        facts.append(("traffic", f"packets of {size}"))
        if question.channel is not None:
            facts.append(("channel", f"{question.channel / 1e3:,.0f} kbit/s after the processor"))
    facts.extend(
        (
            f"MTU {question.mtu}",
            f"{name}: packets of {format_integer(size)} bytes fit" if size else f"{name}: none fits",
        )
        for name, size in result.largest.items()
    )
    return facts


def _render_packet_table(result: OverheadResult, *, every: bool) -> TableSection:
    question = result.question
    work = any(packet.operations is not None for packet in result.packets)
    columns = [TableColumn("suite"), *number_columns("packet", "in ESP", "added", "ratio")]
    if not question.paper:
        columns += number_columns("headers", "IV", "padding", "trailer", "ICV", optional=1)
    if work:
        columns.append(TableColumn("operations", right=True))
        columns += number_columns(*(f"µs, {mips:g} MIPS" for mips in question.mips), optional=2)
    rows = []
    for packet in result.packets:
        row: list[Cell] = [packet.suite, packet.clear, packet.size, packet.size - packet.clear]
        row.append(format_ratio(packet.ratio))
        if (parts := packet.parts) is not None:
            row += [parts.ip + parts.carrier + parts.esp, parts.iv, parts.padding, parts.trailer, parts.icv]
        if work:
            row.append(format_decimal(packet.operations, 0))
            row += [format_decimal(us, 1) for us in packet.us]
        rows.append(row)
    return tabulate("Packets", rows, _take_cells(columns), every=every)


def _render_peer_table(result: OverheadResult, *, every: bool) -> TableSection:
    columns = (
        TableColumn("suite"),
        *number_columns("MIPS", "operations", "µs", "ceiling, kbit/s"),
        *(number_columns("with channel, kbit/s") if result.question.channel is not None else ()),
    )
    rows = []
    for peer in result.peers:
        row = [peer.suite, f"{peer.mips:g}", f"{peer.mean_operations:,.0f}", f"{peer.mean_us:,.1f}"]
        rows.append([*row, _format_kbps(peer.ceiling_bps), _format_kbps(peer.throughput_bps)])
    notes = ["per packet, on average; ceiling: rate of clear packets that the processor keeps up with"]
    return tabulate("Processor", rows, _take_cells(columns), every=every, notes=notes)


def _render_delay_table(result: OverheadResult, *, every: bool) -> TableSection:
    channel = result.question.channel is not None
    columns = (
        TableColumn("suite"),
        *number_columns("MIPS", "kbit/s", "load", "wait, ms", "waiting", "processor, ms"),
        *(number_columns("channel, ms", "both, ms") if channel else ()),
    )
    rows = []
    for peer in result.peers:
        for delay in peer.waiting:
            row: list[Cell] = [peer.suite, f"{peer.mips:g}", _format_kbps(delay.rate_bps), *([None] * 4)]
            if (queue := delay.processor) is not None:
                waiting = format_decimal(queue.waiting_packets, 1)
                row[3:] = [format_ratio(queue.load), _format_ms(queue.wait_ms), waiting, _format_ms(queue.total_ms)]
            rows.append(
                [*row, _format_ms(delay.channel.total_ms) if delay.channel else None, _format_ms(delay.total_ms)]
            )
    notes = [_QUEUE, f"{UNKNOWN}: the rate is too high, the queue grows without limit"]
    return tabulate("Mean delay", rows, _take_cells(columns), every=every, notes=notes)


def _format_kbps(bps: float | None) -> str:
    return "any" if bps is None else f"{bps / 1e3:,.0f}"


def _format_ms(value: float | None) -> str:
    return format_decimal(value, 3)


def _take_cells(columns: Sequence[TableColumn]) -> Columns[Sequence[Cell]]:
    """The columns of a table whose items are rows of cells."""
    return [(column, itemgetter(index)) for index, column in enumerate(columns)]
