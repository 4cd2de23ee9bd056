"""The section of the IKE SAs that replaced another one."""

from collections.abc import Iterator
from typing import Final

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.core.section import Section, make_table
from ikeanalyze.render.core.table import TableColumn
from ikeanalyze.render.core.values import UNKNOWN, escape_text, format_integer, format_key_exchanges
from ikeanalyze.render.report.selection import select_rekeyed_ike_sas

_NOTE: Final = "created by rekeying another IKE SA: not handshakes, and not counted above"
_NEEDS_KEYS: Final = "the IKE SA that was replaced can only be found with its keys"


def render_rekeyed_ike_sas(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """Yield the table of rekeyed IKE SAs if there are some."""
    rekeyed = select_rekeyed_ike_sas(analysis).handshakes.sort("handshake")
    if rekeyed.is_empty():
        return
    columns = (
        TableColumn("#", right=True),
        TableColumn("replaces", right=True),
        TableColumn("SPIi"),
        TableColumn("initiator", narrow=15, optional=3),
        TableColumn("responder", narrow=15, optional=2),
        TableColumn("key exchange", narrow=15, optional=4),
        TableColumn("messages", right=True),
        TableColumn("bytes", right=True),
    )
    rows = [
        (
            format_integer(row["handshake"]),
            format_integer(row["replaces"]),
            row["spi_i"],
            escape_text(row["initiator_address"] or UNKNOWN),
            escape_text(row["responder_address"] or UNKNOWN),
            format_key_exchanges(row["key_exchange"], row["additional_key_exchanges"]) or UNKNOWN,
            format_integer(row["after_setup_initiator_messages"] + row["after_setup_responder_messages"]),
            format_integer(row["after_setup_initiator_bytes"] + row["after_setup_responder_bytes"]),
        )
        for row in rekeyed.with_columns(*cast_text_columns(rekeyed)).iter_rows(named=True)
    ]
    notes = [_NOTE, *([_NEEDS_KEYS] if rekeyed["replaces"].null_count() else [])]
    yield make_table("Rekeyed IKE SAs", columns, rows, every=every, notes=notes)
