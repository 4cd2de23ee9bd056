"""Associate HIP packets with host associations, and find their senders and their places in exchanges.

HIP has neither message IDs nor flags. The type of a packet, its HITs and, in an UPDATE, SEQ and ACK determine its role.
It gets an exchange type, flags and a message ID like an IKE message, so that later steps treat both alike:

- I1 and R1 are one exchange of the initiator, I2 and R2 another; together they set the association up (RFC 7401, 4.1).
- An UPDATE with SEQ asks, one with ACK answers the other side's UPDATE of that number (RFC 7401, 5.3.5). In a change
  of address the answer asks as well (RFC 8046, 3.2.1): what acknowledges it is the third message of an exchange, a
  request without response, like that of IKEv1's aggressive mode.
- CLOSE asks, CLOSE_ACK answers. NOTIFY, and types without a rule here, are never answered.

An association belongs to two HITs. I1 to R2 tell who is the initiator; without them, it is the sender of the first
packet. An I1 in opportunistic mode has no receiver's HIT: the R1 from the address that it went to has it or, if the
capture lacks that, the I2 to this address or the R2 from it. Another association between the same hosts begins

- with an I1 when anything after R1 has been seen, or when neither host has spoken for two minutes (TCP's maximum
  segment lifetime, RFC 9293): an I1 never differs from the one before;
- with an R1 or I2 with new contents when R2 or CLOSE_ACK has been seen: their beginning is not in the capture.

`exchange_types` has the numbers of the exchanges.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import structs

from ikeanalyze.analysis.exchanges.hip_exchange_types import EXCHANGE
from ikeanalyze.analysis.grouping import number_by_first_row
from ikeanalyze.analysis.messages.association import MAX_LIFETIME_NS, SaAssociation
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.capture.arrays import read_struct_array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.decode.ip import get_capture_numbers
from ikeanalyze.wire.header import FLAG_INITIATOR, FLAG_RESPONSE
from ikeanalyze.wire.hip.packet import parse_hip
from ikeanalyze.wire.hip.parameters import HipAlgorithmList, HipNumber
from ikeanalyze.wire.registries.hip import HipPacketType
from ikeanalyze.wire.registries.hip_parameters import HipParameterType

#: What each packet answers, where the packet type alone tells it.
_ANSWERS: Final[Mapping[int, int]] = MappingProxyType(
    {
        HipPacketType.R1: HipPacketType.I1,
        HipPacketType.R2: HipPacketType.I2,
        HipPacketType.CLOSE_ACK: HipPacketType.CLOSE,
    }
)
_BASE: Final = frozenset({HipPacketType.I1, HipPacketType.R1, HipPacketType.I2, HipPacketType.R2})
_FROM_RESPONDER: Final = frozenset({HipPacketType.R1, HipPacketType.R2})
#: Packets that an attempt may have before its I2.
_OPENING: Final = frozenset({HipPacketType.I1, HipPacketType.R1, HipPacketType.NOTIFY})
_HIT: Final = 16
#: Of the header (RFC 7401, section 5.1): what stands before the HITs, and these; a zero HIT is an empty string.
_HEADER: Final = np.dtype([("before", "S8"), ("sender", f"S{_HIT}"), ("receiver", f"S{_HIT}")])

Hits = tuple[bytes, bytes]
"""The initiator's and the responder's HIT, 16 bytes each; the responder's is zero where it is not known."""


@dataclass(slots=True)
class HostAssociations:
    """Which association each datagram belongs to, and whose associations they are."""

    association: SaAssociation
    hits: Mapping[int, Hits]  # of those of HIP


@dataclass(slots=True)
class _HostAssociationCandidate:
    """An association under construction."""

    index: int
    initiator: bytes
    responder: bytes
    last_ns: int
    beyond: bool = False  # a packet that comes after R1 was seen
    established: bool = False  # R2
    closed: bool = False  # CLOSE_ACK
    contents: set[int] = field(default_factory=set)  # of R1 and I2
    #: Numbers of UPDATEs by sender (True: the initiator), each with whether it was an answer too.
    asked: dict[tuple[bool, int], bool] = field(default_factory=dict)
    ordinals: dict[int, int] = field(default_factory=dict)  # packets that are never answered, by content


@dataclass(frozen=True, slots=True)
class _Packet:
    """The values that identify the association of a packet."""

    capture: int  # and tunnel
    type: int
    sender: bytes
    receiver: bytes
    digest: int
    time_ns: int
    source: int
    destination: int


def associate_hip(datagrams: Datagrams, clear: MessageBytes) -> tuple[Datagrams, HostAssociations]:
    """Tell the associations of HIP datagrams apart; returns the datagrams with exchange types, flags and message IDs.

    `datagrams` are in order of capture and time; `clear` has their bytes, by `datagrams.datagram`.
    """
    hosts = _HostAssociator()
    count = len(datagrams)
    handshake, from_initiator = np.zeros(count, np.int32), np.zeros(count, np.bool_)
    exchange_type, flags = np.zeros(count, np.uint8), np.zeros(count, np.uint8)
    message_id = np.zeros(count, np.uint32)
    for row, packet in enumerate(_iterate_packets(datagrams, clear)):
        candidate = hosts.assign(packet)
        own = _is_from_initiator(packet, candidate)
        exchange_type[row], asks, message_id[row] = _get_role(
            packet, candidate, own, clear, int(datagrams.datagram[row])
        )
        handshake[row], from_initiator[row] = candidate.index, own
        flags[row] = FLAG_INITIATOR * own | FLAG_RESPONSE * (not asks)
    # numpy removes zeros at the end of a text
    hits = {host.index: (host.initiator.ljust(_HIT, b"\0"), host.responder.ljust(_HIT, b"\0")) for host in hosts.all}
    datagrams = structs.replace(datagrams, exchange_type=exchange_type, flags=flags, message_id=message_id)
    return datagrams, HostAssociations(SaAssociation(handshake, from_initiator, len(hosts.all)), hits)


def merge_associations(datagrams: Datagrams, ike: SaAssociation, hip: HostAssociations) -> HostAssociations:
    """The associations of all datagrams as one, numbered in order of their first datagrams.

    `ike` holds the datagrams that are not HIP, `hip` the others, both in the order of `datagrams`.
    """
    rows = np.equal(datagrams.protocol, Protocol.HIP)
    label = np.empty(len(datagrams), np.int32)
    label[~rows], label[rows] = ike.handshake, hip.association.handshake + ike.count
    from_initiator = np.empty(len(datagrams), np.bool_)
    from_initiator[~rows], from_initiator[rows] = ike.from_initiator, hip.association.from_initiator
    count = ike.count + hip.association.count
    rank = number_by_first_row(label, count)
    hits = {int(rank[index + ike.count]): both for index, both in hip.hits.items()}
    return HostAssociations(SaAssociation(rank.astype(np.int32)[label], from_initiator, count), hits)


def _iterate_packets(datagrams: Datagrams, clear: MessageBytes) -> Iterator[_Packet]:
    begin, size = clear.places(datagrams.datagram)
    header = read_struct_array(clear.heap, begin, _HEADER)
    header[size < _HEADER.itemsize] = np.zeros(1, _HEADER)  # was not kept
    # hosts are known within a capture and tunnel
    capture = get_capture_numbers(datagrams.source) << 32 | datagrams.scope
    columns: list[npt.NDArray[Any]] = [capture, datagrams.exchange_type, header["sender"], header["receiver"]]
    columns += [datagrams.digest, datagrams.first_ns, datagrams.source, datagrams.destination]
    for values in zip(*(column.tolist() for column in columns), strict=True):
        yield _Packet(*values)


class _HostAssociator:
    """Takes packets in order of capture and time."""

    def __init__(self) -> None:
        self.all: list[_HostAssociationCandidate] = []
        #: By capture, initiator's and responder's HIT.
        self._by_hits: dict[tuple[int, bytes, bytes], _HostAssociationCandidate] = {}
        #: By capture, initiator's HIT and the address that I1 went to.
        self._opportunistic: dict[tuple[int, bytes, int], _HostAssociationCandidate] = {}

    def assign(self, packet: _Packet) -> _HostAssociationCandidate:
        """The association of a packet."""
        candidate = self._find(packet) or self._add(packet)
        candidate.last_ns = packet.time_ns
        candidate.beyond |= packet.type not in _OPENING
        candidate.established |= packet.type == HipPacketType.R2
        candidate.closed |= packet.type == HipPacketType.CLOSE_ACK
        if packet.type in (HipPacketType.R1, HipPacketType.I2):
            candidate.contents.add(packet.digest)
        return candidate

    def _find(self, packet: _Packet) -> _HostAssociationCandidate | None:
        forth = self._by_hits.get((packet.capture, packet.sender, packet.receiver))
        back = self._by_hits.get((packet.capture, packet.receiver, packet.sender))
        match packet.type:
            case HipPacketType.I1:
                if not packet.receiver:
                    forth = self._opportunistic.get((packet.capture, packet.sender, packet.destination))
                late = forth is not None and packet.time_ns - forth.last_ns > MAX_LIFETIME_NS
                return None if late or (forth is not None and forth.beyond) else forth
            case HipPacketType.I2:
                forth = self._claim_opportunistic(packet, forth, from_responder=False) or forth
                return None if _is_over(forth, packet.digest) else forth
            case HipPacketType.R1:
                back = self._claim_opportunistic(packet, back, from_responder=True) or back
                return None if _is_over(back, packet.digest) else back
            case HipPacketType.R2:
                return back or self._claim_opportunistic(packet, None, from_responder=True)
        known = [candidate for candidate in (forth, back) if candidate is not None]
        return max(known, key=lambda candidate: candidate.last_ns, default=None)

    def _claim_opportunistic(
        self, packet: _Packet, known: _HostAssociationCandidate | None, *, from_responder: bool
    ) -> _HostAssociationCandidate | None:
        """The opportunistic attempt that a packet belongs to, unless the `known` association was used after it."""
        if from_responder:
            initiator, responder, address = packet.receiver, packet.sender, packet.source
        else:
            initiator, responder, address = packet.sender, packet.receiver, packet.destination
        candidate = self._opportunistic.get((packet.capture, initiator, address))
        if candidate is None or candidate.responder or (known is not None and known.last_ns > candidate.last_ns):
            return None
        candidate.responder = responder
        self._by_hits[packet.capture, initiator, responder] = candidate
        return candidate

    def _add(self, packet: _Packet) -> _HostAssociationCandidate:
        ends = (packet.sender, packet.receiver)
        initiator, responder = ends[::-1] if packet.type in _FROM_RESPONDER else ends
        candidate = _HostAssociationCandidate(len(self.all), initiator, responder, packet.time_ns)
        self.all.append(candidate)
        if packet.type == HipPacketType.I1 and not responder:
            self._opportunistic[packet.capture, initiator, packet.destination] = candidate
        else:
            self._by_hits[packet.capture, initiator, responder] = candidate
        return candidate


def _is_over(candidate: _HostAssociationCandidate | None, digest: int) -> bool:
    """Whether a packet of the base exchange with this content cannot belong to an association any more."""
    if candidate is None or digest in candidate.contents:
        return False
    return candidate.established or candidate.closed


def _is_from_initiator(packet: _Packet, candidate: _HostAssociationCandidate) -> bool:
    if packet.type in _BASE:
        return packet.type not in _FROM_RESPONDER
    return packet.sender == candidate.initiator


def _get_role(
    packet: _Packet, candidate: _HostAssociationCandidate, from_initiator: bool, clear: MessageBytes, datagram: int
) -> tuple[int, bool, int]:
    """Exchange type, whether the packet asks, and the number that tells the exchange from others of its type."""
    if packet.type == HipPacketType.UPDATE:
        return _get_role_of_update(candidate, from_initiator, clear.get(datagram, b""))
    if packet.type in _ANSWERS:
        return EXCHANGE + _ANSWERS[packet.type], False, 0
    if packet.type in _BASE or packet.type == HipPacketType.CLOSE:
        return EXCHANGE + packet.type, True, 0
    return EXCHANGE + packet.type, True, candidate.ordinals.setdefault(packet.digest, len(candidate.ordinals))


def _get_role_of_update(
    candidate: _HostAssociationCandidate, from_initiator: bool, data: bytes
) -> tuple[int, bool, int]:
    view = parse_hip(data)
    seq = ack = None
    if view is not None:
        seq, ack = view.value(HipParameterType.SEQ), view.value(HipParameterType.ACK)
    acknowledged = ack.numbers if isinstance(ack, HipAlgorithmList) else ()
    if isinstance(seq, HipNumber):
        candidate.asked.setdefault((from_initiator, seq.value), bool(acknowledged))
    if not acknowledged:
        return EXCHANGE + HipPacketType.UPDATE, True, seq.value if isinstance(seq, HipNumber) else 0
    known = (number for number in acknowledged if (not from_initiator, number) in candidate.asked)
    number = next(known, acknowledged[0])
    if candidate.asked.get((not from_initiator, number)):
        return HipPacketType.UPDATE, True, number
    return EXCHANGE + HipPacketType.UPDATE, False, number
