"""Recorded messages of a handshake with their bytes, for verbatim replay."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.frames import read_frames
from ikeanalyze.replay.transport.target import NAT_PORT, Role
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.registries.ikev2 import ExchangeType


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """One UDP datagram of a handshake: an IKE message or fragment."""

    time_ns: int
    data: bytes = field(repr=False)  # without non-ESP marker
    role: Role  # of the responder's port
    source: tuple[str, int]  # address and port
    destination: tuple[str, int]
    from_initiator: bool
    response: bool
    exchange_type: int
    message_id: int
    transmission: int  # of its message, from 1
    fragment: int | None  # fragment number (RFC 7383); None: not fragmented
    fragments: int | None
    exchange: int  # id in the report; a repeated IKE_SA_INIT request (COOKIE, INVALID_KE_PAYLOAD) has its own


@dataclass(frozen=True, slots=True)
class RecordedHandshake:
    """The messages that set up one IKE SA, in order of time."""

    id: int  # in the report
    messages: tuple[RecordedMessage, ...]  # complete in the capture
    partial: int = 0  # datagrams of the initiator truncated by a snaplen or a lost IP fragment

    @property
    def requests(self) -> tuple[RecordedMessage, ...]:
        """The messages of the initiator."""
        return tuple(message for message in self.messages if message.from_initiator)

    @property
    def first(self) -> RecordedMessage | None:
        """The first IKE_SA_INIT request; None: not in the capture."""
        for message in self.requests:
            if message.exchange_type == ExchangeType.IKE_SA_INIT and not message.response:
                return message
        return None

    def response_to(self, request: RecordedMessage) -> RecordedMessage | None:
        """Return the first response (or fragment of it) to a request; None: not in the capture."""
        responses = (message for message in self.messages if not message.from_initiator)
        return next((message for message in responses if message.exchange == request.exchange), None)


def load_recorded_handshakes(
    capture: str, analysis: Analysis, handshakes: Collection[int], ports: Sequence[int] = ()
) -> list[RecordedHandshake]:
    """Return the messages that set up the given handshakes of a capture.

    Args:
        capture: path of a capture file.
        analysis: of this capture alone.
        handshakes: their ids in the analysis.
        ports: UDP and TCP ports that carry IKE in addition to 500 and 4500, as in the analysis.

    Raises:
        CaptureError: the file cannot be read, or has changed since the analysis.
    """
    # late: polars must not be loaded before the reader process forks
    import polars as pl

    selected = analysis.handshakes.filter(pl.col("handshake").is_in(list(handshakes)))
    frames = read_frames(capture, ports, spis={int(spi, 16) for spi in selected["spi_i"]})
    if not np.array_equal(frames.columns["number"], analysis.frames["number"].to_numpy()):
        raise CaptureError(f"{capture}: the file changed while it was read. Try again")
    message_columns = analysis.messages.filter(pl.col("set_up") & (pl.col("protocol") == "IKEv2")).select(
        "message", "exchange", "sender", "kind", "transmission"
    )
    initiated = analysis.exchanges.filter(pl.col("initiated_by") == "initiator").select("exchange")
    rows = (
        analysis.frames.with_columns(datagram=frames.columns["datagram"])
        .filter(pl.col("handshake").is_in(list(handshakes)), ~pl.col("capture_duplicate"))
        .unique("datagram", keep="first", maintain_order=True)  # the frames of an IP-fragmented datagram are one
        .join(message_columns, on="message", how="inner")
        .join(initiated, on="exchange", how="semi")
        .sort("time_ns", "number", maintain_order=True)
    )
    grouped: dict[int, list[RecordedMessage]] = {number: [] for number in sorted(handshakes)}
    partial: Counter[int] = Counter()
    for row in rows.iter_rows(named=True):
        data = frames.clear.get(row["datagram"]) or frames.encrypted.get(row["datagram"]) or b""
        if len(data) >= max(row["ike_bytes"] or 0, HEADER.size):
            grouped[row["handshake"]].append(_make_message(row, data))
        elif row["sender"] == "initiator":
            partial[row["handshake"]] += 1
    return [RecordedHandshake(number, tuple(messages), partial[number]) for number, messages in grouped.items()]


def _make_message(row: dict[str, Any], data: bytes) -> RecordedMessage:
    from_initiator = row["sender"] == "initiator"
    port = row["destination_port"] if from_initiator else row["source_port"]
    return RecordedMessage(
        time_ns=row["time_ns"],
        data=data,
        role=4500 if port == NAT_PORT else 500,
        source=(row["source"], row["source_port"]),
        destination=(row["destination"], row["destination_port"]),
        from_initiator=from_initiator,
        response=row["kind"] == "response",
        exchange_type=row["exchange_type"],
        message_id=row["message_id"],
        transmission=row["transmission"],
        fragment=row["fragment"],
        fragments=row["fragments"],
        exchange=row["exchange"],
    )
