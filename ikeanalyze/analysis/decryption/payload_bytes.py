"""Where the bytes of a handshake go: by payload, and what is wrapped around them.

One transmission of each message counts, so that the parts add up to the bytes that the handshake needed; what was sent
again is a part of its own, and then they add up to the bytes of its first link.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER
from ikeanalyze.wire.registries import get_name, ikev1
from ikeanalyze.wire.registries.ikev2 import PayloadType

#: Parts that are no payloads.
IKE_HEADERS = "IKE headers"
ENCRYPTION = "encryption"  # SK and SKF headers, IV, padding, ICV
FRAMES = "frame headers"  # link, IP, UDP, non-ESP marker
NOT_READ = "not read"  # IKE messages of which nothing but the header could be read
REPEATED = "retransmissions"


@dataclass(slots=True)
class MessageSize:
    """One distinct message, one transmission of each of its fragments."""

    content: DecodedMessage | None  # None: not readable
    frame_bytes: int = 0  # on the wire, link header included
    ike_bytes: int = 0  # by the length in the IKE headers
    headers: int = 0  # IKE headers: fragments have one each


def count_payload_bytes(sent: Iterable[MessageSize], repeated: int) -> dict[str, int]:
    """Bytes of one handshake by part, in order of size; `repeated`: those of retransmissions."""
    parts: dict[str, int] = {}

    def add(part: str, count: int) -> None:
        if count:
            parts[part] = parts.get(part, 0) + count

    add(REPEATED, repeated)
    for one in sent:
        headers = one.headers * HEADER.size
        rest = one.ike_bytes - headers
        if not 0 < one.ike_bytes <= one.frame_bytes or rest < 0:
            add(NOT_READ, one.frame_bytes)  # an IP fragment of it is not in the capture
            continue
        payloads = () if one.content is None else one.content.payloads
        rest -= sum(PAYLOAD_HEADER.size + len(payload.body) for payload in payloads)
        if rest < 0:
            add(NOT_READ, one.frame_bytes)  # put together out of transmissions that are cut differently
            continue
        add(FRAMES, one.frame_bytes - one.ike_bytes)
        add(IKE_HEADERS, headers)
        ikev1_ = one.content is not None and one.content.protocol == Protocol.IKEV1
        for payload in payloads:
            add(get_payload_name(payload.type, ikev1_=ikev1_), PAYLOAD_HEADER.size + len(payload.body))
        add(ENCRYPTION if one.content is not None and one.content.encrypted else NOT_READ, rest)
    return dict(sorted(parts.items(), key=lambda part: (-part[1], part[0])))


def get_payload_name(kind: int, *, ikev1_: bool) -> str:
    """Short name of a payload type; its number where it has none."""
    return get_name(ikev1.Ikev1PayloadType if ikev1_ else PayloadType, kind)
