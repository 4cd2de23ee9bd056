"""What a report for people says, section by section, before it is laid out.

The captures of a report for people: a summary of each, or a table if there are many.
"""

from collections.abc import Iterator
from typing import Final

from ikeanalyze.analysis.result import Analysis, CaptureSummary
from ikeanalyze.render.core.section import FEW, KeyValueSection, Section, TableSection
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import (
    escape_text,
    format_count,
    format_duration,
    format_input_name,
    format_integer,
    format_time,
)
from ikeanalyze.render.report.handshake_details import render_handshake
from ikeanalyze.render.report.overview import render_overview

#: What ACCOUNTING counts, for people.
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
    """A summary of each capture; a table if there are many."""
    told: dict[str, int] = {}
    for warning in analysis.warnings:
        told[warning.capture] = told.get(warning.capture, 0) + 1
    if len(analysis.captures) <= 3:
        for one in analysis.captures:
            yield KeyValueSection(format_input_name(one.path), list(_capture(one, told.get(one.path, 0))), level=1)
        return
    shown = analysis.captures if every else analysis.captures[:FEW]
    yield TableSection(
        "Captures",
        (
            TableColumn("capture", narrow=16),
            *number_columns("packets", "bytes", "IKE"),
            TableColumn("ESP", right=True, optional=2),
            TableColumn("RADIUS", right=True, optional=3),
            TableColumn("other", right=True, optional=4),
            TableColumn("span", right=True, optional=1),
            TableColumn("warnings", right=True),
        ),
        [
            (
                format_input_name(one.path),
                format_integer(one.packets),
                format_integer(one.bytes),
                *(format_integer(one.accounting.get(what, 0)) for what in ("ike", "esp", "radius")),
                format_integer(sum(n for what, n in one.accounting.items() if what not in ("ike", "esp", "radius"))),
                _span(one),
                format_integer(told.get(one.path, 0)),
            )
            for one in shown
        ],
        level=1,
        more=len(analysis.captures) - len(shown),
    )


def _span(one: CaptureSummary) -> str:
    return "-" if one.first_ns is None or one.last_ns is None else format_duration(one.last_ns - one.first_ns)


def _capture(one: CaptureSummary, warnings: int) -> Iterator[tuple[str, str]]:
    yield "format", escape_text(one.format)
    yield "packets", f"{one.packets:,} ({format_count(one.bytes, 'byte')} on the wire)"
    if one.first_ns is not None:
        yield "from", format_time(one.first_ns)
        yield "to", f"{format_time(one.last_ns)} ({_span(one)})"
    for what, packets in one.accounting.items():
        if packets:
            size = one.accounting_bytes.get(what, 0)
            yield PACKETS.get(what, what), f"{format_count(packets, 'packet')}, {format_count(size, 'byte')}"
    if one.snaplen_truncated:
        yield "cut by the snaplen", format_count(one.snaplen_truncated, "packet")
    if one.damaged:
        yield "damaged", f"the file is cut or broken behind packet {one.packets:,}"
    if warnings:
        yield "warnings", format_integer(warnings)


pass


def render_sections(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """The report: captures, handshakes, and the details if there is one handshake only."""
    yield from render_captures(analysis, every=every)
    if analysis.handshakes.height == 1:
        yield from render_handshake(analysis)
    elif analysis.handshakes.height:
        yield from render_overview(analysis, every=every)
    else:
        yield KeyValueSection("Handshakes", [("found", "none")])
