"""Diagnosis of captures: problems that concern no single handshake."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from ikeanalyze.analysis.handshakes.diagnosis.rule import Confidence

#: Half-open IKE SAs of one responder within `_FLOOD_NS` that are a flood.
_FLOOD: Final = 20
_FLOOD_NS: Final = 60_000_000_000


@dataclass(frozen=True, slots=True)
class CaptureDiagnosis:
    """One problem of a capture."""

    capture: str  # as in the tables
    code: str
    confidence: "Confidence"
    message: str  # one sentence
    handshakes: tuple[int, ...]  # ids of the first ones that are the evidence
    remedy: str
    rfc: str


#: The code, the RFC and the remedy of the only rule.
FLOOD_CODE: Final = "half-open-flood"
FLOOD_RFC: Final = "RFC 7296, 2.6; RFC 8019, 3 and 4"
FLOOD_REMEDY: Final = (
    "Let the responder ask for cookies from fewer half-open IKE SAs on (strongSwan: cookie_threshold), and limit them for "
    "each address (block_threshold). If the initiators are real, look for packets that are lost after IKE_SA_INIT."
)
_MAX_HANDSHAKES: Final = 12


def diagnose_captures(handshakes: pl.DataFrame) -> list[CaptureDiagnosis]:
    """The diagnoses of captures; `handshakes` is the handshakes table."""
    # most captures have too few for a flood
    if handshakes.select(_is_unfinished().sum()).item() < _FLOOD:
        return []
    from ikeanalyze.analysis.handshakes.diagnosis.rule import Confidence  # few captures have a diagnosis

    table = (
        handshakes.lazy()
        .select(
            "capture",
            "handshake",
            "initiator_address",
            "responder_address",
            "start_ns",
            "rekeyed",
            _stops_after_init().alias("stopped"),
            (
                pl.col("extra_round_trips").list.contains("COOKIE") | (pl.col("reason") == "COOKIE").fill_null(False)
            ).alias("cookie"),
        )
        .filter(~pl.col("rekeyed"))
    )
    # from the start of a handshake to the start of the last one of a flood that would begin with it
    chosen = pl.col("stopped")
    starts = pl.col("start_ns").filter(chosen).sort()
    floods = (
        table.group_by("capture", "responder_address", maintain_order=True)
        .agg(
            pl.len().alias("all"),
            chosen.sum().alias("count"),
            pl.col("cookie").sum().alias("cookies"),
            pl.col("initiator_address").filter(chosen).n_unique().alias("addresses"),
            (starts.shift(1 - _FLOOD) - starts).min().alias("shortest"),
            pl.col("handshake").filter(chosen).head(_MAX_HANDSHAKES).alias("first"),
        )
        .filter((pl.col("shortest") <= _FLOOD_NS) & (pl.col("count") * 2 > pl.col("all")))
        .with_columns(pl.col("capture").cast(pl.String))
        .collect()
    )
    return [
        CaptureDiagnosis(
            capture=row["capture"],
            code=FLOOD_CODE,
            confidence=Confidence.CONSISTENT,
            message=_describe_flood(
                row["count"], row["all"], row["responder_address"], row["addresses"], row["cookies"]
            ),
            handshakes=tuple(row["first"]),
            remedy=FLOOD_REMEDY,
            rfc=FLOOD_RFC,
        )
        for row in floods.iter_rows(named=True)
    ]


def _is_unfinished() -> pl.Expr:
    return pl.col("outcome").is_in(["half-open", "cut"]) & (pl.col("responder_messages") > 0)


def _stops_after_init() -> pl.Expr:
    """Whether a handshake is unfinished, and has no other exchange type than IKE_SA_INIT."""
    phases = pl.col("phases")
    # each exchange type is one phase
    only_init = (phases.list.len() <= 1) & (phases.list.first().struct.field("type") == "IKE_SA_INIT").fill_null(True)
    return _is_unfinished() & only_init


def _describe_flood(count: int, total: int, responder: str, addresses: int, cookies: int) -> str:
    where = f"{addresses:,} addresses" if addresses > 1 else "one address"
    cookie = f"; it asked for a cookie {cookies:,} times" if cookies else "; it never asked for a cookie"
    return (
        f"{count:,} of {total:,} handshakes with {responder} stop after IKE_SA_INIT, from {where}{cookie}: consistent with "
        "a flood of half-open IKE SAs."
    )
