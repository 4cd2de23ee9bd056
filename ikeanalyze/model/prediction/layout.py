"""Computes the frames of a message on a link: IKE fragments (RFC 7383), IP fragments and TCP segments.

IKE fragmentation splits the encrypted payloads, and each fragment is an IKE message with header, fragment payload
header, IV, padding and ICV. IP fragmentation splits any datagram that is larger than the MTU, also IKE_SA_INIT, and
then all IP fragments of one transmission must arrive, since those of several transmissions are not combined.
"""

from dataclasses import dataclass, replace
from typing import Final

from ikeanalyze.model.prediction.flow import (
    NON_ESP_MARKER,
    EncryptionOverhead,
    FlowDatagram,
    FlowMessage,
    HandshakeFlow,
)
from ikeanalyze.model.prediction.link import MAX_MTU, LinkModel
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER

#: MTU of Ethernet, used if the link has none and a message is not sent as recorded.
_DEFAULT_MTU: Final = 1500
#: Maximum fragments of a message (RFC 7383, section 2.5 allows 65,535).
_MAX_FRAGMENTS: Final = 1000
#: Bytes of the headers of the payloads SK (RFC 7296, section 3.14) and SKF (RFC 7383, section 2.5).
_SK: Final = PAYLOAD_HEADER.size
_SKF: Final = PAYLOAD_HEADER.size + 4
_IPV6_FRAGMENT: Final = 8
#: Stream prefix "IKETCP" and the length before each message (RFC 9329, sections 4 and 3.1).
STREAM_PREFIX: Final = 6
_LENGTH: Final = 2
#: TCP header with timestamps (RFC 7323), as usual systems send it; in a SYN also with MSS, SACK and window scale.
TCP_HEADER: Final = 32
_TCP_SYN: Final = 40


class LayoutError(ValueError):
    """A message cannot be sent over this link; the message has the reason."""


@dataclass(frozen=True, slots=True)
class PacketizedMessage:
    """The frames of one transmission of a message."""

    parts: tuple[tuple[int, ...], ...]  # bytes of each frame of each datagram or segment

    @property
    def bytes(self) -> int:
        """Bytes of all frames with link headers."""
        return sum(map(sum, self.parts))

    @property
    def frames(self) -> int:
        """Number of frames."""
        return sum(map(len, self.parts))


def packetize_over_udp(
    message: FlowMessage, flow: HandshakeFlow, link: LinkModel, fragment_size: int | None
) -> PacketizedMessage:
    """Return the frames of `message` in UDP datagrams.

    Args:
        message: a message of `flow`.
        flow: the handshake: whether both sides support RFC 7383, and its encryption overhead.
        link: the link; without an MTU the frames are as recorded.
        fragment_size: largest IP packet of an IKE fragment, as strongSwan's fragment_size; 0: no IKE fragmentation;
            None: as recorded, or smaller to fit the MTU.

    Raises:
        LayoutError: the MTU or the fragment size is too small.
    """
    mtu = link.mtu
    headers = message.ip + message.transport + message.marker
    parts = message.parts
    fragments = flow.fragmentation and message.encrypted and flow.protection is not None
    largest = max(headers + part.ike_bytes for part in parts)
    if fragment_size is not None and flow.protection is not None and message.encrypted:
        limit = min(fragment_size, mtu or MAX_MTU) if fragments and fragment_size else None
        parts = _fragment(parts, headers, limit, flow.protection)
    elif mtu is not None and largest > mtu and fragments and flow.protection is not None:
        parts = _fragment(parts, headers, mtu, flow.protection)
    frames = (_compute_frames(part, message, mtu, recorded=part in message.parts) for part in parts)
    return PacketizedMessage(tuple(frames))


def _compute_frames(part: FlowDatagram, message: FlowMessage, mtu: int | None, *, recorded: bool) -> tuple[int, ...]:
    """Return the bytes of each frame of a datagram."""
    if recorded and mtu is None:
        return part.frames
    mtu = mtu or _DEFAULT_MTU
    payload = message.transport + message.marker + part.ike_bytes
    if message.ip + payload <= mtu:
        return (message.link + message.ip + payload,)
    header = message.ip + (_IPV6_FRAGMENT if message.ip == 40 else 0)
    room = (mtu - header) // 8 * 8
    # the last fragment need not be a multiple of eight bytes
    sizes = _split(payload, room)
    if len(sizes) > 1 and sizes[-2] + sizes[-1] <= mtu - header:
        sizes[-2:] = [sizes[-2] + sizes[-1]]
    return tuple(message.link + header + size for size in sizes)


def compute_unfragmented_bytes(parts: tuple[FlowDatagram, ...], protection: EncryptionOverhead) -> int:
    """Return the bytes of the fragmented IKE message, exact to a block of the cipher, since the padding is unknown."""
    if len(parts) == 1:
        return parts[0].ike_bytes
    return HEADER.size + _SK + _compute_encrypted_bytes(_compute_content_bytes(parts, protection), protection)


def _compute_content_bytes(parts: tuple[FlowDatagram, ...], protection: EncryptionOverhead) -> int:
    """Return the bytes of the inner payloads with padding."""
    header = HEADER.size + (_SKF if len(parts) > 1 else _SK)
    return sum(part.ike_bytes - header - protection.iv - protection.icv - 1 for part in parts)


def _compute_encrypted_bytes(content: int, protection: EncryptionOverhead) -> int:
    padded = -(-(content + 1) // protection.block) * protection.block
    return protection.iv + padded + protection.icv


def _split(size: int, room: int) -> list[int]:
    """Split a size into parts of at most `room` bytes."""
    return [room] * (size // room) + ([size % room] if size % room else [])


def _fragment(
    parts: tuple[FlowDatagram, ...], headers: int, limit: int | None, protection: EncryptionOverhead
) -> tuple[FlowDatagram, ...]:
    """Return fragments whose IP packets have at most `limit` bytes; None: the unfragmented message."""
    unfragmented = compute_unfragmented_bytes(parts, protection)
    if limit is None or headers + unfragmented <= limit:
        return parts if len(parts) == 1 else (FlowDatagram(unfragmented, ()),)
    fragments = _split_content(_compute_content_bytes(parts, protection), headers, limit, protection)
    # with the recorded sizes the frames are as recorded
    return parts if [part.ike_bytes for part in parts] == [part.ike_bytes for part in fragments] else fragments


def _split_content(content: int, headers: int, limit: int, protection: EncryptionOverhead) -> tuple[FlowDatagram, ...]:
    """Return the fragments of a message with `content` bytes of payloads, in IP packets of at most `limit` bytes."""
    room = limit - headers - HEADER.size - _SKF - protection.iv - protection.icv
    largest = room // protection.block * protection.block - 1
    if largest < 1 or -(-content // largest) > _MAX_FRAGMENTS:
        unfragmented = HEADER.size + _SK + _compute_encrypted_bytes(content, protection)
        raise LayoutError(
            f"packets of {limit} bytes have no room for IKE fragments of a message of {unfragmented:,} bytes"
        )
    sizes = (HEADER.size + _SKF + _compute_encrypted_bytes(size, protection) for size in _split(content, largest))
    return tuple(FlowDatagram(size, ()) for size in sizes)


def layout_encrypted_message(
    message: FlowMessage, content: int, limit: int | None, protection: EncryptionOverhead
) -> FlowMessage:
    """Return a message with the headers of `message` and `content` bytes of encrypted payloads.

    `limit`: bytes of the largest IP packet of an IKE fragment; None: no IKE fragmentation. IP packets have at most
    1,500 bytes.

    Raises:
        LayoutError: the message has too many fragments.
    """
    headers = message.ip + message.transport + message.marker
    size = HEADER.size + _SK + _compute_encrypted_bytes(content, protection)
    if limit is None or headers + size <= limit:
        parts: tuple[FlowDatagram, ...] = (FlowDatagram(size, ()),)
    else:
        parts = _split_content(content, headers, limit, protection)
    return _with_frames(message, parts)


def resize_clear_message(message: FlowMessage, growth: int) -> FlowMessage:
    """Return an unencrypted message that is longer by `growth` bytes, in IP packets of at most 1,500 bytes."""
    (part,) = message.parts
    return _with_frames(message, (FlowDatagram(part.ike_bytes + growth, ()),))


def _with_frames(message: FlowMessage, parts: tuple[FlowDatagram, ...]) -> FlowMessage:
    framed = (replace(part, frames=_compute_frames(part, message, None, recorded=False)) for part in parts)
    return replace(message, parts=tuple(framed), payloads=None)


def packetize_over_tcp(message: FlowMessage, flow: HandshakeFlow, link: LinkModel, *, first: bool) -> PacketizedMessage:
    """Return the frames of `message` in TCP segments, without IKE fragmentation (RFC 9329, section 3.1).

    The first message follows the stream prefix.
    """
    size = sum(part.ike_bytes for part in message.parts)
    if flow.protection is not None:
        size = compute_unfragmented_bytes(message.parts, flow.protection)
    stream = _LENGTH + NON_ESP_MARKER + size + (STREAM_PREFIX if first else 0)
    headers = message.ip + TCP_HEADER
    room = (link.mtu or _DEFAULT_MTU) - headers
    return PacketizedMessage(tuple((message.link + headers + size,) for size in _split(stream, room)))


def make_tcp_ack(message: FlowMessage) -> PacketizedMessage:
    """Return a TCP segment without data."""
    return PacketizedMessage(((message.link + message.ip + TCP_HEADER,),))


def make_tcp_syn(message: FlowMessage) -> PacketizedMessage:
    """Return a SYN or SYN-ACK."""
    return PacketizedMessage(((message.link + message.ip + _TCP_SYN,),))
