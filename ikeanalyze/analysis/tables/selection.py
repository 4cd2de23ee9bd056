"""Which handshakes of captures are wanted: those that match a filter and begin in a period.

A selection is made before captures are read, so that a command can refuse it early; `select_handshakes` applies it to
the tables of the analysis. Handshakes are selected, not packets: each one that remains is whole, and has the id and the
numbers that it has without selection.
"""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ikeanalyze.analysis.result import Analysis, AppliedSelection, CaptureSummary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from ikeanalyze.analysis.tables.filter_language import HandshakeFilter


_SECONDS: Final = re.compile(r"\d+\.?\d*|\.\d+")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CaptureTime(Struct, frozen=True):
    """A point in time: absolute, or since the first packet of a capture."""

    text: str  # as it was given
    ns: int  # since 1970-01-01 UTC, or since the first packet
    relative: bool


class HandshakeSelection(Struct, frozen=True):
    """The handshakes that are wanted; without values all of them."""

    words: "HandshakeFilter | None" = None
    begin: CaptureTime | None = None  # handshakes that begin then or later
    end: CaptureTime | None = None  # handshakes that begin earlier

    def __bool__(self) -> bool:
        """Whether handshakes may be left out."""
        return self != EVERY_HANDSHAKE

    def to_dict(self) -> dict[str, str]:
        """Return the texts of the options that are given, by their names."""
        options = {"filter": self.words, "from": self.begin, "to": self.end}
        return {name: value.text for name, value in options.items() if value is not None}


EVERY_HANDSHAKE: Final = HandshakeSelection()


def parse_capture_time(text: str) -> CaptureTime:
    """Parse seconds since the start of a capture ("12.5") or a time in ISO 8601, in UTC unless it has an offset.

    Raises:
        ValueError: it is neither; the message is for the user.
    """
    if _SECONDS.fullmatch(text):
        return CaptureTime(text, round(float(text) * 1e9), relative=True)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: seconds from the start of the capture, such as 12.5, or 2026-01-31T12:00:00 (UTC)"
        ) from None
    since = (time if time.tzinfo is not None else time.replace(tzinfo=UTC)) - _EPOCH
    return CaptureTime(text, since // timedelta(microseconds=1) * 1000, relative=False)


def select_handshakes(analysis: Analysis, selection: HandshakeSelection) -> Analysis:
    """Return the analysis with tables of only the selected handshakes, and with all captures and warnings."""
    if not selection:
        return analysis
    keys = find_selected(analysis.handshakes, analysis.captures, selection)

    def keep(table: "pl.DataFrame") -> "pl.DataFrame":
        return keep_selected(table.lazy(), keys).collect()

    handshakes = keep(analysis.handshakes)
    selected, total = (int((~table["rekeyed"]).sum()) for table in (handshakes, analysis.handshakes))
    return replace(
        analysis,
        selection=AppliedSelection(selection.to_dict(), selected, total),
        frames=keep(analysis.frames),
        messages=keep(analysis.messages),
        exchanges=keep(analysis.exchanges),
        handshakes=handshakes,
    )


def find_selected(
    handshakes: "pl.DataFrame", captures: "Sequence[CaptureSummary]", selection: HandshakeSelection
) -> "pl.DataFrame":
    """Return the keys `capture` and `handshake` of the selected rows of the table of handshakes."""
    # imported here because it loads polars, after which the capture reader cannot fork
    from ikeanalyze.analysis.tables.search_table import build_filter_expression, build_search_table

    starts = {summary.path: summary.first_ns for summary in captures}
    conditions = [build_filter_expression(selection.words)] if selection.words is not None else []
    if selection.begin is not None:
        conditions.append(_measure_from(selection.begin, starts) >= 0)
    if selection.end is not None:
        conditions.append(_measure_from(selection.end, starts) < 0)
    table = build_search_table(handshakes).with_row_index("row").filter(*conditions)
    return handshakes.select("capture", "handshake")[table["row"]]


def keep_selected(table: "pl.LazyFrame", keys: "pl.DataFrame") -> "pl.LazyFrame":
    """Return the rows of one of the four tables that belong to selected handshakes, in their order."""
    return table.join(keys.lazy(), on=["capture", "handshake"], how="semi", maintain_order="left")


def _measure_from(time: CaptureTime, starts: "Mapping[str, int | None]") -> "pl.Expr":
    """Return the nanoseconds from a time to the start of each handshake in the search table; null if unknown."""
    import polars as pl

    since = pl.col("time") - time.ns
    if not time.relative:
        return since
    return since - pl.col("capture").replace_strict(starts, default=None, return_dtype=pl.Int64)
