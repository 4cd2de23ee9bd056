"""How a message is laid on a link: fragments of RFC 7383, IP fragments, TCP segments, each with its headers.

Two ways to cut a message. IKE fragmentation (RFC 7383) cuts what is encrypted, and each fragment is an IKE message of its
own: header, fragment payload header, IV, padding, ICV. IP fragmentation cuts whatever is too long for the link, IKE_SA_INIT
included, and then all pieces must arrive at once, since no two transmissions are put together.
"""

from dataclasses import dataclass
from typing import Final

from ikeanalyze.model.prediction.flow import (
    NON_ESP_MARKER,
    EncryptionOverhead,
    FlowDatagram,
    FlowMessage,
    HandshakeFlow,
)
from ikeanalyze.model.prediction.link import LARGEST_MTU, LinkModel

#: MTU where the link does not say and a message has to be laid out anew: Ethernet's.
USUAL_MTU: Final = 1500
#: More fragments of one message are no prediction of anything (RFC 7383, section 2.5 would allow 65,535).
MOST_FRAGMENTS: Final = 1000
#: IKE header, generic header of SK (RFC 7296, 3.1 and 3.14), and the two numbers more of SKF (RFC 7383, 2.5).
_HEADER: Final = 28
_SK: Final = 4
_SKF: Final = 8
_IPV6_FRAGMENT: Final = 8
#: Stream prefix "IKETCP" and the length before each message (RFC 9329, sections 4 and 3.1).
STREAM_PREFIX: Final = 6
_LENGTH: Final = 2
#: TCP header with the timestamps of RFC 7323, which all usual systems send; in a SYN with MSS, SACK, window scale as well.
TCP_HEADER: Final = 32
_TCP_SYN: Final = 40


class LayoutError(ValueError):
    """A message does not go through such a link; the text says why."""


@dataclass(frozen=True, slots=True)
class PacketizedMessage:
    """A message as it crosses the link once."""

    parts: tuple[tuple[int, ...], ...]  # of each datagram or segment, the bytes of its frames

    @property
    def bytes(self) -> int:
        """Bytes of all frames, link headers included."""
        return sum(map(sum, self.parts))

    @property
    def frames(self) -> int:
        """How many there are."""
        return sum(map(len, self.parts))


def packetize_over_udp(
    message: FlowMessage, flow: HandshakeFlow, link: LinkModel, fragment_size: int | None
) -> PacketizedMessage:
    """`message` in UDP datagrams.

    Args:
        message: one of `flow`.
        flow: says whether RFC 7383 was agreed on, and what encryption adds.
        link: its MTU; None: frames as they were recorded.
        fragment_size: largest IP packet of an IKE fragment, as strongSwan's fragment_size counts; 0: no IKE fragmentation;
            None: as it was recorded, and smaller where the MTU asks for it.
    """
    mtu = link.mtu
    headers = message.ip + message.transport + message.marker
    parts = message.parts
    fragments = flow.fragmentation and message.encrypted and flow.protection is not None
    largest = max(headers + part.ike_bytes for part in parts)
    if fragment_size is not None and flow.protection is not None and message.encrypted:
        limit = min(fragment_size, mtu or LARGEST_MTU) if fragments and fragment_size else None
        parts = _cut(parts, headers, limit, flow.protection)
    elif mtu is not None and largest > mtu and fragments and flow.protection is not None:
        parts = _cut(parts, headers, mtu, flow.protection)
    return PacketizedMessage(tuple(_frames(part, message, mtu, recorded=part in message.parts) for part in parts))


def _frames(part: FlowDatagram, message: FlowMessage, mtu: int | None, *, recorded: bool) -> tuple[int, ...]:
    """The frames of one datagram."""
    if recorded and mtu is None:
        return part.frames
    mtu = mtu or USUAL_MTU
    payload = message.transport + message.marker + part.ike_bytes
    if message.ip + payload <= mtu:
        return (message.link + message.ip + payload,)
    header = message.ip + (_IPV6_FRAGMENT if message.ip == 40 else 0)
    room = (mtu - header) // 8 * 8
    # the last fragment need not be a multiple of eight bytes
    sizes = [room] * (payload // room) + ([payload % room] if payload % room else [])
    if len(sizes) > 1 and sizes[-2] + sizes[-1] <= mtu - header:
        sizes[-2:] = [sizes[-2] + sizes[-1]]
    return tuple(message.link + header + size for size in sizes)


def compute_unfragmented_bytes(parts: tuple[FlowDatagram, ...], protection: EncryptionOverhead) -> int:
    """Bytes of the IKE message that fragments were made of, to a block of the cipher, since padding is not seen."""
    if len(parts) == 1:
        return parts[0].ike_bytes
    return _HEADER + _SK + _encrypted(_content(parts, protection), protection)


def _content(parts: tuple[FlowDatagram, ...], protection: EncryptionOverhead) -> int:
    """Bytes of the inner payloads, with the padding that may be in them."""
    header = _HEADER + (_SKF if len(parts) > 1 else _SK)
    return sum(part.ike_bytes - header - protection.iv - protection.icv - 1 for part in parts)


def _encrypted(content: int, protection: EncryptionOverhead) -> int:
    padded = -(-(content + 1) // protection.block) * protection.block
    return protection.iv + padded + protection.icv


def _cut(
    parts: tuple[FlowDatagram, ...], headers: int, limit: int | None, protection: EncryptionOverhead
) -> tuple[FlowDatagram, ...]:
    """Fragments whose IP packets have at most `limit` bytes; None: the message in one."""
    whole = compute_unfragmented_bytes(parts, protection)
    if limit is None or headers + whole <= limit:
        return parts if len(parts) == 1 else (FlowDatagram(whole, ()),)
    content = _content(parts, protection)
    room = limit - headers - _HEADER - _SKF - protection.iv - protection.icv
    most = room // protection.block * protection.block - 1
    if most < 1 or -(-content // most) > MOST_FRAGMENTS:
        raise LayoutError(f"packets of {limit} bytes have no room for IKE fragments of a message of {whole:,} bytes")
    sizes = [most] * (content // most) + ([content % most] if content % most else [])
    new = tuple(FlowDatagram(_HEADER + _SKF + _encrypted(size, protection), ()) for size in sizes)
    # the same sizes as recorded are the same frames
    return parts if [p.ike_bytes for p in parts] == [p.ike_bytes for p in new] else new


def packetize_over_tcp(message: FlowMessage, flow: HandshakeFlow, link: LinkModel, *, first: bool) -> PacketizedMessage:
    """`message` in TCP segments, unfragmented (RFC 9329, section 3.1), behind the stream prefix if it is the first."""
    size = (
        compute_unfragmented_bytes(message.parts, flow.protection)
        if flow.protection is not None
        else sum(part.ike_bytes for part in message.parts)
    )
    stream = _LENGTH + NON_ESP_MARKER + size + (STREAM_PREFIX if first else 0)
    headers = message.ip + TCP_HEADER
    room = (link.mtu or USUAL_MTU) - headers
    sizes = [room] * (stream // room) + ([stream % room] if stream % room else [])
    return PacketizedMessage(tuple((message.link + headers + size,) for size in sizes))


def make_tcp_ack(message: FlowMessage) -> PacketizedMessage:
    """A TCP segment without data."""
    return PacketizedMessage(((message.link + message.ip + TCP_HEADER,),))


def make_tcp_syn(message: FlowMessage) -> PacketizedMessage:
    """A SYN, or the answer to one."""
    return PacketizedMessage(((message.link + message.ip + _TCP_SYN,),))
