"""Sections from decrypted payloads: key exchanges, certificates, and bytes by payload, each only if it has data."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from ikeanalyze.render.core.section import Columns, TableSection, tabulate
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import (
    escape_text,
    format_count,
    format_identifier,
    format_integer,
    format_percentage,
)
from ikeanalyze.render.report import document
from ikeanalyze.wire.ikev2.key_exchange import get_ke_data_sizes

#: Short names of key exchange data.
_SHORT: Final = {"public value": "public", "encapsulation key": "key"}
_PURPOSES: Final = {"rekeying": "IKE SA"}
#: Type and message ID of an exchange that the capture lacks.
_UNKNOWN_EXCHANGE: Final = ("?", None)


def describe_decryption(messages: pl.DataFrame) -> str | None:
    """Return the number of decrypted messages and their epochs; None if none was decrypted."""
    encrypted = messages.filter(pl.col("decrypted").is_not_null())
    opened = encrypted.filter("decrypted")
    if opened.is_empty():
        return None
    text = f"{opened.height:,} of {format_count(encrypted.height, 'encrypted message')}"
    epochs = opened["epoch"].drop_nulls().unique().sort().to_list()
    if len(epochs) > 1:
        text += f", epochs {epochs[0]} to {epochs[-1]}"
    unchecked = int((~opened["verified"]).sum())
    return text + (f", {unchecked:,} of them without an integrity check" if unchecked else "")


def describe_radius_matching(messages: pl.DataFrame) -> str:
    """Return how the RADIUS packets of a handshake were matched to its exchanges; empty without RADIUS packets."""
    methods = messages["matched_by"].drop_nulls()
    if methods.is_empty():
        return ""
    by_eap = int((methods == "EAP").sum())
    if by_eap == len(methods):
        return "packets matched by EAP"
    return f"{by_eap:,} of {len(methods):,} packets matched by EAP" if by_eap else "packets matched by time"


def render_key_exchanges(row: Mapping[str, Any], exchanges: pl.DataFrame) -> Iterator[TableSection]:
    """Yield the tables of key exchanges of a handshake, during and after the set-up."""
    all_rows = row["key_exchanges"] or ()
    facts = exchanges.select("exchange", pl.col("type").cast(pl.String), "message_id")
    names = {exchange: (kind, message_id) for exchange, kind, message_id in facts.iter_rows()}
    columns: Columns[Mapping[str, Any]] = [
        (TableColumn("exchange", narrow=8), lambda row: names.get(row["exchange"], _UNKNOWN_EXCHANGE)[0]),
        (
            TableColumn("ID", right=True),
            lambda row: format_identifier(names.get(row["exchange"], _UNKNOWN_EXCHANGE)[1]),
        ),
        (TableColumn("for", optional=2), lambda row: _PURPOSES.get(row["purpose"], row["purpose"])),
        (TableColumn("slot", right=True, optional=1), lambda row: row["slot"]),
        (TableColumn("method", narrow=10), lambda row: row["method"]),
        (TableColumn("request"), lambda row: _describe_data(row, "request")),
        (TableColumn("response"), lambda row: _describe_data(row, "response")),
    ]
    if in_set_up := [row for row in all_rows if row["purpose"] == "IKE SA"]:
        without_purpose = [(column, cell) for column, cell in columns if column.name != "for"]
        yield tabulate("Key exchanges", in_set_up, without_purpose, notes=list(_list_checks(in_set_up, names)))
    if after := [row for row in all_rows if row["purpose"] != "IKE SA"]:
        yield tabulate("Key exchanges after the set-up", after, columns, notes=list(_list_checks(after, names)))


def _describe_data(key_exchange: Mapping[str, Any], side: str) -> str:
    if key_exchange[side] is None:
        return "none"
    return f"{_SHORT.get(key_exchange[side], key_exchange[side])} {key_exchange[f'{side}_bytes']:,}"


def _list_checks(rows: list[Mapping[str, Any]], names: Mapping[int, tuple[str, int | None]]) -> Iterator[str]:
    """Notes: the unit, the findings, and the checks made."""
    yield "bytes of public values, encapsulation keys and ciphertexts"
    unknown = sorted({row["method"] for row in rows if not get_ke_data_sizes(row["id"], None)})
    for row in rows:
        kind, message_id = names.get(row["exchange"], _UNKNOWN_EXCHANGE)
        for finding in row["findings"]:
            yield f"{escape_text(kind)} {format_identifier(message_id)}: {escape_text(finding)}"
    if len(unknown) < len({row["method"] for row in rows}) and not any(row["findings"] for row in rows):
        yield "checked: method and size, and that the values are possible"
    if unknown:
        yield f"not checked, since their sizes are not known: {', '.join(map(escape_text, unknown))}"


def render_certificates(row: Mapping[str, Any]) -> Iterator[TableSection]:
    """Yield the table of certificates of a handshake with their sizes."""
    columns: Columns[Mapping[str, Any]] = [
        (TableColumn("from"), lambda row: row["side"]),
        (TableColumn("certificate", narrow=11), _get_certificate_name),
        (TableColumn("its key", optional=1), lambda row: row["key"] or None),
        (TableColumn("signed with", optional=2), lambda row: row["signature"] or None),
        (TableColumn("bytes", right=True), lambda row: row["bytes"]),
        (TableColumn("key", right=True), lambda row: row["key_bytes"]),
        (TableColumn("signature", right=True), lambda row: row["signature_bytes"]),
        (TableColumn("rest", right=True), lambda row: row["other_bytes"]),
    ]
    if row["certificates"]:
        yield tabulate("Certificates", row["certificates"], columns)


def _get_certificate_name(row: Mapping[str, Any]) -> str:
    return str(row["name"]).removeprefix("X.509 ").removesuffix(f", {row['key']}")


def render_payload_bytes(handshakes: pl.DataFrame) -> Iterator[TableSection]:
    """Yield the table of the bytes of the set-ups by payload and header."""
    parts = document.sum_payload_bytes(handshakes)
    if not parts:
        return
    total = sum(part["bytes"] for part in parts)
    rows = [
        (escape_text(part["payload"]), format_integer(part["bytes"]), format_percentage(part["bytes"], total))
        for part in parts
    ]
    rows.append(("total", format_integer(total), format_percentage(total, total)))
    decrypted = int(handshakes["payload_bytes"].is_not_null().sum())
    notes = [f"of the {decrypted:,} handshakes that were decrypted"] if decrypted < handshakes.height else []
    columns = (TableColumn("payload", narrow=12), *number_columns("bytes", "share"))
    yield TableSection("Bytes by payload", columns, rows, sums=True, notes=notes)
