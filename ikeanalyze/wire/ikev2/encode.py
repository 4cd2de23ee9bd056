"""Values to bytes: IKEv2 messages, and the payloads that are a few fields and data. SA payloads: `encoding_sa`.

A payload is a pair of type and body, the body being what follows the generic payload header. What is given is
written: whether it makes sense is the caller's business, so that messages that make none can be written too.

The security association payload from values to bytes (RFC 7296, section 3.3); `proposals` reads it.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from ikeanalyze.wire.header import FLAG_INITIATOR, FLAG_RESPONSE, HEADER, VERSION_IKEV2
from ikeanalyze.wire.ikev2.proposals import Proposal, Transform, TransformAttributeValue
from ikeanalyze.wire.ikev2.traffic_selectors import TrafficSelector
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER
from ikeanalyze.wire.registries.eap import EapCode
from ikeanalyze.wire.registries.ikev2 import CertEncoding, PayloadType

_KEY_EXCHANGE: Final = Struct(">Hxx")
_KIND: Final = Struct(">B3x")
#: Protocol, SPI size, type of a notify; or number of the SPIs that are deleted.
_ABOUT_SPIS: Final = Struct(">BBH")
_EAP: Final = Struct(">BBH")
#: Type, IP protocol, length, first and last port.
_SELECTOR: Final = Struct(">BBHHH")

Payload = tuple[int, bytes]


def encode_chain(payloads: Iterable[Payload]) -> tuple[int, bytes]:
    """Type of the first payload (0: there is none) and all of them, each with its generic header (RFC 7296, 3.2)."""
    listed = list(payloads)
    following = [*(kind for kind, _ in listed), 0]
    return following[0], b"".join(
        PAYLOAD_HEADER.pack(after, 0, PAYLOAD_HEADER.size + len(body)) + body
        for (_, body), after in zip(listed, following[1:], strict=True)
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
    """A message in clear (RFC 7296, section 3.1). Encrypted ones are made by `keys.sealed.seal`."""
    first, body = encode_chain(payloads)
    flags = FLAG_INITIATOR * from_initiator | FLAG_RESPONSE * response
    size = HEADER.size + len(body)
    return HEADER.pack(spi_i, spi_r, first, VERSION_IKEV2, exchange_type, flags, message_id, size) + body


def encode_key_exchange(method: int, data: bytes) -> Payload:
    """KE payload (RFC 7296, section 3.4)."""
    return PayloadType.KE, _KEY_EXCHANGE.pack(method) + data


def encode_identification(kind: PayloadType, type_: int, data: bytes) -> Payload:
    """IDi or IDr payload (RFC 7296, section 3.5)."""
    return kind, _KIND.pack(type_) + data


def encode_certificate(data: bytes, encoding: int = CertEncoding.X509_SIGNATURE) -> Payload:
    """CERT payload (RFC 7296, section 3.6)."""
    return PayloadType.CERT, bytes([encoding]) + data


def encode_certificate_request(key_digests: Sequence[bytes], encoding: int = CertEncoding.X509_SIGNATURE) -> Payload:
    """CERTREQ payload (RFC 7296, section 3.7). `key_digests`: SHA-1 of the public keys of trusted authorities."""
    return PayloadType.CERTREQ, bytes([encoding]) + b"".join(key_digests)


def encode_authentication(method: int, data: bytes) -> Payload:
    """AUTH payload (RFC 7296, section 3.8)."""
    return PayloadType.AUTH, _KIND.pack(method) + data


def encode_notify(type_: int, data: bytes = b"", protocol: int = 0, spi: bytes = b"") -> Payload:
    """Notify payload (RFC 7296, section 3.10)."""
    return PayloadType.NOTIFY, _ABOUT_SPIS.pack(protocol, len(spi), type_) + spi + data


def encode_delete(protocol: int, spis: Sequence[bytes] = ()) -> Payload:
    """Delete payload (RFC 7296, section 3.11); of the IKE SA (protocol 1) it has no SPIs."""
    size = len(spis[0]) if spis else 0
    return PayloadType.DELETE, _ABOUT_SPIS.pack(protocol, size, len(spis)) + b"".join(spis)


def encode_traffic_selectors(kind: PayloadType, selectors: Sequence[TrafficSelector]) -> Payload:
    """TSi or TSr payload (RFC 7296, section 3.13) with selectors of addresses."""
    parts = [_KIND.pack(len(selectors))]
    for selector in selectors:
        first, last = selector.ports or (0, 0xFFFF)
        size = _SELECTOR.size + len(selector.start) + len(selector.end)
        parts.append(
            _SELECTOR.pack(selector.type, selector.protocol, size, first, last) + selector.start + selector.end
        )
    return kind, b"".join(parts)


def encode_eap(code: EapCode, identifier: int, type_: int | None = None, data: bytes = b"") -> bytes:
    """An EAP packet (RFC 3748, section 4), the body of an EAP payload. `type_`: None for success and failure."""
    body = b"" if type_ is None else bytes([type_]) + data
    return _EAP.pack(code, identifier, _EAP.size + len(body)) + body


pass

#: Last substructure, length, number, protocol, SPI size, number of transforms.
_PROPOSAL: Final = Struct(">BxHBBBB")
#: Last substructure, length, transform type, transform ID.
_TRANSFORM: Final = Struct(">BxHBxH")
_ATTRIBUTE: Final = Struct(">HH")
_TYPE_AND_VALUE: Final = 0x8000
_MORE_PROPOSALS: Final = 2
_MORE_TRANSFORMS: Final = 3


def encode_sa(proposals: Sequence[Proposal]) -> Payload:
    """SA payload. Numbers, SPIs and the order of everything are those of the values."""
    last = len(proposals) - 1
    return PayloadType.SA, b"".join(
        _proposal(proposal, _MORE_PROPOSALS if index < last else 0) for index, proposal in enumerate(proposals)
    )


def _proposal(proposal: Proposal, more: int) -> bytes:
    last = len(proposal.transforms) - 1
    body = proposal.spi + b"".join(
        _transform(transform, _MORE_TRANSFORMS if index < last else 0)
        for index, transform in enumerate(proposal.transforms)
    )
    head = proposal.number, proposal.protocol, len(proposal.spi), len(proposal.transforms)
    return _PROPOSAL.pack(more, _PROPOSAL.size + len(body), *head) + body


def _transform(transform: Transform, more: int) -> bytes:
    body = b"".join(map(_attribute, transform.attributes))
    return _TRANSFORM.pack(more, _TRANSFORM.size + len(body), transform.type, transform.id) + body


def _attribute(attribute: TransformAttributeValue) -> bytes:
    """In the short format if the value is a number, in the long one if it is bytes (section 3.3.5)."""
    if isinstance(attribute.value, int):
        return _ATTRIBUTE.pack(_TYPE_AND_VALUE | attribute.type, attribute.value)
    return _ATTRIBUTE.pack(attribute.type, len(attribute.value)) + attribute.value
