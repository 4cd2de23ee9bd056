"""The ESP SAs of a capture: sections for text formats, the JSON object, and the rows of the CSV."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from ikeanalyze.analysis.esp.traffic import WINDOW, EspSa, EspTraffic
from ikeanalyze.model.esp.algorithms import EspCipherSuite
from ikeanalyze.model.esp.packet_size import compute_payload_bounds
from ikeanalyze.render.core.json import select_attributes
from ikeanalyze.render.core.section import Columns, KeyValueSection, Section, TableSection, tabulate
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import (
    Cell,
    format_count,
    format_decimal,
    format_duration,
    format_input_name,
    format_integer,
    format_iso_time,
    format_percentage,
    format_time,
)

if TYPE_CHECKING:
    from ikeanalyze.analysis.esp.decrypt import EspPayloadStats

#: Frames with ESP that are not counted: field and label.
_LEFT: Final = {
    "cut": "cut before the end of the ESP header",
    "lost_fragments": "IP fragments of ESP without the first one, or doubled",
    "in_tcp": "on the TCP ports of IKE, where ESP is not decoded",
}
_SEQUENCE_COUNTS: Final = ("lowest", "highest", "missing", "jumps", "repeated", "late", "out_of_order")


def render_sections(traffic: EspTraffic, suite: EspCipherSuite | None, *, every: bool) -> Iterator[Section]:
    """The capture, its SAs, and the sizes of their packets. `suite`: the algorithms of the SAs, if given."""
    yield KeyValueSection(format_input_name(traffic.path), _render_facts(traffic, suite), level=1)
    if not traffic.sas:
        return
    columns: list[tuple[TableColumn, Callable[[EspSa], Cell]]] = [
        (TableColumn("from", narrow=15), lambda sa: sa.source),
        (TableColumn("to", narrow=15), lambda sa: sa.destination),
        (TableColumn("SPI"), lambda sa: f"{sa.spi:08x}"),
        (TableColumn("in", optional=2), lambda sa: sa.encapsulation),
        (TableColumn("packets", right=True), lambda sa: sa.packets),
        (TableColumn("bytes", right=True), lambda sa: sa.bytes),
        (TableColumn("kbit/s", right=True), _format_mean_rate),
        (TableColumn("peak", right=True, optional=1), lambda sa: _format_peak(sa, traffic.interval_ns)),
    ]
    if suite is not None:
        columns.append((TableColumn("payload, bytes", right=True), lambda sa: _format_payload(sa, suite)))
    notes = [f"bytes of frames; peak: kbit/s of the fastest {format_duration(traffic.interval_ns)}"]
    yield tabulate("SAs", traffic.sas, columns, every=every, notes=notes)
    named = list(zip(name_sas(traffic), traffic.sas, strict=True))
    numbers: Columns[tuple[str, EspSa]] = [
        (TableColumn("SPI"), itemgetter(0)),
        *(
            (TableColumn(name.replace("_", " "), right=True), lambda row, name=name: getattr(row[1], name))
            for name in _SEQUENCE_COUNTS
        ),
    ]
    notes = [f"late: more than {WINDOW:,} below the highest; repeated: a replay, or captured twice"]
    yield tabulate("Sequence numbers", named, numbers, every=every, notes=notes)
    if any(sa.payload_stats is not None for sa in traffic.sas):
        yield _render_payload_table(named, every=every)
    yield _render_size_table(traffic)


def name_sas(traffic: EspTraffic) -> list[str]:
    """Return the name of each SA: its SPI, with the addresses if several SAs have the same SPI."""
    spis = Counter(sa.spi for sa in traffic.sas)
    return [f"{sa.spi:08x}" + (f", {sa.source} to {sa.destination}" if spis[sa.spi] > 1 else "") for sa in traffic.sas]


def _render_payload_table(named: Sequence[tuple[str, EspSa]], *, every: bool) -> TableSection:
    measured = [(name, sa.payload_stats) for name, sa in named if sa.payload_stats is not None]
    columns: Columns[tuple[str, EspPayloadStats]] = [
        (TableColumn("SPI"), lambda row: row[0]),
        (TableColumn("decrypted", right=True), lambda row: row[1].decrypted),
        (TableColumn("undecrypted", right=True), lambda row: row[1].undecrypted),
        (TableColumn("payload", right=True), lambda row: row[1].payload_bytes),
        (TableColumn("mean", right=True), lambda row: _format_mean_payload(row[1])),
        (TableColumn("padding", right=True), lambda row: row[1].padding_bytes),
        (TableColumn("hiding", right=True), lambda row: row[1].hiding_bytes),
        (TableColumn("dummies", right=True), lambda row: row[1].dummies),
    ]
    notes = [
        "packets that could be decrypted, and those that could not; bytes of payload (in tunnel mode inner IP packets), of "
        "padding to whole blocks and of padding that hides sizes; packets without content"
    ]
    return tabulate("Inside", measured, columns, every=every, notes=notes)


def _format_mean_payload(stats: "EspPayloadStats") -> str:
    return format_decimal(stats.payload_bytes / stats.decrypted if stats.decrypted else None, 1)


def _render_facts(traffic: EspTraffic, suite: EspCipherSuite | None) -> list[tuple[str, str]]:
    capture = traffic.capture
    facts = [
        ("packets", f"{format_count(capture.packets, 'packet')}, {format_integer(capture.esp_packets)} of ESP"),
        ("ESP SAs", f"{len(traffic.sas):,}"),
        ("first packet", format_time(capture.first_ns)),
    ]
    if suite is not None:
        facts.append(("assumed suite", f"{suite.name}: payload with maximum to minimum padding"))
    facts.extend(
        ("not counted", f"{format_count(getattr(capture, name), 'frame')} {reason}")
        for name, reason in _LEFT.items()
        if getattr(capture, name)
    )
    if traffic.beyond:
        facts.append(("not counted", f"{format_count(traffic.beyond, 'packet')} of further SAs"))
    return facts


def _format_mean_rate(sa: EspSa) -> str:
    return format_decimal(None if sa.mean_bps is None else sa.mean_bps / 1e3, 1)


def _format_peak(sa: EspSa, interval_ns: int) -> str:
    return format_decimal(max(8e9 * interval.bytes / interval_ns for interval in sa.rate) / 1e3, 1)


def _format_payload(sa: EspSa, suite: EspCipherSuite) -> str:
    minimum, maximum = _get_payload_range(sa, suite)
    return format_integer(maximum) if minimum == maximum else f"{minimum:,} to {maximum:,}"


def _get_payload_range(sa: EspSa, suite: EspCipherSuite) -> tuple[int, int]:
    return compute_payload_bounds(suite, sa.packets - sa.unsized, sa.esp_bytes)


def count_sizes(traffic: EspTraffic) -> Counter[int]:
    """Return the packets of all SAs by upper bound of their size class."""
    return sum((Counter(dict(sa.histogram)) for sa in traffic.sas), Counter())


def _render_size_table(traffic: EspTraffic) -> TableSection:
    sizes = count_sizes(traffic)
    total = sizes.total()
    rows = [
        (f"to {bound:,}", format_integer(sizes[bound]), format_percentage(sizes[bound], total))
        for bound in sorted(sizes)
    ]
    columns = number_columns("bytes", "packets", "share")
    notes = ["of ESP packets, from SPI to ICV; all SAs together"]
    return TableSection("Sizes", columns, rows, notes=notes)


def build_document(traffic: EspTraffic, suite: EspCipherSuite | None) -> dict[str, Any]:
    """Return the JSON object of the measured traffic."""
    capture = traffic.capture
    return {
        "capture": traffic.path,
        **select_attributes(capture, "packets", "bytes"),
        "first_time": format_iso_time(capture.first_ns),
        "last_time": format_iso_time(capture.last_ns),
        "esp_packets": capture.esp_packets,
        "not_counted": {**{name: getattr(capture, name) for name in _LEFT}, "beyond": traffic.beyond},
        "interval_ms": traffic.interval_ns / 1e6,
        "suite": None if suite is None else suite.name,
        "sas": [_build_sa(sa, suite) for sa in traffic.sas],
        "warnings": list(capture.warnings),
    }


def _build_sa(sa: EspSa, suite: EspCipherSuite | None) -> dict[str, Any]:
    return {
        **_build_sa_values(sa, suite),
        "histogram": [{"to_bytes": bound, "packets": packets} for bound, packets in sa.histogram],
        "inside": None if sa.payload_stats is None else _build_payload_stats(sa.payload_stats),
        "rate": [
            {"time": format_iso_time(interval.start_ns), "packets": interval.packets, "bytes": interval.bytes}
            for interval in sa.rate
        ],
    }


def _build_payload_stats(inside: "EspPayloadStats") -> dict[str, Any]:
    return {
        "opened_packets": inside.decrypted,
        "closed_packets": inside.undecrypted,
        **select_attributes(inside, "payload_bytes", "padding_bytes", "hiding_bytes"),
        "dummy_packets": inside.dummies,
        "sizes": [{"bytes": size, "packets": inside.sizes[size]} for size in sorted(inside.sizes)],
        "next_headers": [{"next_header": kind, "packets": inside.protocols[kind]} for kind in sorted(inside.protocols)],
    }


def build_rows(traffic: EspTraffic, suite: EspCipherSuite | None) -> Iterator[dict[str, Any]]:
    """Yield a row for each SA, without its histogram and rate."""
    for sa in traffic.sas:
        yield {"capture": traffic.path, **_build_sa_values(sa, suite)}


def _build_sa_values(sa: EspSa, suite: EspCipherSuite | None) -> dict[str, Any]:
    minimum, maximum = (None, None) if suite is None else _get_payload_range(sa, suite)
    return {
        "source": sa.source,
        "destination": sa.destination,
        "spi": f"{sa.spi:08x}",
        **select_attributes(sa, "encapsulation", "packets", "frames", "bytes", "esp_bytes"),
        "packets_of_unknown_size": sa.unsized,
        "first_time": format_iso_time(sa.first_ns),
        "last_time": format_iso_time(sa.last_ns),
        **select_attributes(sa, "mean_bps", *_SEQUENCE_COUNTS),
        "opened_packets": None if sa.payload_stats is None else sa.payload_stats.decrypted,
        "opened_payload_bytes": None if sa.payload_stats is None else sa.payload_stats.payload_bytes,
        "payload_least_bytes": minimum,
        "payload_most_bytes": maximum,
    }
