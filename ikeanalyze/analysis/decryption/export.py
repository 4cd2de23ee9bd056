"""Decrypted messages as they would stand in clear: SK or SKF replaced by the payloads that were inside.

Which packets of a capture a decrypted message stands in place of.

Each transmission of which the capture has all fragments becomes one packet, that of its last fragment. Of a transmission
that is not whole the frames stay as they are, unless no transmission of the message is: then the first frame of each
fragment is taken, from whichever transmission has it, and the last of these becomes the message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.analysis.messages.datagrams import IKEV1_ENCRYPTED
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.write.frames import CleartextMessage
from ikeanalyze.capture.write.rewrite import PacketEdit
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER, Payload

_CRITICAL = 0x80


@dataclass(frozen=True, slots=True)
class Cleartext:
    """One message in clear."""

    message: bytes = field(repr=False)  # with its IKE header, whose next payload and length are right
    epoch: int | None  # of the keys; None: IKEv1
    verified: bool  # the ICV fits; False: there is none to check
    fragments: int = 1  # that it was put together from


def collect_cleartexts(contents: DecodedMessages, ids: Int64Array) -> dict[int, Cleartext]:
    """All that was decrypted, by message id; `ids` are those of the rows of Messages."""
    found: dict[int, Cleartext] = {}
    texts: dict[int, Cleartext] = {}
    rows = np.flatnonzero(contents.of_message >= 0)
    for row, index in zip(rows.tolist(), contents.of_message[rows].tolist(), strict=True):
        content = contents.all[index]
        if not content.encrypted:
            continue
        if index not in texts:
            texts[index] = Cleartext(
                build_cleartext_message(content), content.epoch, bool(content.verified), max(len(content.units), 1)
            )
        found[int(ids[row])] = texts[index]
    return found


def build_cleartext_message(content: DecodedMessage) -> bytes:
    """The message without its encryption (RFC 7296, sections 3.1 and 3.2; of IKEv1 RFC 2408, section 3.1)."""
    spi_i, spi_r, _, version, exchange_type, flags, message_id, _ = HEADER.unpack(content.header)
    before = content.payloads[: content.clear]
    chain = _chain(before, content.first) + content.plaintext
    first = before[0].type if before else content.first
    if content.protocol == Protocol.IKEV1:
        flags &= ~IKEV1_ENCRYPTED
    return HEADER.pack(spi_i, spi_r, first, version, exchange_type, flags, message_id, HEADER.size + len(chain)) + chain


def _chain(payloads: tuple[Payload, ...], following: int) -> bytes:
    """The payloads that stood before the encrypted one, the last of which leads to what was inside."""
    types = [*(payload.type for payload in payloads), following][1:]
    return b"".join(
        PAYLOAD_HEADER.pack(kind, _CRITICAL * payload.critical, PAYLOAD_HEADER.size + len(payload.body)) + payload.body
        for payload, kind in zip(payloads, types, strict=True)
    )


pass

_TCP: Final = "TCP 4500"
_NAT_TRAVERSAL: Final = 4500
_FRAMES_NAMED: Final = 20
_COLUMNS: Final = (
    "message", "number", "fragment", "fragments", "interface", "ttl", "capture_duplicate", "encapsulation",
    "source_port", "destination_port",
)  # fmt: skip

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DecryptionEdits:
    """What is to be done with the packets of a capture."""

    edits: dict[int, PacketEdit]  # by packet number
    messages: int  # transmissions that come to stand in clear, each once in however many places it was seen


def plan_decryption_edits(frames: pl.DataFrame, cleartexts: Mapping[int, Cleartext]) -> DecryptionEdits:
    """The edits for `capture.rewrite`; `frames` are those of one capture."""
    wanted = frames.filter(pl.col("message").is_in(list(cleartexts))).select(_COLUMNS).sort("number")
    sightings: dict[int, dict[tuple[Any, ...], list[Row]]] = {}
    for row in wanted.iter_rows(named=True):
        # a frame that the capture has twice was seen on two interfaces, or before and behind a router
        place = (row["interface"], row["ttl"]) if row["capture_duplicate"] else ()
        sightings.setdefault(row["message"], {}).setdefault(place, []).append(row)
    edits: dict[int, PacketEdit] = {}
    count = 0
    partial: dict[int, list[Row]] = {}
    done: set[int] = set()
    for message, places in sightings.items():
        text = cleartexts[message]
        whole = [rows for rows in places.values() if _whole(rows, text)]
        for rows in whole:
            _replace(edits, rows, text)
        if whole:
            done.add(id(text))
            count += 1
        else:
            for rows in places.values():
                partial.setdefault(id(text), []).extend(rows)
    texts = {id(text): text for text in cleartexts.values()}
    for key, rows in partial.items():
        if key in done:
            continue
        first: dict[int, Row] = {}
        for part in sorted(rows, key=lambda part: part["number"]):
            if part["fragments"] == rows[-1]["fragments"]:
                first.setdefault(part["fragment"], part)
        if _whole(list(first.values()), texts[key]):
            _replace(edits, sorted(first.values(), key=lambda row: row["number"]), texts[key])
            count += 1
    return DecryptionEdits(edits, count)


def _whole(rows: Sequence[Row], text: Cleartext) -> bool:
    if rows[0]["fragment"] is None:
        return True
    # IKEv1 does not say how many fragments there are
    total = rows[0]["fragments"] or text.fragments
    return len({row["fragment"] for row in rows}) == total


def _replace(edits: dict[int, PacketEdit], rows: Sequence[Row], text: Cleartext) -> None:
    """Put the message in the place of the last of its frames; the others go."""
    last = rows[-1]
    ports = last["source_port"], last["destination_port"]
    numbers = list(dict.fromkeys(row["number"] for row in rows))
    comment = _comment(numbers, len({row["fragment"] for row in rows}), text)
    if last["encapsulation"] == _TCP:
        # the segment may have other things in it as well
        clear = CleartextMessage(text.message, comment, (_NAT_TRAVERSAL, _NAT_TRAVERSAL), marker=True)
        before = edits.get(last["number"])
        edits[last["number"]] = PacketEdit((*(before.clear if before else ()), clear), keep=True)
        return
    clear = CleartextMessage(text.message, comment, ports)
    edits[last["number"]] = PacketEdit((clear,))
    for number in numbers[:-1]:
        edits[number] = PacketEdit(into=last["number"])


def _comment(numbers: Sequence[int], fragments: int, text: Cleartext) -> str:
    """Where the message comes from, for whoever reads the packet."""
    some = ", ".join(map(str, numbers[:_FRAMES_NAMED]))
    more = f" and {len(numbers) - _FRAMES_NAMED} more" if len(numbers) > _FRAMES_NAMED else ""
    parts = [f"decrypted by ikeanalyze from {'frames' if len(numbers) > 1 else 'frame'} {some}{more} of the capture"]
    if fragments > 1:
        parts.append(f"{fragments} fragments")
    if text.epoch is not None:
        parts.append(f"epoch {text.epoch}")
    parts.append("ICV verified" if text.verified else "no ICV to check: unverified")
    return "; ".join(parts)
