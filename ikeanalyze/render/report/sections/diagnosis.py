"""The diagnosis of handshakes, in text."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.handshakes.diagnosis.captures import diagnose_captures
from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.core.section import FEW, TableSection
from ikeanalyze.render.core.table import TableColumn
from ikeanalyze.render.core.values import UNKNOWN, escape_text, format_identifier, format_integer

#: Packets that are listed as evidence.
_MAX_FRAMES: Final = 8


def list_diagnoses(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the diagnoses of a row of the handshakes table, the most important first."""
    return list(row["diagnosis"] or ())


def render_diagnosis(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a handshake, the evidence, and what to try, for each diagnosis."""
    effects: list[str] = []
    for entry in list_diagnoses(row):
        # several of one effect are explanations of the same packets
        name = "or" if entry["effect"] in effects else "besides" if effects else "diagnosis"
        effects.append(entry["effect"])
        yield name, format_diagnosis(entry)
        yield "  evidence", format_evidence(entry)
        yield "  try", escape_text(entry["remedy"])
        yield "  see", f"{escape_text(entry['rfc'])}; docs/diagnosis.md, {entry['code']}"


def format_diagnosis(entry: Mapping[str, Any]) -> str:
    """Return the sentence and the code of a diagnosis."""
    return f"{escape_text(entry['message'])} ({entry['code']})"


def format_evidence(entry: Mapping[str, Any]) -> str:
    """Return the message that a diagnosis concerns, its packets, and how sure the diagnosis is."""
    frames = entry["frames"]
    listed = ", ".join(map(format_identifier, frames[:_MAX_FRAMES])) + (", ..." if len(frames) > _MAX_FRAMES else "")
    packets = f", packet{'s' if len(frames) > 1 else ''} {listed}" if frames else ""
    message = f"{escape_text(entry['exchange'])} {entry['message_id']} {entry['kind']} of the {entry['sender']}"
    sure = "certain" if entry["confidence"] == "certain" else "consistent with this, not proved"
    return f"{message}{packets}: {sure}"


def render_capture_diagnosis(handshakes: pl.DataFrame, capture: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a capture as a whole, and what to try."""
    for entry in diagnose_captures(handshakes):
        if entry.capture == capture:
            yield "diagnosis", f"{escape_text(entry.message)} ({entry.code})"
            yield "  try", entry.remedy
            yield "  see", f"{entry.rfc}; docs/diagnosis.md, {entry.code}"


def render_diagnosis_table(handshakes: pl.DataFrame, *, every: bool) -> Iterator[TableSection]:
    """Yield a table with a row for each code, if there are some: how many handshakes have it, and the first one.

    Problems of captures come first.
    """
    diagnosed = handshakes.filter(pl.col("diagnosis").is_not_null()).sort("handshake").select("handshake", "diagnosis")
    # the first diagnosis of each handshake: the others explain the same in another way, or are less important
    rows = (
        cast_text_columns(diagnosed)
        .select("handshake", pl.col("diagnosis").list.first())
        .unnest("diagnosis")
        .group_by("code", maintain_order=True)
        .agg(pl.len(), pl.col("handshake", "message").first())
        .sort("len", descending=True, maintain_order=True)
    )
    shown = rows if every else rows.head(FEW)
    columns = (
        TableColumn("diagnosis"),
        TableColumn("handshakes", right=True),
        TableColumn("first", right=True),
        TableColumn("of the first", narrow=20),
    )
    of_captures = [
        (entry.code, UNKNOWN, format_identifier(entry.handshakes[0]), escape_text(entry.message))
        for entry in diagnose_captures(handshakes)
    ]
    cells = [
        (code, format_integer(count), format_identifier(first), escape_text(message))
        for code, count, first, message in shown.iter_rows()
    ]
    if cells or of_captures:
        yield TableSection("Diagnosis", columns, [*of_captures, *cells], more=rows.height - shown.height)
