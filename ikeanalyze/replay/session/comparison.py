"""Compares a recorded handshake with a live one, both as the report measures them.

Bytes are those of IKE messages without headers, since the captures may have different link types.
"""

from typing import Any

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.replay.session.result import ComparedExchange, ExchangeCost, ReplayComparison

_Key = tuple[str, int, int]


def compare_handshakes(
    recorded: Analysis, handshake: int, live: Analysis, spi_i: bytes, run: int
) -> ReplayComparison | None:
    """Compare a recorded handshake with the live one that has our SPIi; None if the live capture lacks it."""
    live_row = find_handshake(live, spi_i)
    if live_row is None:
        return None
    recorded_row = recorded.handshakes.filter(handshake=handshake).row(0, named=True)
    recorded_costs = get_setup_exchanges(recorded, handshake)
    live_costs = get_setup_exchanges(live, live_row["handshake"])
    keys = [*recorded_costs, *(key for key in live_costs if key not in recorded_costs)]
    rows = tuple(
        ComparedExchange(*key, recorded_costs.get(key), live_costs.get(key))
        for key in sorted(keys, key=lambda key: key[1:])
    )
    return ReplayComparison(
        run,
        rows,
        (_sum_costs(recorded_row, recorded_costs), _sum_costs(live_row, live_costs)),
        (_format_outcome(recorded_row), _format_outcome(live_row)),
        (_format_proposal(recorded_row), _format_proposal(live_row)),
        (recorded_row["blowup"], live_row["blowup"]),
    )


def find_handshake(analysis: Analysis, spi_i: bytes) -> dict[str, Any] | None:
    """Return the row of the handshake with this SPIi, or None."""
    rows = analysis.handshakes.filter(spi_i=spi_i.hex())
    return rows.row(0, named=True) if rows.height else None


def get_setup_exchanges(analysis: Analysis, handshake: int) -> dict[_Key, ExchangeCost]:
    """Return the exchanges that set up the IKE SA, by type, message ID and attempt."""
    # late: polars must not be loaded before the reader process forks
    import polars as pl

    sizes = (
        analysis.frames.filter(
            pl.col("handshake") == handshake,
            # an exchange also has the RADIUS frames of the AAA link
            pl.col("protocol") == "IKEv2",
            ~pl.col("capture_duplicate"),
        )
        # each frame of an IP-fragmented datagram has the size of the datagram
        .unique(["message", "fragment", "digest"], maintain_order=True)
        .join(analysis.messages.select("message", "exchange"), on="message")
        .group_by("exchange")
        .agg(pl.col("ike_bytes").sum().alias("ike"))
    )
    rows = (
        analysis.exchanges.filter(pl.col("handshake") == handshake, pl.col("set_up"))
        .join(sizes, on="exchange", how="left")
        .sort("exchange")
    )
    return {
        (row["type"], row["message_id"], row["attempt"]): ExchangeCost(
            (row["request_messages"] or 0) + (row["response_messages"] or 0),
            row["ike"] or 0,
            row["rtt_ns"],
            row["response_messages"] is not None,
        )
        for row in rows.iter_rows(named=True)
    }


def _sum_costs(row: dict[str, Any], costs: dict[_Key, ExchangeCost]) -> ExchangeCost:
    exchanges = costs.values()
    return ExchangeCost(
        sum(exchange.messages for exchange in exchanges),
        sum(exchange.bytes for exchange in exchanges),
        row["setup_ns"],
        all(exchange.answered for exchange in exchanges),
    )


def _format_outcome(row: dict[str, Any]) -> str:
    return f"{row['outcome']}: {row['reason']}" if row["reason"] else str(row["outcome"])


def _format_proposal(row: dict[str, Any]) -> str | None:
    parts = [row["encryption"], row["integrity"], row["prf"], row["key_exchange"]]
    parts += [slot["method"] for slot in row["additional_key_exchanges"] or ()]
    names = [part for part in parts if part]
    return "/".join(names) or None
