"""The sections of a report in text formats: its captures, then one handshake in detail or an overview of all."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, TextIO

from ikeanalyze.analysis.result import Analysis, AppliedSelection, CaptureSummary
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.core.markdown import escape_markdown, write_sections
from ikeanalyze.render.core.section import Columns, KeyValueSection, Section, tabulate
from ikeanalyze.render.core.table import TableColumn
from ikeanalyze.render.core.values import (
    UNKNOWN,
    escape_text,
    format_count,
    format_duration,
    format_input_name,
    format_integer,
    format_time,
)
from ikeanalyze.render.report.sections.diagnosis import render_capture_diagnosis, render_diagnosis_table
from ikeanalyze.render.report.sections.handshake_details import render_handshake
from ikeanalyze.render.report.sections.overview import render_overview
from ikeanalyze.render.report.sections.rekeyed import render_rekeyed_ike_sas
from ikeanalyze.render.report.selection import select_detailed, select_handshake

#: The label of each kind of packet in ACCOUNTING.
PACKETS: Final = {
    "ike": "IKE",
    "esp": "ESP",
    "ah": "AH",
    "nat_keepalive": "NAT keepalive",
    "radius": "RADIUS",
    "hip": "HIP",
    "tcp_encapsulation": "TCP encapsulation without IKE",
    "icmp": "ICMP",
    "other": "other",
    "malformed": "malformed",
}


def render_captures(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """A summary of each capture; a table of more than three."""
    warnings = Counter(warning.capture for warning in analysis.warnings)
    if len(analysis.captures) <= 3:
        for capture in analysis.captures:
            diagnosis = render_capture_diagnosis(analysis.handshakes, capture.path)
            facts = [*diagnosis, *_describe_capture(capture, warnings[capture.path])]
            yield KeyValueSection(format_input_name(capture.path), facts, level=1)
        return
    columns: Columns[CaptureSummary] = [
        (TableColumn("capture", narrow=16), lambda capture: format_input_name(capture.path)),
        (TableColumn("packets", right=True), lambda capture: capture.packets),
        (TableColumn("bytes", right=True), lambda capture: capture.bytes),
        (TableColumn("IKE", right=True), lambda capture: capture.accounting.get("ike", 0)),
        (TableColumn("ESP", right=True, optional=2), lambda capture: capture.accounting.get("esp", 0)),
        (TableColumn("RADIUS", right=True, optional=3), lambda capture: capture.accounting.get("radius", 0)),
        (TableColumn("other", right=True, optional=4), _count_other_packets),
        (TableColumn("span", right=True, optional=1), _format_span),
        (TableColumn("warnings", right=True), lambda capture: warnings[capture.path]),
    ]
    yield tabulate("Captures", analysis.captures, columns, every=every, level=1)


def _count_other_packets(capture: CaptureSummary) -> int:
    return sum(packets for kind, packets in capture.accounting.items() if kind not in ("ike", "esp", "radius"))


def _format_span(capture: CaptureSummary) -> str:
    if capture.first_ns is None or capture.last_ns is None:
        return UNKNOWN
    return format_duration(capture.last_ns - capture.first_ns)


def _describe_capture(capture: CaptureSummary, warnings: int) -> Iterator[tuple[str, str]]:
    yield "format", escape_text(capture.format)
    yield "packets", f"{capture.packets:,} ({format_count(capture.bytes, 'byte')} on the wire)"
    if capture.first_ns is not None:
        yield "from", format_time(capture.first_ns)
        yield "to", f"{format_time(capture.last_ns)} ({_format_span(capture)})"
    for kind, packets in capture.accounting.items():
        if packets:
            size = capture.accounting_bytes.get(kind, 0)
            yield PACKETS.get(kind, kind), f"{format_count(packets, 'packet')}, {format_count(size, 'byte')}"
    if capture.snaplen_truncated:
        yield "cut by the snaplen", format_count(capture.snaplen_truncated, "packet")
    if capture.damaged:
        yield "damaged", f"the file is truncated or damaged after packet {capture.packets}"
    if warnings:
        yield "warnings", format_integer(warnings)


def describe_selection(selection: AppliedSelection) -> Iterator[tuple[str, str]]:
    """Yield the options that selected handshakes, and how many they left."""
    yield "handshakes", f"{selection.selected:,} of {selection.total:,}"
    for name, value in selection.options.items():
        yield name, escape_text(value)


def render_sections(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """The captures, the details of a single handshake or an overview of several, and the rekeyed IKE SAs."""
    yield from render_captures(analysis, every=every)
    if analysis.selection is not None:
        yield KeyValueSection("Selection", list(describe_selection(analysis.selection)))
    detailed = select_detailed(analysis)
    if detailed.handshakes.height == 1:
        single = select_handshake(analysis, detailed.handshakes["handshake"][0])
        yield from render_handshake(single, every=every)
    elif detailed.handshakes.height:
        yield from render_diagnosis_table(detailed.handshakes, every=every)
        yield from render_overview(detailed, every=every)
    else:
        yield KeyValueSection("Handshakes", [("found", "none")])
    if analysis.handshakes.height > 1:
        yield from render_rekeyed_ike_sas(analysis, every=every)


def write_markdown(analysis: Analysis, out: TextIO, view: RenderOptions) -> None:
    """Write the report as Markdown, with its warnings and skipped files."""
    write_sections(render_sections(analysis, every=view.every), out)
    if analysis.warnings:
        out.write("\n## Warnings\n\n")
        for warning in analysis.warnings:
            where = f", packet {warning.frame}" if warning.frame is not None else ""
            out.write(f"- {escape_markdown(warning.capture)}{where}: {escape_markdown(warning.message)}\n")
    if analysis.skipped:
        out.write("\n## Skipped\n\n")
        out.writelines(f"- {escape_markdown(file.path)}: {escape_markdown(file.reason)}\n" for file in analysis.skipped)
