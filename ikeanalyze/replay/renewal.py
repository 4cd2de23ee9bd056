"""A recorded IKE_SA_INIT request made fit for another run: what must be new is new, all else is bit by bit as it was.

New are the initiator's SPI and nonce, so that no responder takes it for a retransmission; and the NAT detection hashes,
which are of SPI, addresses and ports (RFC 7296, 2.23). A hash that did not fit in the recording either (some force UDP
encapsulation that way) stays wrong. Any other message is protected by keys or meant for one IKE SA, and stays as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from ikeanalyze.replay.recorded import RecordedMessage
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2.message import compute_nat_detection_hash, parse_notify, parse_payloads
from ikeanalyze.wire.registries.ikev2 import ExchangeType, NotifyType, PayloadType

Randomness = Callable[[int], bytes]
_PAYLOAD_HEADER: Final = 4
_SPI: Final = 8


@dataclass(frozen=True, slots=True)
class UdpEndpoint:
    """An address and a port, of ours or of the target's."""

    address: bytes  # 4 or 16 bytes
    port: int


@dataclass(frozen=True, slots=True)
class RenewedMessage:
    """A message to be sent."""

    data: bytes = field(repr=False)
    changed: tuple[str, ...]  # what is new in it; empty: it is as recorded


def renew_message(
    message: RecordedMessage, source: UdpEndpoint, destination: UdpEndpoint, randomness: Randomness
) -> RenewedMessage:
    """The message with what must be new."""
    if message.exchange_type != ExchangeType.IKE_SA_INIT or message.response or len(message.data) < 2 * _SPI:
        return RenewedMessage(message.data, ())
    old_i, old_r = message.data[:_SPI], message.data[_SPI : 2 * _SPI]
    new_i = randomness(_SPI)
    data = bytearray(message.data)
    data[:_SPI] = new_i
    changed = ["SPIi"]
    ends = {
        NotifyType.NAT_DETECTION_SOURCE_IP: (message.source, source),
        NotifyType.NAT_DETECTION_DESTINATION_IP: (message.destination, destination),
    }
    for payload in parse_payloads(message.data).payloads:
        at = payload.offset + _PAYLOAD_HEADER
        if payload.type == PayloadType.NONCE and payload.body:
            data[at : at + len(payload.body)] = randomness(len(payload.body))
            changed.append("nonce")
        elif payload.type == PayloadType.NOTIFY:
            try:
                notify = parse_notify(payload.body)
            except WireError:
                continue
            if notify.type not in ends:
                continue
            (address, port), now = ends[NotifyType(notify.type)]
            if notify.data != compute_nat_detection_hash(old_i, old_r, ip_address(address).packed, port):
                continue
            at += len(payload.body) - len(notify.data)
            data[at : at + len(notify.data)] = compute_nat_detection_hash(new_i, old_r, now.address, now.port)
            changed.append(NotifyType(notify.type).label)
    return RenewedMessage(bytes(data), tuple(changed))
