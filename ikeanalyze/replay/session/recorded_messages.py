"""What an initiator sent and got in a capture, message by message with its bytes: what is to be sent again."""

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
    """One UDP datagram of a handshake: an IKE message, or one fragment of it."""

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
    exchange: int  # id in the report: a request with another body (COOKIE, INVALID_KE_PAYLOAD) begins another exchange


@dataclass(frozen=True, slots=True)
class RecordedHandshake:
    """The set-up of one IKE SA, in order of time."""

    id: int  # in the report
    messages: tuple[RecordedMessage, ...]  # those that are whole in the capture
    partial: int = 0  # datagrams of the initiator that are not: a snaplen or a lost IP fragment cut them

    @property
    def requests(self) -> tuple[RecordedMessage, ...]:
        """What the initiator sent."""
        return tuple(message for message in self.messages if message.from_initiator)

    @property
    def first(self) -> RecordedMessage | None:
        """The first IKE_SA_INIT request; None: it is not in the capture."""
        requests = (
            message
            for message in self.requests
            if message.exchange_type == ExchangeType.IKE_SA_INIT and not message.response
        )
        return next(requests, None)

    def response_to(self, request: RecordedMessage) -> RecordedMessage | None:
        """The first (fragment of the) response to a request; None: the capture has none."""
        for message in self.messages:
            if not message.from_initiator and message.exchange == request.exchange:
                return message
        return None


def load_recorded_handshakes(
    capture: str, analysis: Analysis, handshakes: Collection[int], ports: Sequence[int] = ()
) -> list[RecordedHandshake]:
    """The messages of some handshakes of a capture, those of the exchanges that set the IKE SA up.

    Args:
        capture: path of a capture file.
        analysis: of this capture alone; tells what each frame is.
        handshakes: their ids in the analysis.
        ports: UDP ports that carry IKE besides 500 and 4500, as they were given to the analysis.

    Raises:
        CaptureError: the file cannot be read any more, or is another one than was analysed.
    """
    # here, so that the process that reads a large capture is forked without polars
    import polars as pl

    chosen = analysis.handshakes.filter(pl.col("handshake").is_in(list(handshakes)))
    frames = read_frames(capture, ports, spis={int(spi, 16) for spi in chosen["spi_i"]})
    if not np.array_equal(frames.columns["number"], analysis.frames["number"].to_numpy()):
        raise CaptureError(f"{capture}: it has changed while it was read. Try again")
    of_message = analysis.messages.filter(pl.col("set_up") & (pl.col("protocol") == "IKEv2")).select(
        "message", "exchange", "sender", "kind", "transmission"
    )
    asked = analysis.exchanges.filter(pl.col("initiated_by") == "initiator").select("exchange")
    rows = (
        analysis.frames.with_columns(unit=frames.columns["unit"])
        .filter(pl.col("handshake").is_in(list(handshakes)), ~pl.col("capture_duplicate"))
        .unique("unit", keep="first", maintain_order=True)  # the frames of an IP-fragmented datagram are one
        .join(of_message, on="message", how="inner")
        .join(asked, on="exchange", how="semi")
        .sort("time_ns", "number", maintain_order=True)
    )
    grouped: dict[int, list[RecordedMessage]] = {number: [] for number in sorted(handshakes)}
    partial: Counter[int] = Counter()
    for row in rows.iter_rows(named=True):
        data = frames.clear.get(row["unit"]) or frames.sealed.get(row["unit"]) or b""
        if len(data) >= max(row["ike_bytes"] or 0, HEADER.size):
            grouped[row["handshake"]].append(_message(row, data))
        elif row["sender"] == "initiator":
            partial[row["handshake"]] += 1
    return [RecordedHandshake(number, tuple(some), partial[number]) for number, some in grouped.items()]


def _message(row: dict[str, Any], data: bytes) -> RecordedMessage:
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
