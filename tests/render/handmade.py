"""Tables made by hand, as an analysis gives them: five handshakes that output must be able to show.

1: ML-KEM-768 in IKE_INTERMEDIATE, its request in two fragments; the IKE SA is deleted afterwards. 2: EAP-MD5
with RADIUS. 3: INVALID_KE_PAYLOAD, then a lost response and two retransmissions. 4: nobody answers. 5: IKEv1,
failed.
"""

from collections.abc import Sequence
from typing import Any

import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.result import ACCOUNTING, Analysis, CaptureSummary, Skipped, Warning  # noqa: A004

START = 1_764_000_000_123_456_789
CAPTURE = "lab/testbed.pcapng"

MS = 1_000_000

# time in ms, sender, kind, type, message ID, attempt, bytes of each frame, more
Sent = tuple[float, str, str, str, int, int, Sequence[int], dict[str, Any]]

PQ: list[Sent] = [
    (0.0, "initiator", "request", "IKE_SA_INIT", 0, 1, [354], {}),
    (2.345678, "responder", "response", "IKE_SA_INIT", 0, 1, [362], {}),
    (
        5.0,
        "initiator",
        "request",
        "IKE_INTERMEDIATE",
        1,
        1,
        [1294, 112],
        {"fragments": 2, "fragments_seen": 2},
    ),
    (7.5, "responder", "response", "IKE_INTERMEDIATE", 1, 1, [1199], {}),
    (9.25, "initiator", "request", "IKE_AUTH", 2, 1, [313], {}),
    (12.75, "responder", "response", "IKE_AUTH", 2, 1, [274], {}),
    (4012.0, "initiator", "request", "INFORMATIONAL", 3, 1, [111], {"set_up": False}),
    (4012.9, "responder", "response", "INFORMATIONAL", 3, 1, [111], {"set_up": False}),
]
EAP: list[Sent] = [
    (0.0, "initiator", "request", "IKE_SA_INIT", 0, 1, [506], {}),
    (1.5, "responder", "response", "IKE_SA_INIT", 0, 1, [514], {}),
    (3.0, "initiator", "request", "IKE_AUTH", 1, 1, [270], {}),
    (4.0, "responder", "response", "IKE_AUTH", 1, 1, [174], {}),
    (5.0, "initiator", "request", "IKE_AUTH", 2, 1, [126], {}),
    (5.5, "responder", "request", "Access-Request", 17, 1, [187], {"protocol": "RADIUS"}),
    (6.5, "aaa", "response", "Access-Challenge", 17, 1, [122], {"protocol": "RADIUS"}),
    (7.0, "responder", "response", "IKE_AUTH", 2, 1, [142], {}),
    (8.0, "initiator", "request", "IKE_AUTH", 3, 1, [142], {}),
    (8.5, "responder", "request", "Access-Request", 18, 1, [215], {"protocol": "RADIUS"}),
    (9.5, "aaa", "response", "Access-Accept", 18, 1, [90], {"protocol": "RADIUS"}),
    (10.0, "responder", "response", "IKE_AUTH", 3, 1, [126], {}),
    (11.0, "initiator", "request", "IKE_AUTH", 4, 1, [158], {}),
    (13.0, "responder", "response", "IKE_AUTH", 4, 1, [270], {}),
]
LOSS: list[Sent] = [
    (0.0, "initiator", "request", "IKE_SA_INIT", 0, 1, [290], {}),
    (0.8, "responder", "response", "IKE_SA_INIT", 0, 1, [80], {}),
    (1.0, "initiator", "request", "IKE_SA_INIT", 0, 2, [354], {}),
    (3.0, "responder", "response", "IKE_SA_INIT", 0, 2, [354], {}),
    (4.0, "initiator", "request", "IKE_AUTH", 1, 1, [1294, 400], {"fragments": 2, "fragments_seen": 2}),
    (
        404.0,
        "initiator",
        "request",
        "IKE_AUTH",
        1,
        1,
        [1294, 400],
        {"fragments": 2, "fragments_seen": 2, "transmission": 2},
    ),
    (
        964.0,
        "initiator",
        "request",
        "IKE_AUTH",
        1,
        1,
        [1294],
        {"fragments": 2, "fragments_seen": 1, "transmission": 3},
    ),
    (967.0, "responder", "response", "IKE_AUTH", 1, 1, [1294, 300], {"fragments": 2, "fragments_seen": 2}),
]
SILENT: list[Sent] = [
    (0.0, "initiator", "request", "IKE_SA_INIT", 0, 1, [354], {}),
    (400.0, "initiator", "request", "IKE_SA_INIT", 0, 1, [354], {"transmission": 2}),
]
OLD: list[Sent] = [
    (0.0, "initiator", "request", "Identity Protection", 0, 1, [214], {"protocol": "IKEv1"}),
    (1.0, "responder", "response", "Identity Protection", 0, 1, [146], {"protocol": "IKEv1"}),
    (2.0, "responder", "request", "Informational", 77, 1, [82], {"protocol": "IKEv1"}),
]

HANDSHAKES: list[tuple[list[Sent], dict[str, Any]]] = [
    (
        PQ,
        {
            "outcome": "established",
            "nat": "none",
            "auth_initiator": "psk",
            "auth_responder": "psk",
            "auth_guessed": False,
            "encryption": "AES-GCM-16-256",
            "prf": "HMAC-SHA2-384",
            "key_exchange": "ECP-384",
            "additional_key_exchanges": [{"slot": 1, "method": "ML-KEM-768", "id": 36}],
            "offered": ["AES-GCM-16-256, HMAC-SHA2-384, ECP-384, ML-KEM-768 (slot 1)"],
            "initiator_supports": [
                "IKEV2_FRAGMENTATION_SUPPORTED",
                "INTERMEDIATE_EXCHANGE_SUPPORTED",
                "REDIRECT_SUPPORTED",
            ],
            "responder_supports": ["IKEV2_FRAGMENTATION_SUPPORTED", "INTERMEDIATE_EXCHANGE_SUPPORTED"],
            "setup_ns": 12_750_000,
            "network_ns": 1_500_000,
            "initiator_ns": 4_404_322,
            "responder_ns": 6_845_678,
            "vantage": "initiator",
            "path_rtt_ns": 500_000,
            "path_rtt_source": "smallest seen",
            "blowup": 1.0,
            "ike_messages_fragmented": 1,
            "ike_fragments": 2,
        },
    ),
    (
        EAP,
        {
            "outcome": "completed",
            "auth_initiator": "eap",
            "auth_eap": "EAP-MD5",
            "auth_guessed": True,
            "encryption": "AES-CBC-256",
            "prf": "HMAC-SHA2-256",
            "integrity": "HMAC-SHA2-256-128",
            "key_exchange": "ECP-256",
            "setup_ns": 13_000_000,
            "aaa_ns": 2_000_000,
            "vantage": "responder",
            "blowup": 1.0,
            "nas_address": "198.51.100.2",
            "aaa_address": "198.51.100.9",
        },
    ),
    (
        LOSS,
        {
            "outcome": "established",
            "auth_initiator": "ecdsa-256",
            "auth_responder": "ecdsa-256",
            "auth_guessed": False,
            "encryption": "AES-CBC-256",
            "prf": "HMAC-SHA2-256",
            "integrity": "HMAC-SHA2-256-128",
            "key_exchange": "ECP-384",
            "setup_ns": 967_000_000,
            "retransmission_wait_ns": 960_000_000,
            "vantage": "unknown",
            "blowup": 7354 / 4366,
            "retransmitted_messages": 2,
            "retransmitted_frames": 3,
            "retransmitted_bytes": 2988,
            "ike_messages_fragmented": 2,
            "ike_fragments": 7,
            "extra_round_trips": ["INVALID_KE_PAYLOAD"],
            "capture_duplicates": 1,
        },
    ),
    (
        SILENT,
        {
            "outcome": "unanswered",
            "spi_r": "0" * 16,
            "blowup": 2.0,
            "retransmitted_messages": 1,
            "retransmitted_frames": 1,
            "retransmitted_bytes": 354,
            "one_sided": "initiator",
            "vantage": "unknown",
        },
    ),
    (
        OLD,
        {
            "protocol": "IKEv1",
            "outcome": "failed",
            "reason": "NO-PROPOSAL-CHOSEN",
            "initiator_address": "2001:db8:ffff:ffff:ffff:ffff:ffff:1",
            "responder_address": "2001:db8::2",
            "vantage": "unknown",
            "blowup": 1.0,
        },
    ),
]


def analysis(
    which: Sequence[int] = (1, 2, 3, 4, 5),
    *,
    warnings: Sequence[Warning] = (),
    skipped: Sequence[Skipped] = (),
) -> Analysis:
    """Those of the five handshakes, numbered from 1, in one capture."""
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
    for time, sender, kind, name, message_id, attempt, sizes, more in sent:
        at = start + round(time * MS)
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
                    "encapsulation": "UDP"
                    if protocol == "RADIUS"
                    else "UDP 500"
                    if message_id == 0
                    else "UDP 4500",
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
    rows["handshakes"].append(_handshake(number, start, messages, known))


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


def _exchange_of(message: dict[str, Any]) -> tuple[str, int, int]:
    return message["type"], message["message_id"], message["attempt"]


def _handshake(
    number: int, start: int, messages: list[dict[str, Any]], known: dict[str, Any]
) -> dict[str, Any]:
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
        "protocol": "IKEv2",
        "spi_i": f"{0x1122334455667700 + number:016x}",
        "spi_r": f"{0x8899AABBCCDDEE00 + number:016x}",
        "initiator_address": "192.0.2.1",
        "initiator_port": 500,
        "responder_address": "192.0.2.2",
        "responder_port": 500,
        "start_ns": start,
        "end_ns": max(m["last_ns"] for m in set_up),
        "phases": [
            {
                "type": name,
                **{k[1:]: v for k, v in counts("", [m for m in set_up if m["type"] == name]).items()},
            }
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
