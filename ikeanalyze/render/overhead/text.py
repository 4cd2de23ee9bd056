"""The cost of ESP: for people in a terminal and as Markdown, for programs as JSON and CSV."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ikeanalyze.analysis.esp.traffic import EspTraffic
from ikeanalyze.model.esp.algorithms import EspCipherSuite
from ikeanalyze.model.esp.overhead import OverheadResult
from ikeanalyze.render.core.section import FEW, KeyValueSection, Section, TableSection
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import UNKNOWN, format_integer, format_ratio
from ikeanalyze.render.overhead import esp_traffic

_PAPER: Final = (
    "formulas 9 to 12 of Xenakis and Merakos, without the initialization vector of RFC 2405 and RFC 2451 (8 bytes)"
)
_QUEUE: Final = "packets at exponential intervals (M/G/1, or M/D/1 where all have one size); the paper's come in calls"


@dataclass(frozen=True, slots=True)
class OverheadReport:
    """What was computed, or what was measured."""

    computed: OverheadResult | None = None
    measured: EspTraffic | None = None
    suite: EspCipherSuite | None = None  # with `measured`: what its packets are taken to be protected with


def render_sections(answer: OverheadReport, *, every: bool) -> Iterator[Section]:
    """The answer for people."""
    if answer.measured is not None:
        yield from esp_traffic.render_sections(answer.measured, answer.suite, every=every)
    if answer.computed is not None:
        yield from _computed(answer.computed, every=every)


def _computed(found: OverheadResult, *, every: bool) -> Iterator[Section]:
    yield KeyValueSection("ESP overhead", _facts(found), level=1)
    yield _packets(found, every=every)
    if found.peers:
        yield _peers(found, every=every)
        if found.question.rates:
            yield _delays(found, every=every)


def _facts(found: OverheadResult) -> list[tuple[str, str]]:
    question = found.question
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
        what = f"{traffic.mean:,.0f} bytes" + (" on the average" if len(traffic.size) > 1 else "")
        facts.append(("traffic", f"packets of {what}"))
        if question.channel is not None:
            facts.append(("channel", f"{question.channel / 1e3:,.0f} kbit/s behind the processor"))
    facts.extend(
        (
            f"MTU {question.mtu}",
            f"{name}: packets of {format_integer(size)} bytes fit" if size else f"{name}: none fits",
        )
        for name, size in found.largest.items()
    )
    return facts


def _packets(found: OverheadResult, *, every: bool) -> TableSection:
    question = found.question
    work = any(packet.operations is not None for packet in found.packets)
    columns = [TableColumn("suite"), *number_columns("packet", "in ESP", "added", "ratio")]
    if not question.paper:
        columns += [
            TableColumn(name, right=True, optional=1) for name in ("headers", "IV", "padding", "trailer", "ICV")
        ]
    if work:
        columns.append(TableColumn("operations", right=True))
        columns += [TableColumn(f"µs, {mips:g} MIPS", right=True, optional=2) for mips in question.mips]
    rows = []
    for packet in found.packets:
        row = [
            packet.suite,
            format_integer(packet.clear),
            format_integer(packet.size),
            format_integer(packet.size - packet.clear),
        ]
        row.append(format_ratio(packet.ratio))
        if (parts := packet.parts) is not None:
            headers = parts.ip + parts.carrier + parts.esp
            row += [str(value) for value in (headers, parts.iv, parts.padding, parts.trailer, parts.icv)]
        if work:
            known = packet.operations
            row.append(UNKNOWN if known is None else f"{known:,.0f}")
            row += [UNKNOWN if us is None else f"{us:,.1f}" for us in packet.us]
        rows.append(row)
    shown = rows if every else rows[:FEW]
    return TableSection("Packets", columns, shown, more=len(rows) - len(shown))


def _peers(found: OverheadResult, *, every: bool) -> TableSection:
    columns = (
        TableColumn("suite"),
        *number_columns("MIPS", "operations", "µs", "ceiling, kbit/s"),
        *((TableColumn("with channel, kbit/s", right=True),) if found.question.channel is not None else ()),
    )
    rows = []
    for peer in found.peers:
        row = [peer.suite, f"{peer.mips:g}", f"{peer.mean_operations:,.0f}", f"{peer.mean_us:,.1f}"]
        row += [_kbps(peer.ceiling_bps), _kbps(peer.throughput_bps)]
        rows.append(row[: len(columns)])
    shown = rows if every else rows[:FEW]
    notes = ["of a packet, on the average; ceiling: clear packets that the processor keeps up with"]
    return TableSection("Processor", columns, shown, more=len(rows) - len(shown), notes=notes)


def _delays(found: OverheadResult, *, every: bool) -> TableSection:
    channel = found.question.channel is not None
    columns = (
        TableColumn("suite"),
        *number_columns("MIPS", "kbit/s", "load", "wait, ms", "waiting", "processor, ms"),
        *(number_columns("channel, ms", "both, ms") if channel else ()),
    )
    rows = []
    for peer in found.peers:
        for at in peer.waiting:
            one = at.processor
            row = [peer.suite, f"{peer.mips:g}", _kbps(at.rate_bps)]
            row.append(UNKNOWN if one is None else format_ratio(one.load))
            row.append(_ms(None if one is None else one.wait_ms))
            row.append(UNKNOWN if one is None else f"{one.waiting_packets:,.1f}")
            row.append(_ms(None if one is None else one.total_ms))
            if channel:
                row += [_ms(None if at.channel is None else at.channel.total_ms), _ms(at.total_ms)]
            rows.append(row)
    shown = rows if every else rows[:FEW]
    notes = [_QUEUE, f"{UNKNOWN}: more than can be kept up with, the queue grows without end"]
    return TableSection("Mean delay", columns, shown, more=len(rows) - len(shown), notes=notes)


def _kbps(bps: float | None) -> str:
    return "any" if bps is None else f"{bps / 1e3:,.0f}"


def _ms(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.3f}"
