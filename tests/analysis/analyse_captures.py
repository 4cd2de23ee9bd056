"""Reads captures through the whole analysis, and holds what comes out against its laws."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ikeanalyze import Analysis
from ikeanalyze.analysis import schema
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from tests.craft import MS, Handshake, Message, Packet, Trace, pcap
from tests.craft.trace import START_NS

COUNTS = ("messages", "frames", "bytes")
MESSAGE_COLUMNS = (
    "protocol", "set_up", "sender", "kind", "transmission", "frames", "bytes", "needed_bytes", "fragments_seen",
)  # fmt: skip
SEPARATE_PARTS = ("network_ns", "initiator_ns", "responder_ns", "aaa_ns", "retransmission_wait_ns")
PARTS = (*SEPARATE_PARTS, "initiator_and_network_ns")

#: Ethernet, IPv4, UDP: what a frame has around a UDP payload.
AROUND = 14 + 20 + 8


def obey(analysis: Analysis) -> Analysis:
    """Frames add up to messages, messages to exchanges, and both to handshakes; times to the set-up time."""
    frames, messages, exchanges = analysis.frames, analysis.messages, analysis.exchanges
    assert frames.schema == pl.DataFrame(schema=schema.FRAMES).schema
    assert messages.schema == pl.DataFrame(schema=schema.MESSAGES).schema
    assert exchanges.schema == pl.DataFrame(schema=schema.EXCHANGES).schema
    assert analysis.handshakes.schema == pl.DataFrame(schema=schema.HANDSHAKES).schema
    for capture in analysis.captures:
        assert sum(capture.accounting.values()) == capture.packets
        assert sum(capture.accounting_bytes.values()) == capture.bytes
    for table, name in ((messages, "message"), (exchanges, "exchange"), (analysis.handshakes, "handshake")):
        assert table[name].n_unique() == len(table)
    ours = frames.filter(pl.col("protocol") != "RADIUS")
    assert ours["message"].null_count() == ours["handshake"].null_count() == 0
    once = frames.filter(~pl.col("capture_duplicate"), pl.col("message").is_not_null())
    parts = once.group_by("message").agg(pl.len().alias("rows"), pl.col("bytes").cast(pl.UInt64).sum())
    joined = messages.join(parts, on="message", how="left", suffix="_of_frames")
    assert (joined["frames"] == joined["rows"]).all()
    assert (joined["bytes"] == joined["bytes_of_frames"]).all()
    assert messages["first_ns"].is_sorted() or len(analysis.captures) > 1
    assert (messages["needed_bytes"] <= messages["bytes"]).all()
    _obey_exchanges(analysis)
    own = messages.select("handshake", *MESSAGE_COLUMNS).rows_by_key("handshake", named=True)
    turns = exchanges.select("handshake", "set_up", "request_ns").rows_by_key("handshake", named=True)
    duplicates = Counter(frames.filter("capture_duplicate")["handshake"])
    for row in analysis.handshakes.iter_rows(named=True):
        ident = row["handshake"]
        _obey_handshake(row, own[ident], turns[ident], duplicates[ident])
    return analysis


def _obey_exchanges(analysis: Analysis) -> None:
    ours = analysis.messages.filter(pl.col("protocol") != "RADIUS")
    assert ours["exchange"].null_count() == 0
    for kind in ("request", "response"):
        sums = (
            ours.filter(pl.col("kind") == kind)
            .group_by("exchange")
            .agg(
                pl.len().cast(pl.UInt32).alias("messages"),
                pl.col("frames", "bytes").sum(),
                pl.col("first_ns").min(),
            )
        )
        joined = analysis.exchanges.join(sums, on="exchange", how="left")
        for count in COUNTS:
            assert joined[f"{kind}_{count}"].eq_missing(joined[count]).all()
        assert joined[f"{kind}_ns"].eq_missing(joined["first_ns"]).all()
    joined = ours.join(analysis.exchanges, on="exchange", suffix="_of_exchange")
    for column in ("handshake", "set_up"):
        assert (joined[column] == joined[f"{column}_of_exchange"]).all()
    for column in ("rtt_ns", "wait_ns"):
        assert (analysis.exchanges[column].drop_nulls() >= 0).all()


def _obey_handshake(
    row: dict[str, Any], own: Sequence[dict[str, Any]], exchanges: Sequence[dict[str, Any]], duplicates: int
) -> None:
    """Compare a handshake with its messages, its exchanges and the number of its frames that were captured twice."""
    ours = [message for message in own if message["protocol"] != "RADIUS"]
    setting_up = [message for message in ours if message["set_up"]]
    later = [message for message in ours if not message["set_up"]]
    for prefix, messages in (("", setting_up), ("after_setup_", later)):
        for side in ("initiator", "responder"):
            some = [message for message in messages if message["sender"] == side]
            assert [row[f"{prefix}{side}_{count}"] for count in COUNTS] == _counts(some)
    for count in COUNTS:
        both = row[f"initiator_{count}"] + row[f"responder_{count}"]
        assert sum(phase[count] for phase in row["phases"]) == both
    again = [message for message in setting_up if message["transmission"] > 1]
    assert [row[f"retransmitted_{count}"] for count in COUNTS] == _counts(again)
    needed = sum(message["needed_bytes"] for message in setting_up)
    assert row["blowup"] == (sum(message["bytes"] for message in setting_up) / needed if needed else None)
    assert row["capture_duplicates"] == duplicates
    assert row["ike_fragments"] == sum(message["fragments_seen"] or 0 for message in setting_up)
    for kind in ("request", "response"):
        some = [message for message in own if message["protocol"] == "RADIUS" and message["kind"] == kind]
        messages, _, size = _counts(some)
        assert (row[f"aaa_{kind}_messages"] or 0) == messages
        assert (row[f"aaa_{kind}_bytes"] or 0) == size
    times = [row[part] for part in PARTS]
    if row["setup_ns"] is None:
        assert times == [None] * len(PARTS)
    else:
        assert all(time >= 0 for time in times if time is not None)
        assert sum(time or 0 for time in times) == row["setup_ns"]
        requests = [exchange["request_ns"] for exchange in exchanges if exchange["set_up"]]
        assert row["end_ns"] == min(time for time in requests if time is not None) + row["setup_ns"]


def _counts(messages: Sequence[dict[str, Any]]) -> list[int]:
    """Messages, their frames and their bytes."""
    return [len(messages), sum(m["frames"] for m in messages), sum(m["bytes"] for m in messages)]


def analyse(capture: Trace | bytes, **options: Any) -> Analysis:
    """The analysis of one capture, which obeys the laws."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(capture if isinstance(capture, bytes) else capture.pcap())
        file.flush()
        analysis = read_captures(file.name, ReadOptions(**options))
    assert not analysis.skipped
    return obey(analysis)


def analyse_files(directory: Path, *captures: Trace | bytes, **options: Any) -> Analysis:
    """The analysis of several captures in one call."""
    paths = []
    for number, capture in enumerate(captures):
        path = directory / f"{number}.pcap"
        path.write_bytes(capture if isinstance(capture, bytes) else capture.pcap())
        paths.append(path)
    return read_captures(paths, ReadOptions(**options))


def unsorted(packets: Sequence[Packet]) -> bytes:
    """A pcap file of packets in the order in which they are given."""
    return pcap(packets)


def only(analysis: Analysis) -> dict[str, Any]:
    """The one handshake of an analysis."""
    assert len(analysis.handshakes) == 1
    return analysis.handshakes.row(0, named=True)


def rows(table: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of a table, as tuples."""
    return table.select(columns).rows()


def sizes(message: Message) -> list[int]:
    """Lengths of the frames that one transmission of a message takes on Ethernet and IPv4."""
    return [AROUND + len(data) for data in message.datagrams]


def size(*messages: Message) -> int:
    """Bytes on the wire of one transmission of each message."""
    return sum(sum(sizes(message)) for message in messages)


def at(milliseconds: float) -> int:
    """A point in time of a trace's packets, as the tables have it."""
    return START_NS + round(milliseconds * MS)


def timed(*sent: tuple[float, Message]) -> Trace:
    """A trace of messages, each at its time in milliseconds."""
    trace = Trace()
    for time, message in sent:
        trace.message(round(time * MS), message)
    return trace


__all__ = [
    "AROUND",
    "Handshake",
    "analyse",
    "analyse_files",
    "at",
    "obey",
    "only",
    "rows",
    "size",
    "sizes",
    "timed",
    "unsorted",
]
