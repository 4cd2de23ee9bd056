"""A table in the terminal to which a row is added for each handshake that has ended, and its diagnosis."""

from textwrap import wrap
from typing import Final, TextIO

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.core.table import TableColumn, fit_columns, format_lines
from ikeanalyze.render.core.terminal import OUTCOME_STYLES, TextStyler
from ikeanalyze.render.core.values import (
    UNKNOWN,
    escape_text,
    format_identifier,
    format_integer,
    format_iso_time,
    format_key_exchanges,
    format_ms,
    format_outcome,
)
from ikeanalyze.render.report.sections.diagnosis import format_diagnosis, list_diagnoses

_COLUMNS: Final = (
    TableColumn("start, UTC"),
    TableColumn("#", right=True, optional=4),
    TableColumn("initiator", narrow=15, middle=True),
    TableColumn("responder", narrow=15, middle=True, optional=2),
    TableColumn("key exchange", narrow=12, optional=3),
    TableColumn("set-up, ms", right=True),
    TableColumn("messages", right=True, optional=6),
    TableColumn("bytes", right=True, optional=5),
    TableColumn("rtx", right=True, optional=1),
    TableColumn("outcome", narrow=20),
)
#: The widths of the columns are those of this row, because later rows are not known.
_USUAL: Final = (
    *("12:00:00.000", "1000000", "2001:db8:100:200::1000", "2001:db8:100:200::1000"),
    *("curve25519 + ml-kem-768", "100,000.000", "100", "100,000", "10", "failed: NO_PROPOSAL_CHOSEN"),
)


class LiveTable:
    """Writes the heading, and then rows."""

    def __init__(self, out: TextIO, width: int | None = None) -> None:
        """`width` in columns; None: as wide as the terminal, or 120."""
        self._out = out
        self._paint = TextStyler(out, width if width is not None or out.isatty() else 120)
        self._fitted = fit_columns(_COLUMNS, [_USUAL], self._paint.width)
        self._write(next(format_lines(_COLUMNS, [], self._fitted)), "dim")

    def add(self, analysis: Analysis) -> None:
        """Write the rows of handshakes."""
        texts = cast_text_columns(analysis.handshakes).to_dicts()
        rows = [
            (
                (format_iso_time(row["start_ns"]) or UNKNOWN)[11:23],
                format_identifier(row["handshake"]),
                *(escape_text(row[f"{side}_address"] or UNKNOWN) for side in ("initiator", "responder")),
                format_key_exchanges(row["key_exchange"], row["additional_key_exchanges"]) or UNKNOWN,
                format_ms(row["setup_ns"], uncertain=row["uncertain"] is not None),
                format_integer(row["initiator_messages"] + row["responder_messages"]),
                format_integer(row["initiator_bytes"] + row["responder_bytes"]),
                format_integer(row["retransmitted_messages"]),
                format_outcome(row["outcome"], row["reason"], row["child_error"]),
            )
            for row in texts
        ]
        lines = format_lines(_COLUMNS, rows, self._fitted)
        next(lines)  # the heading
        for line, row in zip(lines, texts, strict=True):
            self._write(line, OUTCOME_STYLES.get(row["outcome"] or "", ""))
            for diagnosis in list_diagnoses(row)[:1]:
                for part in wrap(format_diagnosis(diagnosis), self._paint.width - 2, break_on_hyphens=False):
                    self._write(f"  {part}", "dim")

    def _write(self, line: str, style: str) -> None:
        text = line if self._paint.unicode else line.replace("…", "~")
        self._out.write(self._paint(text, style) + "\n")
