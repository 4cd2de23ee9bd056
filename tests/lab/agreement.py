"""A recorded capture against its manifest: every message and datagram that the daemons' logs say was sent is in it, and no other."""

import json
from pathlib import Path

import polars as pl

import ikeanalyze

ETHERNET, UDP, MARKER = 14, 8, 4


def check(path: Path) -> dict:
    """Compare what `path`, a manifest, says with what we read in its capture; the manifest."""
    manifest = json.loads(path.read_text())
    files, expected = manifest["files"], manifest["expected"]
    keys = [str(path.parent / files["keys"])] if files["keys"] else []
    found = ikeanalyze.read(path.parent / files["capture"], keys=keys)
    ike = found.messages.filter(pl.col("protocol") == "IKEv2").sort("first_ns", "message")
    for role in ("initiator", "responder"):
        sent = ike.filter(pl.col("sender") == role)
        messages = [
            f"{kind} {what} {number}"
            for kind, what, number in sent.select("type", "kind", "message_id").rows()
        ]
        assert messages == expected[role]["messages"], role
        again = sent.filter(pl.col("transmission") > 1)["kind"].value_counts()
        counts = dict(again.rows())
        assert counts.get("request", 0) == expected[role]["requests_retransmitted"]
        assert counts.get("response", 0) == expected[role]["responses_retransmitted"]
        if not found.frames["ip_fragment"].any():
            assert sizes(found, sent) == expected[role]["sizes"], role
    outcomes = [h["spi_i"] for h in found.handshakes.iter_rows(named=True) if established(h)]
    triggered = manifest["handshakes"]
    assert outcomes == [one["spi_i"] for one in triggered if one["established"]]
    refused = sum(
        h["outcome"] == "failed" and h["reason"] in expected["initiator"]["refused"]
        for h in found.handshakes.iter_rows(named=True)
    )
    assert refused == sum(expected["initiator"]["refused"].values())
    return manifest


def established(handshake: dict) -> bool:
    """A handshake of its own, no IKE SA made by rekeying."""
    return handshake["outcome"] == "established" and handshake["replaces"] is None


def sizes(found, sent: pl.DataFrame) -> list[int]:
    """The bytes of each datagram's IKE message or fragment, by Ethernet's, IP's and UDP's lengths."""
    frames = found.frames.join(sent.select("message"), on="message", how="semi").sort("number")
    result = []
    for length, port, other, source in frames.select(
        "bytes", "source_port", "destination_port", "source"
    ).rows():
        ip = 40 if ":" in source else 20
        marker = 0 if 500 in (port, other) else MARKER
        result.append(length - ETHERNET - ip - UDP - marker)
    return result
