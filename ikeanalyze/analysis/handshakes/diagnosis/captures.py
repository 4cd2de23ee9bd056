"""Diagnosis of captures: problems that concern no single handshake."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

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
    "Check first that the capture has UDP port 4500, on which IKE_AUTH is usually sent: a capture of port 500 alone looks "
    "the same. Let the responder ask for cookies from fewer half-open IKE SAs on (strongSwan: cookie_threshold), and limit them for "
    "each address (block_threshold). If the initiators are real, look for packets that are lost after IKE_SA_INIT."
)
_MAX_HANDSHAKES: Final = 12
#: The rule about set-ups that continue on a port of which the capture has no message.
_WITHOUT_PORT: Final = "port-4500-missing"


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
            _is_without_port().alias("without_4500"),
            pl.col("responder_init_truncated").fill_null(False).alias("truncated"),
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
            pl.col("without_4500").filter(chosen).any().alias("without_4500"),
            pl.col("truncated").any().alias("truncated"),
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
            message=_describe_flood(row),
            handshakes=tuple(row["first"]),
            remedy=FLOOD_REMEDY,
            rfc=FLOOD_RFC,
        )
        for row in floods.iter_rows(named=True)
    ]


def _is_without_port() -> pl.Expr:
    """Whether the diagnosis of a handshake is that the capture has no message of its next port."""
    codes = pl.col("diagnosis").list.eval(pl.element().struct.field("code"))
    return codes.list.contains(_WITHOUT_PORT).fill_null(False)


def _is_unfinished() -> pl.Expr:
    return pl.col("outcome").is_in(["half-open", "cut"]) & (pl.col("responder_messages") > 0)


def _stops_after_init() -> pl.Expr:
    """Whether a handshake is unfinished, and has no other exchange type than IKE_SA_INIT."""
    phases = pl.col("phases")
    # each exchange type is one phase
    only_init = (phases.list.len() <= 1) & (phases.list.first().struct.field("type") == "IKE_SA_INIT").fill_null(True)
    return _is_unfinished() & only_init


def _describe_flood(row: Mapping[str, Any]) -> str:
    """The sentence about a responder and its half-open handshakes."""
    where = f"{row['addresses']:,} addresses" if row["addresses"] > 1 else "one address"
    cookies = row["cookies"]
    cookie = f"; it asked for a cookie {cookies:,} times" if cookies else "; it never asked for a cookie"
    if row["truncated"]:  # responses may have asked for one behind the cut
        cookie = f"; it asked for a cookie at least {cookies:,} times" if cookies else ""
    explanation = "a flood of half-open IKE SAs"
    if row["without_4500"]:
        explanation = (
            "a capture filter that leaves out UDP port 4500, on which set-ups continue behind a NAT and which no IKE "
            f"message of the capture has, or with {explanation}"
        )
    return (
        f"{row['count']:,} of {row['all']:,} handshakes with {row['responder_address']} stop after IKE_SA_INIT, from "
        f"{where}{cookie}: consistent with {explanation}."
    )
