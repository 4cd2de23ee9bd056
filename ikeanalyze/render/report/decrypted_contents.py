"""Sections from decrypted payloads: key exchanges, certificates, and bytes by payload, each only if it has data."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from ikeanalyze.render.core.section import TableSection
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import escape_text, format_count, format_integer, format_percentage
from ikeanalyze.render.report import document
from ikeanalyze.wire.ikev2.key_exchange import get_ke_data_sizes

#: Short names of key exchange data.
_SHORT: Final = {"public value": "public", "encapsulation key": "key"}
_PURPOSES: Final = {"rekeying": "IKE SA"}


def describe_decryption(messages: pl.DataFrame) -> str | None:
    """Return the number of decrypted messages and their epochs; None if none was decrypted."""
    sealed = messages.filter(pl.col("decrypted").is_not_null())
    opened = sealed.filter("decrypted")
    if opened.is_empty():
        return None
    text = f"{opened.height:,} of {format_count(sealed.height, 'encrypted message')}"
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
    names = {
        number: (kind, message_id)
        for number, kind, message_id in exchanges.select(
            "exchange", pl.col("type").cast(pl.String), "message_id"
        ).iter_rows()
    }
    for title, rows in (
        ("Key exchanges", [key_exchange for key_exchange in all_rows if key_exchange["purpose"] == "IKE SA"]),
        (
            "Key exchanges after the set-up",
            [key_exchange for key_exchange in all_rows if key_exchange["purpose"] != "IKE SA"],
        ),
    ):
        if not rows:
            continue
        columns = [
            TableColumn("exchange", narrow=8),
            TableColumn("ID", right=True),
            TableColumn("for", optional=2),
            TableColumn("slot", right=True, optional=1),
            TableColumn("method", narrow=10),
            TableColumn("request"),
            TableColumn("response"),
        ]
        if rows[0]["purpose"] == "IKE SA":
            columns = [column for column in columns if column.name != "for"]
        table = []
        for key_exchange in rows:
            kind, message_id = names.get(key_exchange["exchange"], ("?", None))
            cells = {
                "exchange": escape_text(kind),
                "ID": format_integer(message_id),
                "for": _PURPOSES.get(key_exchange["purpose"], key_exchange["purpose"]),
                "slot": format_integer(key_exchange["slot"]),
                "method": escape_text(key_exchange["method"]),
                "request": _data(key_exchange, "request"),
                "response": _data(key_exchange, "response"),
            }
            table.append(tuple(cells[column.name] for column in columns))
        yield TableSection(title, columns, table, notes=list(_checks(rows, names)))


def _data(key_exchange: Mapping[str, Any], side: str) -> str:
    if key_exchange[side] is None:
        return "none"
    return f"{_SHORT.get(key_exchange[side], key_exchange[side])} {key_exchange[f'{side}_bytes']:,}"


def _checks(rows: list[Mapping[str, Any]], names: Mapping[int, tuple[str, int | None]]) -> Iterator[str]:
    """Notes: the unit, the findings, and the checks made."""
    yield "bytes of public values, encapsulation keys and ciphertexts"
    unknown = sorted(
        {key_exchange["method"] for key_exchange in rows if not get_ke_data_sizes(key_exchange["id"], None)}
    )
    for key_exchange in rows:
        kind, message_id = names.get(key_exchange["exchange"], ("?", None))
        for finding in key_exchange["findings"]:
            yield f"{escape_text(kind)} {format_integer(message_id)}: {escape_text(finding)}"
    if len(unknown) < len({key_exchange["method"] for key_exchange in rows}) and not any(
        key_exchange["findings"] for key_exchange in rows
    ):
        yield "checked: method and size, and that the values are possible"
    if unknown:
        yield f"not checked, since their sizes are not known: {', '.join(map(escape_text, unknown))}"


def render_certificates(row: Mapping[str, Any]) -> Iterator[TableSection]:
    """Yield the table of certificates of a handshake with their sizes."""
    rows = [
        (
            certificate["side"],
            escape_text(certificate["name"].removeprefix("X.509 ").removesuffix(f", {certificate['key']}")),
            escape_text(certificate["key"] or "-"),
            escape_text(certificate["signature"] or "-"),
            *(format_integer(certificate[name]) for name in ("bytes", "key_bytes", "signature_bytes", "other_bytes")),
        )
        for certificate in row["certificates"] or ()
    ]
    if not rows:
        return
    columns = (
        TableColumn("from"),
        TableColumn("certificate", narrow=11),
        TableColumn("its key", optional=1),
        TableColumn("signed with", optional=2),
        *number_columns("bytes", "key", "signature", "rest"),
    )
    yield TableSection("Certificates", columns, rows)


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
