"""The sections of ESP overhead in text formats: packets, processors and delays, or what a capture contains."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ikeanalyze.analysis.esp.traffic import EspTraffic
from ikeanalyze.model.esp.algorithms import EspCipherSuite
from ikeanalyze.model.esp.overhead import OverheadResult
from ikeanalyze.render.core.section import KeyValueSection, Section, TableSection, make_table
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import UNKNOWN, format_integer, format_ratio
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
        yield from _computed(report.computed, every=every)


def _computed(result: OverheadResult, *, every: bool) -> Iterator[Section]:
    yield KeyValueSection("ESP overhead", _facts(result), level=1)
    yield _packets(result, every=every)
    if result.peers:
        yield _peers(result, every=every)
        if result.question.rates:
            yield _delays(result, every=every)


def _facts(result: OverheadResult) -> list[tuple[str, str]]:
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


def _packets(result: OverheadResult, *, every: bool) -> TableSection:
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
        row = [
            packet.suite,
            format_integer(packet.clear),
            format_integer(packet.size),
            format_integer(packet.size - packet.clear),
            format_ratio(packet.ratio),
        ]
        if (parts := packet.parts) is not None:
            headers = parts.ip + parts.carrier + parts.esp
            row += [str(value) for value in (headers, parts.iv, parts.padding, parts.trailer, parts.icv)]
        if work:
            operations = packet.operations
            row.append(UNKNOWN if operations is None else f"{operations:,.0f}")
            row += [UNKNOWN if us is None else f"{us:,.1f}" for us in packet.us]
        rows.append(row)
    return make_table("Packets", columns, rows, every=every)


def _peers(result: OverheadResult, *, every: bool) -> TableSection:
    columns = (
        TableColumn("suite"),
        *number_columns("MIPS", "operations", "µs", "ceiling, kbit/s"),
        *((TableColumn("with channel, kbit/s", right=True),) if result.question.channel is not None else ()),
    )
    rows = []
    for peer in result.peers:
        row = [peer.suite, f"{peer.mips:g}", f"{peer.mean_operations:,.0f}", f"{peer.mean_us:,.1f}"]
        row += [_kbps(peer.ceiling_bps), _kbps(peer.throughput_bps)]
        rows.append(row[: len(columns)])
    notes = ["per packet, on average; ceiling: rate of clear packets that the processor keeps up with"]
    return make_table("Processor", columns, rows, every=every, notes=notes)


def _delays(result: OverheadResult, *, every: bool) -> TableSection:
    channel = result.question.channel is not None
    columns = (
        TableColumn("suite"),
        *number_columns("MIPS", "kbit/s", "load", "wait, ms", "waiting", "processor, ms"),
        *(number_columns("channel, ms", "both, ms") if channel else ()),
    )
    rows = []
    for peer in result.peers:
        for delay in peer.waiting:
            processor = delay.processor
            row = [peer.suite, f"{peer.mips:g}", _kbps(delay.rate_bps)]
            row.append(UNKNOWN if processor is None else format_ratio(processor.load))
            row.append(_ms(None if processor is None else processor.wait_ms))
            row.append(UNKNOWN if processor is None else f"{processor.waiting_packets:,.1f}")
            row.append(_ms(None if processor is None else processor.total_ms))
            if channel:
                row += [_ms(None if delay.channel is None else delay.channel.total_ms), _ms(delay.total_ms)]
            rows.append(row)
    notes = [_QUEUE, f"{UNKNOWN}: the rate is too high, the queue grows without limit"]
    return make_table("Mean delay", columns, rows, every=every, notes=notes)


def _kbps(bps: float | None) -> str:
    return "any" if bps is None else f"{bps / 1e3:,.0f}"


def _ms(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.3f}"
