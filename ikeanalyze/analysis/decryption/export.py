"""Builds cleartext messages, with the decrypted payloads in place of SK or SKF, and plans which packets they replace.

A transmission whose fragments are all in the capture becomes one packet, in place of its last fragment. A receiver
reassembles fragments of any transmission, and drops those that come again (RFC 7383, section 2.6). So the fragments of
incomplete transmissions are put together: the first copies of all fragments become one packet, the second copies the
next one, as far as no fragment is missing. The frames of the others stay.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.capture.arrays import Int64Array, UInt32Array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.write.frames import CleartextMessage
from ikeanalyze.capture.write.rewrite import PacketEdit
from ikeanalyze.wire.header import FLAG_ENCRYPTED, FLAGS_OFFSET, HEADER, LENGTH_OFFSET, NEXT_PAYLOAD_OFFSET
from ikeanalyze.wire.payload_chain import FLAG_CRITICAL, PAYLOAD_HEADER, Payload


@dataclass(frozen=True, slots=True)
class Cleartext:
    """A decrypted message to be written as cleartext."""

    message: bytes = field(repr=False)  # IKE header with updated next payload and length, and payloads
    epoch: int | None  # of the keys; None: IKEv1
    verified: bool  # the ICV is correct; False: the keys cannot check it
    fragments: int = 1  # that it was reassembled from
    digests: frozenset[int] = frozenset()  # of these fragments: others with their numbers are forged; empty: not known


def collect_cleartexts(contents: DecodedMessages, ids: UInt32Array) -> dict[int, Cleartext]:
    """All decrypted messages, by message id; `ids` are those of the rows of Messages."""
    columns, digests = contents.records.columns, contents.part_digests
    rows = np.flatnonzero(contents.of_message >= 0)
    rows = rows[columns.encrypted[contents.of_message[rows]]]
    chosen, place = np.unique(contents.of_message[rows], return_inverse=True)
    values = (contents.epochs, columns.verified, np.maximum(columns.parts, 1), columns.first_part)
    texts = [
        Cleartext(
            message,
            None if epoch < 0 else epoch,
            verified,
            count,
            frozenset(digests[first : first + count].tolist()) if count > 1 and epoch >= 0 else frozenset(),
        )
        for message, epoch, verified, count, first in zip(
            _build_cleartext_messages(contents, chosen), *(column[chosen].tolist() for column in values), strict=True
        )
    ]
    return {number: texts[index] for number, index in zip(ids[rows].tolist(), place.tolist(), strict=True)}


def _build_cleartext_messages(contents: DecodedMessages, chosen: Int64Array) -> list[bytes]:
    """The messages as `build_cleartext_message` returns them, most of them without decoding their payloads."""
    columns = contents.records.columns.select(chosen)
    store = MessageBytes(np.empty(int(columns.size.sum()), np.uint8))
    begin = columns.begin
    store.add(np.arange(len(columns), dtype=np.uint32), contents.records.heap, begin, begin + columns.size)
    heap, end = store.heap, np.cumsum(columns.size)
    begin = end - columns.size
    heap[begin + NEXT_PAYLOAD_OFFSET] = columns.first
    is_ikev1 = columns.keys < 0
    heap[(begin + FLAGS_OFFSET)[is_ikev1]] &= np.uint8(0xFF & ~FLAG_ENCRYPTED)
    heap[(begin + LENGTH_OFFSET)[:, None] + np.arange(4)] = columns.size.astype(">u4").view(np.uint8).reshape(-1, 4)
    view = heap.data
    messages = [bytes(view[low:high]) for low, high in zip(begin.tolist(), end.tolist(), strict=True)]
    for index in np.flatnonzero(columns.outer >= 0).tolist():  # clear payloads precede the encrypted one
        messages[index] = build_cleartext_message(contents.all[int(chosen[index])])
    return messages


def build_cleartext_message(content: DecodedMessage) -> bytes:
    """The message without encryption (RFC 7296, sections 3.1 and 3.2; IKEv1: RFC 2408, section 3.1)."""
    spi_i, spi_r, _, version, exchange_type, flags, message_id, _ = HEADER.unpack(content.header)
    before = content.payloads[: content.clear]
    chain = _pack_payloads(before, content.first) + content.plaintext
    first = before[0].type if before else content.first
    if content.protocol == Protocol.IKEV1:
        flags &= ~FLAG_ENCRYPTED
    return HEADER.pack(spi_i, spi_r, first, version, exchange_type, flags, message_id, HEADER.size + len(chain)) + chain


def _pack_payloads(payloads: tuple[Payload, ...], next_payload: int) -> bytes:
    """The clear payloads before the encrypted one; `next_payload` is the type of the first decrypted payload."""
    types = [*(payload.type for payload in payloads), next_payload][1:]
    return b"".join(
        PAYLOAD_HEADER.pack(following, FLAG_CRITICAL * payload.critical, PAYLOAD_HEADER.size + len(payload.body))
        + payload.body
        for payload, following in zip(payloads, types, strict=True)
    )


_TCP: Final = "TCP 4500"
_NAT_TRAVERSAL: Final = 4500
_MAX_FRAMES: Final = 20


class _FrameRow(NamedTuple):
    """The columns of a frame that are needed; a named tuple, because a capture has many."""

    message: int
    number: int
    fragment: int | None
    fragments: int | None
    interface: int | None
    ttl: int | None
    capture_duplicate: bool
    encapsulation: str
    digest: int
    source_port: int
    destination_port: int


@dataclass(frozen=True, slots=True)
class DecryptionEdits:
    """The edits that decrypt the packets of a capture."""

    edits: dict[int, PacketEdit]  # by packet number
    messages: int  # that become cleartext, each time they were sent whole; duplicates in the capture count once
    transmissions: int  # of these messages, with those that lack fragments
    fragments_left: int  # frames of these transmissions that stay, because other fragments were not captured as often
    in_tunnels: int  # decrypted messages that remain encrypted because they are in tunnels


def plan_decryption_edits(frames: pl.DataFrame, cleartexts: Mapping[int, Cleartext]) -> DecryptionEdits:
    """The edits for `capture.write.rewrite`; `frames` are those of one capture.

    Frames in tunnels are not edited: a message of another length would need other headers all around it.
    """
    wanted = frames.filter(pl.col("message").is_in(list(cleartexts)))
    outside = wanted.filter(pl.col("tunnel").is_null())
    in_tunnels = wanted["message"].n_unique() - outside["message"].n_unique()
    wanted = outside.select(_FrameRow._fields).sort("number")
    sightings: dict[int, dict[tuple[Any, ...], list[_FrameRow]]] = {}
    for row in map(_FrameRow._make, zip(*(column.to_list() for column in wanted), strict=True)):
        if _is_forged(row, cleartexts[row.message]):
            continue
        # a frame occurs twice if it was captured on two interfaces, or before and after a router
        place = (row.interface, row.ttl) if row.capture_duplicate else ()
        sightings.setdefault(row.message, {}).setdefault(place, []).append(row)
    edits: dict[int, PacketEdit] = {}
    transmissions: Counter[int] = Counter()  # of each message, by identity of its text
    written: Counter[int] = Counter()
    incomplete: dict[int, list[list[_FrameRow]]] = {}
    texts = {id(text): text for text in cleartexts.values()}
    for message, places in sightings.items():
        key = id(cleartexts[message])
        transmissions[key] += 1
        complete = [rows for rows in places.values() if _is_complete(rows, texts[key])]
        for rows in complete:
            _replace_frames(edits, rows, texts[key])
        if complete:
            written[key] += 1
        else:
            incomplete.setdefault(key, []).extend(places.values())
    for key, parts in incomplete.items():
        for rows in _combine_fragments(parts, texts[key]):
            _replace_frames(edits, rows, texts[key])
            written[key] += 1
    left = {row.number for key in written for rows in incomplete.get(key, ()) for row in rows} - edits.keys()
    return DecryptionEdits(
        edits=edits,
        messages=written.total(),
        transmissions=sum(transmissions[key] for key in written),
        fragments_left=len(left),
        in_tunnels=in_tunnels,
    )


def _combine_fragments(incomplete: Sequence[Sequence[_FrameRow]], text: Cleartext) -> list[list[_FrameRow]]:
    """The frames of each whole message that fragments of incomplete transmissions make, in order of their numbers.

    Fragments of another total than that of the decrypted message are another form of it, and are left out.
    """
    copies: dict[int | None, list[list[_FrameRow]]] = {}  # by fragment number: the frames of each copy
    for rows in incomplete:
        of_fragment: dict[int | None, list[_FrameRow]] = {}  # IP may have fragmented it: then it has several frames
        for row in rows:
            if row.fragments is None or row.fragments == text.fragments:
                of_fragment.setdefault(row.fragment, []).append(row)
        for number, frames in of_fragment.items():
            copies.setdefault(number, []).append(frames)
    if len(copies) < text.fragments:
        return []
    for frames_of_copies in copies.values():
        frames_of_copies.sort(key=lambda frames: frames[0].number)
    return [
        sorted((row for frames in copy for row in frames), key=lambda row: row.number)
        for copy in zip(*copies.values(), strict=False)
    ]


def _is_forged(row: _FrameRow, text: Cleartext) -> bool:
    """Whether a frame has another fragment in place of the one that was decrypted."""
    return bool(text.digests) and row.fragments == text.fragments and row.digest not in text.digests


def _is_complete(rows: Sequence[_FrameRow], text: Cleartext) -> bool:
    if rows[0].fragment is None:
        return True
    # fragments of IKEv1 do not have the total number
    total = rows[0].fragments or text.fragments
    return len({row.fragment for row in rows}) == total


def _replace_frames(edits: dict[int, PacketEdit], rows: Sequence[_FrameRow], text: Cleartext) -> None:
    """Replace the last of the frames by the message, and remove the others."""
    last = rows[-1]
    ports = last.source_port, last.destination_port
    numbers, fragments = [last.number], 1
    if len(rows) > 1:
        numbers = list(dict.fromkeys(row.number for row in rows))
        fragments = len({row.fragment for row in rows})
    comment = _format_comment(numbers, fragments, text)
    if last.encapsulation == _TCP:
        # the TCP segment may contain other data
        clear = CleartextMessage(text.message, comment, (_NAT_TRAVERSAL, _NAT_TRAVERSAL), marker=True)
        before = edits.get(last.number)
        edits[last.number] = PacketEdit((*(before.clear if before else ()), clear), keep=True)
        return
    clear = CleartextMessage(text.message, comment, ports)
    edits[last.number] = PacketEdit((clear,))
    for number in numbers[:-1]:
        edits[number] = PacketEdit(into=last.number)


def _format_comment(numbers: Sequence[int], fragments: int, text: Cleartext) -> str:
    """The packet comment: from which frames and with which keys the message was decrypted."""
    frames = ", ".join(map(str, numbers[:_MAX_FRAMES]))
    more = f" and {len(numbers) - _MAX_FRAMES} more" if len(numbers) > _MAX_FRAMES else ""
    parts = [f"decrypted by ikeanalyze from {'frames' if len(numbers) > 1 else 'frame'} {frames}{more} of the capture"]
    if fragments > 1:
        parts.append(f"{fragments} fragments")
    if text.epoch is not None:
        parts.append(f"epoch {text.epoch}")
    parts.append("ICV verified" if text.verified else "no ICV to check: unverified")
    return "; ".join(parts)
