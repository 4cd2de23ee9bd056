"""The section of the IKE SAs that replaced another one."""

from collections.abc import Iterator, Mapping
from functools import partial
from operator import itemgetter
from typing import Any, Final

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.core.section import FEW, Columns, Section, tabulate
from ikeanalyze.render.core.table import TableColumn
from ikeanalyze.render.core.values import UNKNOWN, format_identifier, format_key_exchanges
from ikeanalyze.render.report.sections.diagnosis import format_diagnosis, format_evidence, list_diagnoses
from ikeanalyze.render.report.selection import select_rekeyed_ike_sas

_NOTE: Final = "created by rekeying another IKE SA: not handshakes, and not counted above"
_NEEDS_KEYS: Final = "the IKE SA that was replaced can only be found with its keys"


def render_rekeyed_ike_sas(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """Yield the table of rekeyed IKE SAs if there are some."""
    rekeyed = select_rekeyed_ike_sas(analysis).handshakes.sort("handshake")
    if rekeyed.is_empty():
        return
    columns: Columns[dict[str, Any]] = [
        (TableColumn("#", right=True), lambda row: format_identifier(row["handshake"])),
        (TableColumn("replaces", right=True), lambda row: format_identifier(row["replaces"])),
        (TableColumn("SPIi"), itemgetter("spi_i")),
        (TableColumn("initiator", narrow=15, optional=3), itemgetter("initiator_address")),
        (TableColumn("responder", narrow=15, optional=2), itemgetter("responder_address")),
        (
            TableColumn("key exchange", narrow=15, optional=4),
            lambda row: format_key_exchanges(row["key_exchange"], row["additional_key_exchanges"]) or UNKNOWN,
        ),
        *((TableColumn(unit, right=True), partial(_sum_both_directions, unit)) for unit in ("messages", "bytes")),
    ]
    rows = list(cast_text_columns(rekeyed).iter_rows(named=True))
    notes = [_NOTE, *([_NEEDS_KEYS] if rekeyed["replaces"].null_count() else [])]
    found = [(row["handshake"], entry) for row in rows for entry in list_diagnoses(row)]
    notes += [
        f"diagnosis of {number}: {format_diagnosis(entry)} {format_evidence(entry)}"
        for number, entry in (found if every else found[:FEW])
    ]
    yield tabulate("Rekeyed IKE SAs", rows, columns, every=every, notes=notes)


def _sum_both_directions(unit: str, row: Mapping[str, Any]) -> int:
    total: int = row[f"after_setup_initiator_{unit}"] + row[f"after_setup_responder_{unit}"]
    return total
