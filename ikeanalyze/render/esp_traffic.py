"""ESP as a capture has it: its SAs for people and for programs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ikeanalyze.analysis.esp_traffic import WINDOW, EspSa, EspTraffic
from ikeanalyze.model.esp_algorithms import Suite
from ikeanalyze.model.esp_overhead import payload_bounds
from ikeanalyze.render.section import FEW, Facts, Section, Table
from ikeanalyze.render.table import Column, number_columns
from ikeanalyze.render.values import UNKNOWN, count, input_name, instant, iso, number, share, span

if TYPE_CHECKING:
    from ikeanalyze.analysis.esp_inside import Insides

#: What the capture has besides ESP packets that are counted, and what it is called.
_LEFT: Final = {
    "cut": "cut before the end of the ESP header",
    "lost_fragments": "IP fragments of ESP without the first one, or doubled",
    "in_tcp": "on TCP port 4500, in which ESP is not looked for",
}


def sections(traffic: EspTraffic, suite: Suite | None, *, every: bool) -> Iterator[Section]:
    """The capture, its SAs, and how large their packets are. `suite`: what protects them, where that is said."""
    yield Facts(input_name(traffic.path), _facts(traffic, suite), level=1)
    if not traffic.sas:
        return
    shown = traffic.sas if every else traffic.sas[:FEW]
    more = len(traffic.sas) - len(shown)
    columns = [
        Column("from", narrow=15),
        Column("to", narrow=15),
        Column("SPI"),
        Column("in", optional=2),
        *number_columns("packets", "bytes", "kbit/s"),
        Column("peak", right=True, optional=1),
    ]
    if suite is not None:
        columns.append(Column("payload, bytes", right=True))
    rows = [_row(sa, traffic.interval_ns, suite) for sa in shown]
    notes = [f"bytes of frames; peak: kbit/s of the fastest {span(traffic.interval_ns)}"]
    yield Table("SAs", columns, rows, more=more, notes=notes)
    numbers = ("lowest", "highest", "missing", "jumps", "repeated", "late", "out of order")
    named = names(traffic)
    counts = [
        (named[i], *(number(getattr(sa, name.replace(" ", "_"))) for name in numbers)) for i, sa in enumerate(shown)
    ]
    notes = [f"late: more than {WINDOW:,} behind the highest; repeated: a replay, or captured twice"]
    sequence = (Column("SPI"), *number_columns(*numbers))
    yield Table("Sequence numbers", sequence, counts, more=more, notes=notes)
    if any(sa.inside is not None for sa in traffic.sas):
        yield _insides(shown, named, more)
    yield _sizes(traffic)


def names(traffic: EspTraffic) -> list[str]:
    """What to call each SA: its SPI, with the addresses where another one has the same."""
    spis = Counter(sa.spi for sa in traffic.sas)
    return [f"{sa.spi:08x}" + (f", {sa.source} to {sa.destination}" if spis[sa.spi] > 1 else "") for sa in traffic.sas]


def _insides(shown: Sequence[EspSa], named: Sequence[str], more: int) -> Table:
    heads = ("opened", "closed", "payload", "mean", "padding", "hiding", "dummies")
    rows = []
    for name, sa in zip(named, shown, strict=False):
        if (one := sa.inside) is not None:
            mean = f"{one.payload_bytes / one.opened:,.1f}" if one.opened else UNKNOWN
            packets = (number(one.opened), number(one.closed))
            added = (number(one.padding_bytes), number(one.hiding_bytes), number(one.dummies))
            rows.append((name, *packets, number(one.payload_bytes), mean, *added))
    notes = [
        "packets that keys open, and those that they do not; bytes of payload (in tunnel mode inner IP packets), of padding to "
        "whole blocks and of padding that hides sizes; packets without content"
    ]
    columns = (Column("SPI"), *number_columns(*heads))
    return Table("Inside", columns, rows, more=more, notes=notes)


def _facts(traffic: EspTraffic, suite: Suite | None) -> list[tuple[str, str]]:
    capture = traffic.capture
    facts = [
        ("packets", f"{count(capture.packets, 'packet')}, {number(capture.esp_packets)} of ESP"),
        ("ESP SAs", f"{len(traffic.sas):,}"),
        ("first packet", instant(capture.first_ns)),
    ]
    if suite is not None:
        facts.append(("taken to be", f"{suite.name}: payload from the most to the least padding"))
    facts.extend(
        ("not counted", f"{count(getattr(capture, name), 'frame')} {what}")
        for name, what in _LEFT.items()
        if getattr(capture, name)
    )
    if traffic.beyond:
        facts.append(("not counted", f"{count(traffic.beyond, 'packet')} of further SAs"))
    return facts


def _row(sa: EspSa, interval_ns: int, suite: Suite | None) -> list[str]:
    row = [sa.source, sa.destination, f"{sa.spi:08x}", sa.encapsulation, number(sa.packets), number(sa.bytes)]
    row.append(UNKNOWN if sa.mean_bps is None else f"{sa.mean_bps / 1e3:,.1f}")
    row.append(f"{_peak_bps(sa, interval_ns) / 1e3:,.1f}")
    if suite is not None:
        least, most = _payload(sa, suite)
        row.append(number(most) if least == most else f"{least:,} to {most:,}")
    return row


def _payload(sa: EspSa, suite: Suite) -> tuple[int, int]:
    return payload_bounds(suite, sa.packets - sa.unsized, sa.esp_bytes)


def _peak_bps(sa: EspSa, interval_ns: int) -> float:
    return max(8e9 * one.bytes / interval_ns for one in sa.rate)


def _sizes(traffic: EspTraffic) -> Table:
    sizes: Counter[int] = Counter()
    for sa in traffic.sas:
        sizes.update(dict(sa.histogram))
    total = sizes.total()
    rows = [(f"to {bound:,}", number(sizes[bound]), share(sizes[bound], total)) for bound in sorted(sizes)]
    columns = number_columns("bytes", "packets", "share")
    notes = ["of ESP packets, from SPI to ICV; all SAs together"]
    return Table("Sizes", columns, rows, notes=notes)


def document(traffic: EspTraffic, suite: Suite | None) -> dict[str, Any]:
    """What was measured, for the JSON document."""
    capture = traffic.capture
    return {
        "capture": traffic.path,
        "packets": capture.packets,
        "bytes": capture.bytes,
        "first_time": iso(capture.first_ns),
        "last_time": iso(capture.last_ns),
        "esp_packets": capture.esp_packets,
        "not_counted": {**{name: getattr(capture, name) for name in _LEFT}, "beyond": traffic.beyond},
        "interval_ms": traffic.interval_ns / 1e6,
        "suite": None if suite is None else suite.name,
        "sas": [_document(sa, suite) for sa in traffic.sas],
        "warnings": list(capture.warnings),
    }


def _document(sa: EspSa, suite: Suite | None) -> dict[str, Any]:
    return {
        **_values(sa, suite),
        "histogram": [{"to_bytes": bound, "packets": packets} for bound, packets in sa.histogram],
        "inside": None if sa.inside is None else _inside(sa.inside),
        "rate": [{"time": iso(one.start_ns), "packets": one.packets, "bytes": one.bytes} for one in sa.rate],
    }


def _inside(inside: "Insides") -> dict[str, Any]:
    return {
        "opened_packets": inside.opened,
        "closed_packets": inside.closed,
        "payload_bytes": inside.payload_bytes,
        "padding_bytes": inside.padding_bytes,
        "hiding_bytes": inside.hiding_bytes,
        "dummy_packets": inside.dummies,
        "sizes": [{"bytes": size, "packets": inside.sizes[size]} for size in sorted(inside.sizes)],
        "next_headers": [{"next_header": kind, "packets": inside.protocols[kind]} for kind in sorted(inside.protocols)],
    }


def flat(traffic: EspTraffic, suite: Suite | None) -> Iterator[dict[str, Any]]:
    """A row for each SA, without its histogram and rate."""
    for sa in traffic.sas:
        yield {"capture": traffic.path, **_values(sa, suite)}


def _values(sa: EspSa, suite: Suite | None) -> dict[str, Any]:
    least, most = (None, None) if suite is None else _payload(sa, suite)
    return {
        "source": sa.source,
        "destination": sa.destination,
        "spi": f"{sa.spi:08x}",
        "encapsulation": sa.encapsulation,
        "packets": sa.packets,
        "frames": sa.frames,
        "bytes": sa.bytes,
        "esp_bytes": sa.esp_bytes,
        "packets_of_unknown_size": sa.unsized,
        "first_time": iso(sa.first_ns),
        "last_time": iso(sa.last_ns),
        "mean_bps": sa.mean_bps,
        "lowest": sa.lowest,
        "highest": sa.highest,
        "missing": sa.missing,
        "jumps": sa.jumps,
        "repeated": sa.repeated,
        "late": sa.late,
        "out_of_order": sa.out_of_order,
        "opened_packets": None if sa.inside is None else sa.inside.opened,
        "opened_payload_bytes": None if sa.inside is None else sa.inside.payload_bytes,
        "payload_least_bytes": least,
        "payload_most_bytes": most,
    }
