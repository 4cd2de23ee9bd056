"""Selection of handshakes: one by its id, or the noteworthy ones of many."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import polars as pl
from msgspec import Struct

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.core.values import format_outcome


def get_id_range(analysis: Analysis) -> tuple[int, int] | None:
    """Return the smallest and the largest handshake id; None without handshakes."""
    column = analysis.handshakes["handshake"]
    if column.is_empty():
        return None
    return int(column.min()), int(column.max())  # type: ignore[arg-type]


def describe_unknown_handshake(number: int, first: int, last: int) -> str:
    """An error about the number of a handshake that does not exist; `first`, `last`: the numbers of those that do."""
    numbers = f"they are numbered {first} to {last}" if first < last else f"there is only handshake {first}"
    return f"there is no handshake {number}: {numbers}"


def select_handshake(analysis: Analysis, number: int) -> Analysis:
    """Return the analysis with tables that contain only handshake `number`, and with all captures and warnings.

    Raises `LookupError` with a message for the user if the handshake does not exist.
    """
    chosen = pl.col("handshake") == number
    handshakes = analysis.handshakes.filter(chosen)
    if handshakes.is_empty():
        ids = get_id_range(analysis)
        if ids is None:
            raise LookupError("there is no handshake in what was read")
        raise LookupError(describe_unknown_handshake(number, *ids))
    return replace(
        analysis,
        frames=analysis.frames.filter(chosen),
        messages=analysis.messages.filter(chosen),
        exchanges=analysis.exchanges.filter(chosen),
        handshakes=handshakes,
    )


def get_handshake_row(analysis: Analysis) -> dict[str, Any]:
    """Return the row of the only handshake of `analysis`, with enums as text."""
    return cast_text_columns(analysis.handshakes).row(0, named=True)


def select_set_ups(analysis: Analysis) -> Analysis:
    """Return the analysis with the handshakes alone, without rekeyed IKE SAs; the other tables are the same."""
    if not analysis.handshakes["rekeyed"].any():  # filtering copies the table, which may be large
        return analysis
    return replace(analysis, handshakes=analysis.handshakes.filter(~pl.col("rekeyed")))


def select_rekeyed_ike_sas(analysis: Analysis) -> Analysis:
    """Return the analysis with the rekeyed IKE SAs in place of handshakes; the other tables are the same."""
    return replace(analysis, handshakes=analysis.handshakes.filter("rekeyed"))


def select_detailed(analysis: Analysis) -> Analysis:
    """Return the analysis with the handshakes to show in detail, or with the only IKE SA even if it was rekeyed."""
    return analysis if analysis.handshakes.height == 1 else select_set_ups(analysis)


#: Maximum number of handshakes that are all selected.
ALL: Final = 30
_OUTCOMES: Final = 6  # outcomes of which the first handshake is selected


class SelectedHandshake(Struct, frozen=True):
    """A selected handshake and the reason."""

    handshake: int
    why: str  # empty if all are selected


def select_noteworthy(handshakes: pl.DataFrame, limit: int = ALL) -> list[SelectedHandshake]:
    """Return the selected handshakes in order of id: all if there are at most `limit`."""
    if handshakes.height <= limit:
        return [SelectedHandshake(handshake, "") for handshake in handshakes["handshake"].sort().to_list()]
    reasons: dict[int, list[str]] = {}
    for handshake, why in _find_noteworthy(handshakes):
        reasons.setdefault(handshake, []).append(why)
    return [SelectedHandshake(handshake, ", ".join(reasons[handshake])) for handshake in sorted(reasons)]


def _find_noteworthy(handshakes: pl.DataFrame) -> Iterator[tuple[int, str]]:
    timed = handshakes.filter(pl.col("setup_ns").is_not_null()).sort("setup_ns", "handshake")
    if timed.height:
        for name, rank in (("fastest", 0.0), ("median set-up time", 0.5), ("95 % are faster", 0.95), ("slowest", 1.0)):
            yield timed["handshake"][round(rank * (timed.height - 1))], name
    retransmitted = handshakes.filter(pl.col("retransmitted_messages") > 0)
    if retransmitted.height:
        by_bytes = retransmitted.sort("retransmitted_bytes", "handshake", descending=[True, False])
        yield by_bytes["handshake"][0], "most sent again"
    with_extra = handshakes.filter(pl.col("extra_round_trips").list.len() > 0)
    if with_extra.height:
        yield with_extra["handshake"].min(), "first with an extra round trip"  # type: ignore[misc]
    kinds = (
        handshakes.sort("handshake")
        .group_by(pl.col("outcome").cast(pl.String), "reason", maintain_order=True)
        .agg(pl.col("handshake").first(), pl.len())
        .sort("len", descending=True, maintain_order=True)
        .head(_OUTCOMES)
    )
    for outcome, reason, handshake, _ in kinds.iter_rows():
        yield handshake, f"first {format_outcome(outcome, reason)}"
