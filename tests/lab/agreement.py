"""A recorded capture against its manifest: it contains exactly the messages that the daemons logged as sent."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import polars as pl

import ikeanalyze

ETHERNET, UDP, MARKER = 14, 8, 4
RECEIVED = re.compile(r"received packet: from \S+ to \S+ \((\d+) bytes\)")
#: strongSwan's words for the exchanges of IKEv1 (RFC 2408, 3.1), and those of RFC 2409 that a report has.
IKEV1 = {
    "ID_PROT": "Main Mode",
    "AGGRESSIVE": "Aggressive Mode",
    "QUICK_MODE": "Quick Mode",
    "TRANSACTION": "Transaction",
    "INFORMATIONAL_V1": "Informational",
}
#: Errors of RFC 7296, 3.10.1, which a daemon says that it got; INVALID_KE_PAYLOAD is but an answer to it.
ERRORS = {
    *("AUTHENTICATION_FAILED", "NO_PROPOSAL_CHOSEN", "TEMPORARY_FAILURE", "TS_UNACCEPTABLE"),
    *("INVALID_SYNTAX", "INVALID_SELECTORS", "CHILD_SA_NOT_FOUND", "FAILED_CP_REQUIRED"),
    "INVALID_ID_INFORMATION",  # RFC 2408, 3.14.1
}
#: IKEv1 says nothing of success: there all was answered.
ESTABLISHED = {"IKEv2": ("established",), "IKEv1": ("established", "completed")}


def check(path: Path, *, outcomes: bool = True) -> dict:
    """Compare a manifest with what we read in its capture; return it. `outcomes`: needs keys of the IKE SAs."""
    manifest = json.loads(path.read_text())
    files, expected = manifest["files"], manifest["expected"]
    keys = [str(path.parent / files["keys"])] if files["keys"] else []
    result = ikeanalyze.read(path.parent / files["capture"], keys=keys, payloads=True)
    if has_different_keys(manifest["scenario"]):  # those of one side do not decrypt the messages of the other
        assert all("could not be decrypted, although other messages" in warning.message for warning in result.warnings)
    else:
        assert not result.warnings
    assert not result.skipped
    ike = result.messages.filter(pl.col("protocol").is_in(["IKEv2", "IKEv1"])).sort("first_ns", "message")
    for role in ("initiator", "responder"):
        if expected[role] is None:
            continue
        sent = ike.filter(pl.col("sender") == role)
        messages = [
            f"{kind} {value} {number}" for kind, value, number in sent.select("type", "kind", "message_id").rows()
        ]
        assert messages == list(map(in_our_words, expected[role]["messages"])), role
        again = sent.filter(pl.col("transmission") > 1)["kind"].value_counts()
        counts = dict(again.rows())
        assert counts.get("request", 0) == expected[role]["requests_retransmitted"]
        assert counts.get("response", 0) == expected[role]["responses_retransmitted"]
        if not result.frames["ip_fragment"].any():
            assert sizes(result, sent) == expected[role]["sizes"], role
    if outcomes:
        agree_on_outcomes(manifest, result)
    if "aaa" in expected:
        agree_on_radius(manifest, result)
    return manifest


def has_different_keys(scenario: dict) -> bool:
    """Whether the sides derive different keys: those of IKEv1 depend on the pre-shared key (RFC 2409, section 5)."""
    return scenario.get("ike.version") == 1 and scenario["initiator.wrong_secret"]


def read_received(log: Path) -> list[int]:
    """Bytes of each datagram that charon's log reports as received: for an initiator without a log of its own."""
    with gzip.open(log, "rt", errors="replace") as lines:
        return [int(found[1]) for line in lines if (found := RECEIVED.search(line))]


def in_our_words(message: str) -> str:
    """A message of a daemon's log, the exchange named as in a report."""
    exchange, rest = message.split(" ", 1)
    return f"{IKEV1.get(exchange, exchange)} {rest}"


def agree_on_outcomes(manifest: dict, found) -> None:
    """IKE SAs are established if the responder's daemon logs it; errors are those that the daemons received."""
    expected = manifest["expected"]
    handshakes = [row for row in found.handshakes.iter_rows(named=True) if is_established(row)]
    # the initiator refuses a certificate of the responder after the responder has established the IKE SA
    refused = manifest["scenario"].get("responder.certificate", "valid") != "valid"
    assert len(handshakes) == (0 if refused else expected["responder"]["established"])
    spis = {handshake["spi_i"] for handshake in handshakes}
    assert {handshake["spi_i"] for handshake in manifest["handshakes"] if handshake["established"]} <= spis
    if expected["initiator"] is None:
        return
    if manifest["machine"]["initiator"].startswith("libreswan"):
        return  # which names not all that it gets, and logs no keys of what it does not establish
    got = Counter(
        name
        for sender, transmission, payloads in found.messages.select("sender", "transmission", "payloads").iter_rows()
        if sender == "responder" and transmission == 1
        for payload in payloads or ()
        if (name := payload.removeprefix("N(").removesuffix(")").replace("-", "_")) in ERRORS
    )
    assert got == expected["initiator"]["refused"]


def is_established(row: dict) -> bool:
    """Whether a daemon logs the IKE SA as established: that of IKEv1 already is when quick mode is refused."""
    refused = row["outcome"] == "failed" and any(phase["type"] == "Quick Mode" for phase in row["phases"])
    return refused or row["outcome"] in ESTABLISHED.get(row["protocol"], ())


def agree_on_radius(manifest: dict, found) -> None:
    """RADIUS packets equal those that FreeRADIUS received and sent: order, code, identifier, ports and length.

    On a lossy or blocked link, this holds for the packets that it sent; of the others, the capture has at least the
    logged ones.
    """
    radius = found.messages.filter(pl.col("protocol") == "RADIUS").sort("first_ns", "message")
    frames = found.frames.join(radius.select("message"), on="message", how="semi").sort("number")
    seen = [
        {
            "code": code,
            "identifier": identifier,
            "source": source,
            "source_port": port,
            "destination": destination,
            "destination_port": other,
            "length": length - ETHERNET - 20 - UDP,
        }
        for code, identifier, source, port, destination, other, length in radius.join(frames, on="message")
        .sort("number")
        .select(
            *("type", "message_id", "source", "source_port"),
            *("destination", "destination_port", "bytes_right"),
        )
        .rows()
    ]
    assert seen
    packets = manifest["expected"]["aaa"]["packets"]
    scenario = manifest["scenario"]
    if not scenario["aaa_link.loss_percent"] and not scenario.get("aaa_link.drop_port"):
        assert seen == packets
        return
    sent, got = ([item for item in packets if (item["source_port"] == 1812) == server] for server in (True, False))
    assert [item for item in seen if item["source_port"] == 1812] == sent
    there = [item for item in seen if item["source_port"] != 1812]
    assert all(there.count(item) >= got.count(item) for item in got)


def sizes(found, sent: pl.DataFrame) -> list[int]:
    """The bytes of each datagram's IKE message or fragment, by Ethernet's, IP's and UDP's lengths."""
    frames = found.frames.join(sent.select("message"), on="message", how="semi").sort("number")
    result = []
    for length, port, other, source in frames.select("bytes", "source_port", "destination_port", "source").rows():
        ip = 40 if ":" in source else 20
        marker = 0 if 500 in (port, other) else MARKER
        result.append(length - ETHERNET - ip - UDP - marker)
    return result
