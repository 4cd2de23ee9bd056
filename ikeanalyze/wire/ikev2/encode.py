"""Encodes IKEv2 messages and payloads (RFC 7296, section 3).

A payload is a pair of type and body; the body follows the generic payload header. Values are encoded as they are,
without checks, so that invalid messages can be encoded too.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from ikeanalyze.wire.header import FLAG_INITIATOR, FLAG_RESPONSE, HEADER, VERSION_IKEV2
from ikeanalyze.wire.ikev2.proposals import (
    ATTRIBUTE,
    ATTRIBUTE_FORMAT_TV,
    PROPOSAL,
    TRANSFORM,
    Proposal,
    Transform,
    TransformAttributeValue,
)
from ikeanalyze.wire.ikev2.traffic_selectors import TrafficSelector
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER
from ikeanalyze.wire.registries.eap import EapCode
from ikeanalyze.wire.registries.ikev2 import CertEncoding, PayloadType

_METHOD: Final = Struct(">Hxx")
#: One byte (a type, a method or a count) and three reserved ones.
_BYTE_AND_RESERVED: Final = Struct(">B3x")
#: Protocol, SPI size, then the type of a notify or the number of deleted SPIs.
_PROTOCOL_AND_SPI: Final = Struct(">BBH")
_EAP: Final = Struct(">BBH")
#: Type, IP protocol, length, first and last port.
_SELECTOR: Final = Struct(">BBHHH")
#: Values of the field "last substructure".
_MORE_PROPOSALS: Final = 2
_MORE_TRANSFORMS: Final = 3

Payload = tuple[int, bytes]


def encode_chain(payloads: Iterable[Payload], following: int = PayloadType.NONE) -> tuple[int, bytes]:
    """Type of the first payload, and all payloads with their generic headers (RFC 7296, section 3.2).

    `following`: type of the payload after the last one, and of the first one if there are none.
    """
    chain = list(payloads)
    types = [*(kind for kind, _ in chain), following]
    return types[0], b"".join(
        PAYLOAD_HEADER.pack(next_type, 0, PAYLOAD_HEADER.size + len(body)) + body
        for (_, body), next_type in zip(chain, types[1:], strict=True)
    )


def encode_message(
    spi_i: bytes,
    spi_r: bytes,
    exchange_type: int,
    message_id: int,
    payloads: Iterable[Payload],
    *,
    from_initiator: bool = True,
    response: bool = False,
) -> bytes:
    """A clear message (RFC 7296, section 3.1).

    The SPIs have 8 bytes each; that of the responder is zeros in the first request. `from_initiator`: of the IKE SA.
    """
    first, body = encode_chain(payloads)
    flags = FLAG_INITIATOR * from_initiator | FLAG_RESPONSE * response
    size = HEADER.size + len(body)
    return HEADER.pack(spi_i, spi_r, first, VERSION_IKEV2, exchange_type, flags, message_id, size) + body


def encode_sa(proposals: Sequence[Proposal]) -> Payload:
    """SA payload (RFC 7296, section 3.3)."""
    last = len(proposals) - 1
    return PayloadType.SA, b"".join(
        _encode_proposal(proposal, _MORE_PROPOSALS if index < last else 0) for index, proposal in enumerate(proposals)
    )


def _encode_proposal(proposal: Proposal, more: int) -> bytes:
    last = len(proposal.transforms) - 1
    body = proposal.spi + b"".join(
        _encode_transform(transform, _MORE_TRANSFORMS if index < last else 0)
        for index, transform in enumerate(proposal.transforms)
    )
    fields = proposal.number, proposal.protocol, len(proposal.spi), len(proposal.transforms)
    return PROPOSAL.pack(more, PROPOSAL.size + len(body), *fields) + body


def _encode_transform(transform: Transform, more: int) -> bytes:
    body = b"".join(map(_encode_attribute, transform.attributes))
    return TRANSFORM.pack(more, TRANSFORM.size + len(body), transform.type, transform.id) + body


def _encode_attribute(attribute: TransformAttributeValue) -> bytes:
    """A number in the short format, bytes in the long one (RFC 7296, section 3.3.5)."""
    if isinstance(attribute.value, int):
        return ATTRIBUTE.pack(ATTRIBUTE_FORMAT_TV | attribute.type, attribute.value)
    return ATTRIBUTE.pack(attribute.type, len(attribute.value)) + attribute.value


def encode_key_exchange(method: int, data: bytes) -> Payload:
    """KE payload (RFC 7296, section 3.4)."""
    return PayloadType.KE, _METHOD.pack(method) + data


def encode_identification(kind: PayloadType, type_: int, data: bytes) -> Payload:
    """IDi or IDr payload (RFC 7296, section 3.5)."""
    return kind, _BYTE_AND_RESERVED.pack(type_) + data


def encode_certificate(data: bytes, encoding: int = CertEncoding.X509_SIGNATURE) -> Payload:
    """CERT payload (RFC 7296, section 3.6)."""
    return PayloadType.CERT, bytes([encoding]) + data


def encode_certificate_request(key_digests: Sequence[bytes], encoding: int = CertEncoding.X509_SIGNATURE) -> Payload:
    """CERTREQ payload (RFC 7296, section 3.7). `key_digests`: SHA-1 of the public keys of trusted authorities."""
    return PayloadType.CERTREQ, bytes([encoding]) + b"".join(key_digests)


def encode_authentication(method: int, data: bytes) -> Payload:
    """AUTH payload (RFC 7296, section 3.8)."""
    return PayloadType.AUTH, _BYTE_AND_RESERVED.pack(method) + data


def encode_notify(type_: int, data: bytes = b"", protocol: int = 0, spi: bytes = b"") -> Payload:
    """Notify payload (RFC 7296, section 3.10)."""
    return PayloadType.NOTIFY, _PROTOCOL_AND_SPI.pack(protocol, len(spi), type_) + spi + data


def encode_delete(protocol: int, spis: Sequence[bytes] = ()) -> Payload:
    """Delete payload (RFC 7296, section 3.11); without SPIs for the IKE SA (protocol 1)."""
    size = len(spis[0]) if spis else 0
    return PayloadType.DELETE, _PROTOCOL_AND_SPI.pack(protocol, size, len(spis)) + b"".join(spis)


def encode_traffic_selectors(kind: PayloadType, selectors: Sequence[TrafficSelector]) -> Payload:
    """TSi or TSr payload (RFC 7296, section 3.13) with selectors of address ranges."""
    parts = [_BYTE_AND_RESERVED.pack(len(selectors))]
    for selector in selectors:
        addresses = selector.start + selector.end
        size = _SELECTOR.size + len(addresses)
        ports = selector.ports or (0, 0xFFFF)
        parts.append(_SELECTOR.pack(selector.type, selector.protocol, size, *ports) + addresses)
    return kind, b"".join(parts)


def encode_eap(code: EapCode, identifier: int, type_: int | None = None, data: bytes = b"") -> bytes:
    """An EAP packet (RFC 3748, section 4), the body of an EAP payload. `type_`: None for success and failure."""
    body = b"" if type_ is None else bytes([type_]) + data
    return _EAP.pack(code, identifier, _EAP.size + len(body)) + body
