"""Captures read with keys, held against the laws that hold with and without them."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from polars.testing import assert_frame_equal

import ikeanalyze
from ikeanalyze import Analysis
from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.keys.key_set import KeySet
from tests.analysis.analyse_captures import obey
from tests.analysis.encrypted_handshakes import Key, Sa
from tests.craft import Trace, ike
from tests.craft.handshake import Message

#: What keys fill in. All else is the same without them.
FILLED = {
    "frames": set(),
    "messages": {"decrypted", "epoch", "verified", "payloads", "same_eap"},
    "exchanges": {"epoch", "decrypted"},
    "handshakes": {
        "rekeyed", "outcome", "reason", "auth_initiator", "auth_responder", "auth_eap", "auth_guessed", "replaces",
        "child_error", "diagnosis", "payload_bytes", "key_exchanges", "certificates",
    },
}  # fmt: skip
#: What there is of a handshake that did not fail alone.
TIMES = {
    "end_ns", "setup_ns", "initiator_setup_ns", "network_ns", "initiator_ns", "initiator_and_network_ns",
    "responder_ns", "aaa_ns", "retransmission_wait_ns", "uncertain",
    "path_rtt_ns", "path_rtt_source",
}  # fmt: skip
#: What its predecessor's messages tell of an IKE SA that replaced another one.
AGREED = {
    "encryption", "prf", "integrity", "key_exchange", "additional_key_exchanges", "offered",
    "initiator_supports", "responder_supports",
}  # fmt: skip


def make_trace(*messages: Message, at: int = 0) -> Trace:
    """A capture with these messages, one after another as the initiator sees them, from the time `at` on."""
    trace = Trace()
    trace.play(messages, at=at)
    return trace


@dataclass(frozen=True, slots=True)
class Look:
    """A capture read with keys."""

    analysis: Analysis
    conversation: AnalysisState
    contents: DecodedMessages

    @property
    def findings(self) -> list[tuple[int | None, str]]:
        return [(warning.frame, warning.message) for warning in self.analysis.warnings]

    @property
    def outcomes(self) -> list[tuple[str, str | None]]:
        return self.analysis.handshakes.select("outcome", "reason").rows()

    def opened(self) -> dict[tuple[str, Key], DecodedMessage]:
        """What was encrypted and is open, by the initiator's SPI and the message."""
        spis = self.analysis.handshakes["spi_i"].to_list()
        return {(spis[item.handshake], key_of(item)): item for item in self.contents.all if item.encrypted}


def key_of(content: DecodedMessage) -> Key:
    return content.message_id, content.exchange_type, content.from_initiator, content.response


def look(capture: Trace | bytes | Path, *keys: str, **options: Any) -> Look:
    """Read a capture with the texts of key files; the laws hold."""
    with tempfile.TemporaryDirectory() as directory:
        path = capture if isinstance(capture, Path) else Path(directory) / "capture"
        if not isinstance(capture, Path):
            path.write_bytes(capture if isinstance(capture, bytes) else capture.pcap())
        files = []
        for number, text in enumerate(keys):
            files.append(Path(directory) / f"keys{number}")
            files[-1].write_text(text)
        seen: list[tuple[AnalysisState, DecodedMessages]] = []
        analysis = read_captures(
            path,
            ReadOptions(keys=files, on_contents=lambda talk, _, contents: seen.append((talk, contents)), **options),
        )
        without = ikeanalyze.read(path)
    obey(analysis)
    nothing_counted_otherwise(analysis, without)
    payloads_add_up(analysis)
    talk, contents = seen[0]
    return Look(analysis, talk, contents)


def nothing_counted_otherwise(analysis: Analysis, without: Analysis) -> None:
    """Keys fill columns, and change none; but RADIUS, which was given away by time, may turn out to be another's."""
    radius = bool(analysis.frames.filter(pl.col("protocol") == "RADIUS").height)
    for name, filled in FILLED.items():
        ours, theirs = getattr(analysis, name), getattr(without, name)
        left_out = filled
        if radius and "protocol" in ours.columns:
            left_out = filled | {"matched_by"}
            ike_alone = pl.col("protocol").cast(pl.String).str.starts_with("IKE")
            ours, theirs = ours.filter(ike_alone), theirs.filter(ike_alone)
        if name == "exchanges":  # the reason of one after the set-up is encrypted
            left_out = left_out | {"extra_round_trip"}
            in_set_up = [table.filter("set_up")["extra_round_trip"].to_list() for table in (ours, theirs)]
            assert in_set_up[0] == in_set_up[1]
            assert theirs.filter(~pl.col("set_up"))["extra_round_trip"].is_null().all()
        if name == "handshakes":
            made = ours["replaces"].is_not_null()
            assert_frame_equal(ours.filter(~made).select(AGREED), theirs.filter(~made).select(AGREED))
            if not radius:
                whole = ours["outcome"].cast(pl.String).is_in(["established", "completed"]) & ~made
                assert_frame_equal(ours.filter(whole).select(TIMES), theirs.filter(whole).select(TIMES))
            link = {one for one in ours.columns if one.startswith(("aaa_", "nas_"))} if radius else set()
            left_out = filled | TIMES | AGREED | link
        columns = [column for column in ours.columns if column not in left_out]
        assert_frame_equal(ours.select(columns), theirs.select(columns))


def payloads_add_up(analysis: Analysis) -> None:
    """The parts are the bytes of the first link."""
    for row in analysis.handshakes.iter_rows(named=True):
        if row["payload_bytes"] is not None:
            parts = sum(part["bytes"] for part in row["payload_bytes"])
            assert parts == row["initiator_bytes"] + row["responder_bytes"]


def is_what_was_encrypted(found: Look, sas: Sequence[Sa], known: Sequence[KeySet] | None = None) -> None:
    """Each message that is open has in it what its sender put in, and the epoch is its sender's.

    `known`: the keys that there were, where it is not all. Without IKE_SA_INIT, what tells the epoch is their number.
    """
    by_spi = {sa.spi_i.hex(): sa for sa in sas}
    answered = {
        found.analysis.handshakes["spi_i"][item.handshake]
        for item in found.contents.all
        if item.exchange_type == ike.IKE_SA_INIT and item.response
    }
    for (spi, key), content in found.opened().items():
        put = by_spi[spi].inside[key]
        assert (content.first, content.plaintext) == (put.first, put.plaintext)
        assert [payload.type for payload in content.payloads] == put.types
        epoch = put.epoch
        if known is not None and spi not in answered and content.exchange_type != ike.IKE_INTERMEDIATE:
            keys = by_spi[spi].key_sets[epoch]
            epoch = [item for item in known if item.spi_i == keys.spi_i].index(keys)
        assert (content.epoch, content.verified) == (epoch, True)
