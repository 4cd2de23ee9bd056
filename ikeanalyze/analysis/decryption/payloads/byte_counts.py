"""Divides the bytes of a handshake into payloads, headers, encryption overhead and retransmissions.

One transmission of each message counts. These parts add up to the bytes that the handshake needed; with the part for
retransmissions they add up to the bytes of its first link.
"""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.capture.arrays import UInt32Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.ikev2.payload_size import PayloadSize, measure_payload
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER
from ikeanalyze.wire.registries import get_name, ikev1
from ikeanalyze.wire.registries.ikev2 import PayloadType

#: Parts other than payloads.
IKE_HEADERS = "IKE headers"
ENCRYPTION = "encryption"  # SK and SKF headers, IV, padding, ICV
FRAMES = "frame headers"  # link, IP, UDP, non-ESP marker
NOT_READ = "not read"  # IKE messages without decoded payloads
REPEATED = "retransmissions"


def collect_payload_sizes(contents: DecodedMessages, ids: UInt32Array) -> dict[int, tuple[PayloadSize, ...]]:
    """The sizes of the payloads of each completely decoded message of IKEv2, by message id.

    `ids` are those of the rows of Messages.
    """
    sizes = [
        tuple(map(measure_payload, content.payloads))
        if content.protocol == Protocol.IKEV2 and content.error is None
        else None
        for content in contents.all
    ]
    rows = np.flatnonzero(contents.of_message >= 0).tolist()
    found = ((int(ids[row]), sizes[int(contents.of_message[row])]) for row in rows)
    return {number: payloads for number, payloads in found if payloads is not None}


class MessageSize(Struct):
    """The size of one distinct message: one transmission of each of its fragments."""

    content: DecodedMessage | None  # None: not decoded
    frame_bytes: int = 0  # on the wire, link header included
    ike_bytes: int = 0  # sum of the lengths in the IKE headers
    headers: int = 0  # number of IKE headers: one per fragment


def count_payload_bytes(sizes: Iterable[MessageSize], repeated: int) -> dict[str, int]:
    """Bytes of one handshake by part, largest first; `repeated`: bytes of retransmissions."""
    parts: dict[str, int] = {}

    def add(part: str, count: int) -> None:
        if count:
            parts[part] = parts.get(part, 0) + count

    add(REPEATED, repeated)
    for size in sizes:
        headers = size.headers * HEADER.size
        rest = size.ike_bytes - headers
        if not 0 < size.ike_bytes <= size.frame_bytes or rest < 0:
            add(NOT_READ, size.frame_bytes)  # an IP fragment is missing
            continue
        payloads = () if size.content is None else size.content.payloads
        rest -= sum(PAYLOAD_HEADER.size + len(payload.body) for payload in payloads)
        if rest < 0:
            add(NOT_READ, size.frame_bytes)  # reassembled from transmissions with different fragmentation
            continue
        add(FRAMES, size.frame_bytes - size.ike_bytes)
        add(IKE_HEADERS, headers)
        is_ikev1 = size.content is not None and size.content.protocol == Protocol.IKEV1
        for payload in payloads:
            add(get_payload_name(payload.type, is_ikev1=is_ikev1), PAYLOAD_HEADER.size + len(payload.body))
        add(_name_rest(size.content), rest)
    return dict(sorted(parts.items(), key=lambda part: (-part[1], part[0])))


def _name_rest(content: DecodedMessage | None) -> str:
    """The part of the bytes of a message that belong neither to its IKE headers on the wire nor to its payloads."""
    if content is None or (not content.encrypted and content.error is not None):
        return NOT_READ
    if content.encrypted:
        return ENCRYPTION
    # a clear message in fragments of IKEv1 has a header of its own in them, and each has a payload header
    return IKE_HEADERS if len(content.datagrams) > 1 else NOT_READ


def get_payload_name(payload_type: int, *, is_ikev1: bool) -> str:
    """Short name of a payload type, or its number."""
    return get_name(ikev1.Ikev1PayloadType if is_ikev1 else PayloadType, payload_type)
