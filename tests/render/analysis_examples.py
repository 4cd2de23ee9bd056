"""Example analyses: hand-written tables of the messages in `handshake_examples`."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.read import AnalysedCaptures
from ikeanalyze.analysis.result import (
    ACCOUNTING,
    Analysis,
    AnalysisWarning,
    CaptureSummary,
    RequestedDetails,
    SkippedFile,
)
from ikeanalyze.analysis.tables.tables import AnalysisTables
from tests.render.handshake_examples import HANDSHAKES, Sent

START = 1_764_000_000_123_456_789
CAPTURE = "lab/testbed.pcapng"

MS = 1_000_000


def analysis(
    which: Sequence[int] = (1, 2, 3, 4, 5),
    *,
    warnings: Sequence[AnalysisWarning] = (),
    skipped: Sequence[SkippedFile] = (),
) -> Analysis:
    """Those of the handshakes, numbered from 1, in one capture."""
    rows: dict[str, list[dict[str, Any]]] = {"frames": [], "messages": [], "exchanges": [], "handshakes": []}
    for number, one in enumerate(which, 1):
        _add(rows, number, *HANDSHAKES[one - 1])
    frames, messages, exchanges, handshakes = (
        pl.DataFrame(rows[name], schema=columns, strict=False)
        for name, columns in (
            ("frames", schema.FRAMES),
            ("messages", schema.MESSAGES),
            ("exchanges", schema.EXCHANGES),
            ("handshakes", schema.HANDSHAKES),
        )
    )
    return Analysis(
        captures=[summary(CAPTURE, rows["frames"])],
        frames=frames,
        messages=messages,
        exchanges=exchanges,
        handshakes=handshakes,
        warnings=list(warnings),
        skipped=list(skipped),
    )


def analysed(given: Analysis) -> AnalysedCaptures:
    """An analysis as the reader of captures returns it."""
    tables = AnalysisTables(given.frames, given.messages, given.exchanges, given.handshakes)
    details = RequestedDetails(dict(given.cleartexts), dict(given.payload_sizes))
    return AnalysedCaptures(given.captures, tables, given.warnings, given.skipped, details)


def summary(path: str, frames: Sequence[dict[str, Any]] = ()) -> CaptureSummary:
    """The capture of these frames, with 3 packets of ESP besides."""
    packets, size = dict.fromkeys(ACCOUNTING, 0), dict.fromkeys(ACCOUNTING, 0)
    packets["esp"], size["esp"] = 3, 450
    for frame in frames:
        kind = "radius" if frame["protocol"] == "RADIUS" else "ike"
        packets[kind] += 1
        size[kind] += frame["bytes"]
    times = [frame["time_ns"] for frame in frames]
    return CaptureSummary(
        path=path,
        format="pcapng",
        packets=sum(packets.values()),
        bytes=sum(size.values()),
        first_ns=min(times, default=None),
        last_ns=max(times, default=None),
        snaplen_truncated=0,
        damaged=False,
        accounting=packets,
        accounting_bytes=size,
    )


def _add(rows: dict[str, list[dict[str, Any]]], number: int, sent: list[Sent], known: dict[str, Any]) -> None:
    start = START + number * 10_000 * MS
    seen: set[tuple[Any, ...]] = set()
    messages = []
    before = len(rows["messages"]), len(rows["exchanges"])
    for time, sender, kind, name, message_id, attempt, sizes, more in sent:
        at = start + round(time * MS)
        name = more.get("type", name)
        key = (sender, kind, name, message_id, attempt)
        protocol = more.get("protocol", "IKEv2")
        message = {
            "capture": CAPTURE,
            "message": len(rows["messages"]) + 1,
            "handshake": number,
            "protocol": protocol,
            "type": name,
            "message_id": message_id,
            "attempt": attempt,
            "sender": sender,
            "kind": kind,
            "set_up": True,
            "transmission": 1,
            "first_frame": len(rows["frames"]) + 1,
            "first_ns": at,
            "last_ns": at + (len(sizes) - 1) * 1000,
            "frames": len(sizes),
            "bytes": sum(sizes),
            "needed_bytes": 0 if key in seen else sum(sizes),
            "ip_fragments": 0,
            "digest": hash(key) & (2**63 - 1),
            **more,
        }
        if "same_eap" in more:
            message["same_eap"] += before[0] + 1
        seen.add(key)
        for i, size in enumerate(sizes):
            rows["frames"].append(
                {
                    "capture": CAPTURE,
                    "number": len(rows["frames"]) + 1,
                    "time_ns": at + i * 1000,
                    "bytes": size,
                    "captured": size,
                    "protocol": protocol,
                    "encapsulation": "UDP" if protocol == "RADIUS" else "UDP 500" if message_id == 0 else "UDP 4500",
                    "message_id": message_id,
                    "fragment": i + 1 if len(sizes) > 1 else None,
                    "fragments": len(sizes) if len(sizes) > 1 else None,
                    "message": message["message"],
                    "handshake": number,
                }
            )
        rows["messages"].append(message)
        messages.append(message)
    _add_exchanges(rows, messages, known)
    row = _handshake(number, start, messages, known)
    if "key_exchanges" in known:
        row["key_exchanges"] = [
            key_exchange | {"exchange": before[1] + 1 + key_exchange["exchange"]}
            for key_exchange in known["key_exchanges"]
        ]
    rows["handshakes"].append(row)


def _add_exchanges(
    rows: dict[str, list[dict[str, Any]]], messages: list[dict[str, Any]], known: dict[str, Any]
) -> None:
    reasons = list(known.get("extra_round_trips", ()))
    keys = dict.fromkeys(_exchange_of(m) for m in messages if m["protocol"] != "RADIUS")
    for key in keys:
        row: dict[str, Any] = {"capture": CAPTURE, "exchange": len(rows["exchanges"]) + 1}
        belonging = [m for m in messages if m["protocol"] != "RADIUS" and _exchange_of(m) == key]
        for kind in ("request", "response"):
            half = [m for m in belonging if m["kind"] == kind]
            for m in half:
                m["exchange"] = row["exchange"]
            if half:
                row[f"{kind}_messages"] = len(half)
                row[f"{kind}_frames"] = sum(m["frames"] for m in half)
                row[f"{kind}_bytes"] = sum(m["bytes"] for m in half)
                row[f"{kind}_ns"] = half[0]["first_ns"]
        for m in messages:
            if m["protocol"] == "RADIUS" and m.get("matched_by") and _between(m, belonging):
                m["exchange"] = row["exchange"]
        opened = [m for m in belonging if m.get("decrypted")]
        if any(m.get("decrypted") is not None for m in belonging):
            row["decrypted"] = len(opened) == len(belonging)
        if opened:
            row["epoch"] = opened[0]["epoch"]
        first = belonging[0]
        requests = [m for m in belonging if m["kind"] == "request"]
        responses = [m for m in belonging if m["kind"] == "response"]
        row |= {name: first[name] for name in ("handshake", "type", "message_id", "attempt", "set_up")}
        row["initiated_by"] = first["sender"]
        if requests and responses:
            row["rtt_ns"] = responses[-1]["first_ns"] - requests[-1]["first_ns"]
            row["wait_ns"] = requests[-1]["first_ns"] - requests[0]["first_ns"]
            row["end_ns"] = responses[-1]["last_ns"]
        if reasons and len([k for k in keys if k[:2] == key[:2]]) > first["attempt"]:
            row["extra_round_trip"] = reasons.pop(0)
        rows["exchanges"].append(row)


def _between(message: dict[str, Any], others: list[dict[str, Any]]) -> bool:
    return bool(others[0]["first_ns"] < message["first_ns"] < others[-1]["first_ns"])


def _exchange_of(message: dict[str, Any]) -> tuple[str, int, int]:
    return message["type"], message["message_id"], message["attempt"]


def _handshake(number: int, start: int, messages: list[dict[str, Any]], known: dict[str, Any]) -> dict[str, Any]:
    def counts(who: str, chosen: list[dict[str, Any]]) -> dict[str, int]:
        return {
            f"{who}_messages": len(chosen),
            f"{who}_frames": sum(m["frames"] for m in chosen),
            f"{who}_bytes": sum(m["bytes"] for m in chosen),
        }

    ike = [m for m in messages if m["protocol"] != "RADIUS"]
    radius = [m for m in messages if m["protocol"] == "RADIUS"]
    set_up = [m for m in ike if m["set_up"]]
    row: dict[str, Any] = {
        "capture": CAPTURE,
        "handshake": number,
        "rekeyed": False,
        "protocol": "IKEv2",
        "spi_i": f"{0x1122334455667700 + number:016x}",
        "spi_r": f"{0x8899AABBCCDDEE00 + number:016x}",
        "initiator_address": "192.0.2.1",
        "initiator_port": 500,
        "responder_address": "192.0.2.2",
        "responder_port": 500,
        "start_ns": start,
        "end_ns": max((m["last_ns"] for m in set_up), default=None),
        "phases": [
            {"type": name, **{k[1:]: v for k, v in counts("", [m for m in set_up if m["type"] == name]).items()}}
            for name in dict.fromkeys(m["type"] for m in set_up)
        ],
        "retransmitted_messages": 0,
        "retransmitted_frames": 0,
        "retransmitted_bytes": 0,
        "ike_messages_fragmented": 0,
        "ike_fragments": 0,
        "ip_fragments": 0,
        "capture_duplicates": 0,
        "extra_round_trips": [],
        "additional_key_exchanges": [],
    }
    for who in ("initiator", "responder"):
        row |= counts(who, [m for m in set_up if m["sender"] == who])
        row |= counts(f"after_setup_{who}", [m for m in ike if not m["set_up"] and m["sender"] == who])
    row |= counts("aaa_request", [m for m in radius if m["kind"] == "request"])
    row |= counts("aaa_response", [m for m in radius if m["kind"] == "response"])
    return row | known
