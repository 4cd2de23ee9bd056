"""One handshake out of an analysis."""

from dataclasses import replace

import polars as pl

from ikeanalyze.analysis.result import Analysis


def get_id_range(analysis: Analysis) -> tuple[int, int] | None:
    """The smallest and the largest handshake id; None: there is no handshake."""
    column = analysis.handshakes["handshake"]
    if column.is_empty():
        return None
    return int(column.min()), int(column.max())  # type: ignore[arg-type]


def select_handshake(analysis: Analysis, number: int) -> Analysis:
    """The analysis with nothing in its tables but handshake `number`; captures and warnings stay.

    Raises `LookupError`, with a line for the user, if there is no such handshake.
    """
    chosen = pl.col("handshake") == number
    handshakes = analysis.handshakes.filter(chosen)
    if handshakes.is_empty():
        known = get_id_range(analysis)
        if known is None:
            raise LookupError("there is no handshake in what was read")
        raise LookupError(f"there is no handshake {number}: they are numbered {known[0]} to {known[1]}")
    return replace(
        analysis,
        frames=analysis.frames.filter(chosen),
        messages=analysis.messages.filter(chosen),
        exchanges=analysis.exchanges.filter(chosen),
        handshakes=handshakes,
    )
