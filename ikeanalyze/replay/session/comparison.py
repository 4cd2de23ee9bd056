"""A recorded handshake and a live one side by side, both as the report counts them.

Bytes are those of IKE messages, without the headers around them: the two may come from links of different kinds.
"""

from typing import Any

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.replay.session.result import ComparedExchange, ExchangeCost, ReplayComparison

_Key = tuple[str, int, int]


def compare_handshakes(
    recorded: Analysis, handshake: int, live: Analysis, spi_i: bytes, run: int
) -> ReplayComparison | None:
    """The handshake of the capture and that with this SPIi of our own; None: there is no such one."""
    ours = find_handshake(live, spi_i)
    if ours is None:
        return None
    theirs = recorded.handshakes.filter(handshake=handshake).row(0, named=True)
    before, now = get_setup_exchanges(recorded, handshake), get_setup_exchanges(live, ours["handshake"])
    keys = [*before, *(key for key in now if key not in before)]
    rows = tuple(ComparedExchange(*key, before.get(key), now.get(key)) for key in sorted(keys, key=lambda key: key[1:]))
    return ReplayComparison(
        run,
        rows,
        (_together(theirs, before), _together(ours, now)),
        (_outcome(theirs), _outcome(ours)),
        (_proposal(theirs), _proposal(ours)),
        (theirs["blowup"], ours["blowup"]),
    )


def find_handshake(analysis: Analysis, spi_i: bytes) -> dict[str, Any] | None:
    """The row of the handshake with this SPIi."""
    rows = analysis.handshakes.filter(spi_i=spi_i.hex())
    return rows.row(0, named=True) if rows.height else None


def get_setup_exchanges(analysis: Analysis, handshake: int) -> dict[_Key, ExchangeCost]:
    """What sets the IKE SA of a handshake up: by type, message ID and attempt."""
    # here, so that the process that reads a large capture is forked without polars
    import polars as pl

    sizes = (
        analysis.frames.filter(
            pl.col("handshake") == handshake,
            # what an EAP method takes on the link to the AAA server belongs to the exchange as well
            pl.col("protocol") == "IKEv2",
            ~pl.col("capture_duplicate"),
        )
        # the frames of an IP-fragmented datagram tell its size each
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


def _together(row: dict[str, Any], some: dict[_Key, ExchangeCost]) -> ExchangeCost:
    sides = some.values()
    return ExchangeCost(
        sum(side.messages for side in sides),
        sum(side.bytes for side in sides),
        row["setup_ns"],
        all(side.answered for side in sides),
    )


def _outcome(row: dict[str, Any]) -> str:
    return f"{row['outcome']}: {row['reason']}" if row["reason"] else str(row["outcome"])


def _proposal(row: dict[str, Any]) -> str | None:
    """What was chosen, in a line."""
    parts = [row["encryption"], row["integrity"], row["prf"], row["key_exchange"]]
    parts += [slot["method"] for slot in row["additional_key_exchanges"] or ()]
    known = [part for part in parts if part]
    return "/".join(known) or None
