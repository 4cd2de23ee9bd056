"""The captures of a report for people: a summary of each, or a table if there are many."""

from collections.abc import Iterator
from typing import Final

from ikeanalyze.analysis.result import Analysis, CaptureSummary
from ikeanalyze.render.section import FEW, Facts, Section, Table
from ikeanalyze.render.table import Column, number_columns
from ikeanalyze.render.values import clean, count, input_name, instant, number, span

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


def captures(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """A summary of each capture; a table if there are many."""
    told: dict[str, int] = {}
    for warning in analysis.warnings:
        told[warning.capture] = told.get(warning.capture, 0) + 1
    if len(analysis.captures) <= 3:
        for one in analysis.captures:
            yield Facts(input_name(one.path), list(_capture(one, told.get(one.path, 0))), level=1)
        return
    shown = analysis.captures if every else analysis.captures[:FEW]
    yield Table(
        "Captures",
        (
            Column("capture", narrow=16),
            *number_columns("packets", "bytes", "IKE"),
            Column("ESP", right=True, optional=2),
            Column("RADIUS", right=True, optional=3),
            Column("other", right=True, optional=4),
            Column("span", right=True, optional=1),
            Column("warnings", right=True),
        ),
        [
            (
                input_name(one.path),
                number(one.packets),
                number(one.bytes),
                *(number(one.accounting.get(what, 0)) for what in ("ike", "esp", "radius")),
                number(sum(n for what, n in one.accounting.items() if what not in ("ike", "esp", "radius"))),
                _span(one),
                number(told.get(one.path, 0)),
            )
            for one in shown
        ],
        level=1,
        more=len(analysis.captures) - len(shown),
    )


def _span(one: CaptureSummary) -> str:
    return "-" if one.first_ns is None or one.last_ns is None else span(one.last_ns - one.first_ns)


def _capture(one: CaptureSummary, warnings: int) -> Iterator[tuple[str, str]]:
    yield "format", clean(one.format)
    yield "packets", f"{one.packets:,} ({count(one.bytes, 'byte')} on the wire)"
    if one.first_ns is not None:
        yield "from", instant(one.first_ns)
        yield "to", f"{instant(one.last_ns)} ({_span(one)})"
    for what, packets in one.accounting.items():
        if packets:
            size = one.accounting_bytes.get(what, 0)
            yield PACKETS.get(what, what), f"{count(packets, 'packet')}, {count(size, 'byte')}"
    if one.snaplen_truncated:
        yield "cut by the snaplen", count(one.snaplen_truncated, "packet")
    if one.damaged:
        yield "damaged", f"the file is cut or broken behind packet {one.packets:,}"
    if warnings:
        yield "warnings", number(warnings)
