"""IKEv2 payloads with other identities and addresses, of the same structure and size (RFC 7296, section 3).

SA, KE, nonce, vendor ID and delete payloads stay: they name algorithms, random values and products. Of all other
payloads, what is not known to be harmless becomes pseudorandom.
"""

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.sharing.anonymize.certificates import rewrite_der
from ikeanalyze.sharing.anonymize.eap import rewrite_eap
from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms
from ikeanalyze.wire.ikev2 import traffic_selectors
from ikeanalyze.wire.ikev2.configuration import ATTRIBUTE_TYPE_MASK
from ikeanalyze.wire.payload_chain import ENCRYPTED_TYPES, PAYLOAD_HEADER
from ikeanalyze.wire.registries.ikev2 import (
    AuthMethod,
    CertEncoding,
    ConfigurationAttribute,
    IdType,
    PayloadType,
)
from ikeanalyze.wire.registries.ikev2_notifies import GatewayIdentity, NotifyType

_SHA1_BYTES: Final = 20
_ADDRESS_BYTES: Final = (4, 16)
_ID_HEADER: Final = 4
_NOTIFY_HEADER: Final = 4
_NAT_HASHES: Final = (NotifyType.NAT_DETECTION_SOURCE_IP, NotifyType.NAT_DETECTION_DESTINATION_IP)
#: Notifies whose data are numbers of the protocol.
_KEPT_NOTIFIES: Final = frozenset(
    {
        NotifyType.UNSUPPORTED_CRITICAL_PAYLOAD,
        NotifyType.INVALID_MESSAGE_ID,
        NotifyType.INVALID_SPI,
        NotifyType.INVALID_KE_PAYLOAD,
        NotifyType.SET_WINDOW_SIZE,
        NotifyType.IPCOMP_SUPPORTED,
        NotifyType.AUTH_LIFETIME,
        NotifyType.SECURE_PASSWORD_METHODS,
        NotifyType.IKEV2_MESSAGE_ID_SYNC,
        NotifyType.IPSEC_REPLAY_COUNTER_SYNC,
        NotifyType.SIGNATURE_HASH_ALGORITHMS,
        NotifyType.SUPPORTED_AUTH_METHODS,
        NotifyType.USE_AGGFRAG,
        NotifyType.ROHC_SUPPORTED,
    }
)
_ADDRESS_NOTIFIES: Final = (NotifyType.ADDITIONAL_IP4_ADDRESS, NotifyType.ADDITIONAL_IP6_ADDRESS)
_TEXT_IDS: Final = (IdType.ID_FQDN, IdType.ID_RFC822_ADDR)
_DER_IDS: Final = (IdType.ID_DER_ASN1_DN, IdType.ID_DER_ASN1_GN)
_HASH_AND_URL: Final = (CertEncoding.HASH_AND_URL, CertEncoding.HASH_AND_URL_BUNDLE)
_KEPT_ATTRIBUTES: Final = (
    ConfigurationAttribute.INTERNAL_IP4_NETMASK,
    ConfigurationAttribute.SUPPORTED_ATTRIBUTES,
    ConfigurationAttribute.TIMEOUT_PERIOD_FOR_LIVENESS_CHECK,
)
_TEXT_ATTRIBUTES: Final = (
    ConfigurationAttribute.APPLICATION_VERSION,
    ConfigurationAttribute.INTERNAL_DNS_DOMAIN,
)


@dataclass(frozen=True, slots=True)
class SeenEndpoint:
    """Source or destination of a datagram, as the capture has it."""

    address: bytes  # 4 or 16 bytes
    port: int


@dataclass(frozen=True, slots=True)
class MessageContext:
    """What the payloads of a message refer to."""

    spis: bytes  # both SPIs of the message's header
    source: SeenEndpoint
    destination: SeenEndpoint
    pseudonyms: Pseudonyms = field(repr=False)
    others: Collection[SeenEndpoint] = ()  # of the same IKE SA on the other side of a NAT

    def map_nat_hash(self, claimed: bytes, hashes: tuple[str, ...] = ("sha1",)) -> bytes:
        """A NAT detection hash: that of the pseudonym, if it is that of an endpoint; else one that fits nothing."""
        for name in hashes:
            for end in (self.source, self.destination, *self.others):
                if self._hash(name, end.address, end.port) == claimed:
                    return self._hash(name, self.pseudonyms.map_address(end.address), end.port)
        return self.pseudonyms.map_bytes(claimed)

    def _hash(self, name: str, address: bytes, port: int) -> bytes:
        # prescribed by the protocol (RFC 7296, 2.23); not used for security here
        return hashlib.new(name, self.spis + address + port.to_bytes(2, "big"), usedforsecurity=False).digest()


RewriteBody = Callable[[int, bytes, MessageContext], bytes]


def rewrite_chain(data: bytes, first: int, context: MessageContext, rewrite: RewriteBody) -> bytes:
    """Rewrite a chain of payloads, which may be truncated; `first` is the type of the first one.

    An encrypted payload of IKEv2 stays as it is. Bytes that belong to no payload become pseudorandom.
    """
    out, at, kind = bytearray(), 0, first
    while kind and at + PAYLOAD_HEADER.size <= len(data):
        following, _, size = PAYLOAD_HEADER.unpack_from(data, at)
        if size < PAYLOAD_HEADER.size:
            break
        if kind in ENCRYPTED_TYPES:
            return bytes(out) + data[at:]
        body = data[at + PAYLOAD_HEADER.size : at + size]
        out += data[at : at + PAYLOAD_HEADER.size] + rewrite(kind, body, context)
        at, kind = at + PAYLOAD_HEADER.size + len(body), following
    return bytes(out) + context.pseudonyms.map_bytes(data[at:])


def rewrite_payload(kind: int, body: bytes, context: MessageContext) -> bytes:
    """The body of an IKEv2 payload, which may be truncated."""
    if kind in _KEPT_PAYLOADS:
        return body
    rewrite = _REWRITERS.get(kind)
    return context.pseudonyms.map_bytes(body) if rewrite is None else rewrite(body, context)


def rewrite_identity(kind: int, data: bytes, pseudonyms: Pseudonyms) -> bytes:
    """The data of an identity of this type."""
    if kind in _TEXT_IDS:
        return pseudonyms.map_text(data)
    if kind in _DER_IDS:
        return rewrite_der(data, pseudonyms)
    if kind in (IdType.ID_IPV4_ADDR, IdType.ID_IPV6_ADDR) and len(data) in _ADDRESS_BYTES:
        return pseudonyms.map_address(data)
    return pseudonyms.map_bytes(data)


def rewrite_certificate(body: bytes, pseudonyms: Pseudonyms) -> bytes:
    """The body of a certificate payload: its encoding stays."""
    encoding, data = body[0] if body else None, body[1:]
    if encoding in (CertEncoding.X509_SIGNATURE, CertEncoding.RAW_PUBLIC_KEY, CertEncoding.RAW_RSA_KEY, 5):
        return body[:1] + rewrite_der(data, pseudonyms)
    if encoding in _HASH_AND_URL:
        return body[:1] + pseudonyms.map_bytes(data[:_SHA1_BYTES]) + pseudonyms.map_text(data[_SHA1_BYTES:])
    return body[:1] + pseudonyms.map_bytes(data)


def rewrite_certificate_request(body: bytes, pseudonyms: Pseudonyms) -> bytes:
    """The body of a certificate request: each SHA-1 of an authority's key on its own (RFC 7296, 3.7)."""
    hashes = (body[at : at + _SHA1_BYTES] for at in range(1, len(body), _SHA1_BYTES))
    return body[:1] + b"".join(map(pseudonyms.map_bytes, hashes))


def _rewrite_id(body: bytes, context: MessageContext) -> bytes:
    if not body:
        return body
    return body[:_ID_HEADER] + rewrite_identity(body[0], body[_ID_HEADER:], context.pseudonyms)


def _rewrite_auth(body: bytes, context: MessageContext) -> bytes:
    kept = 4
    if body[:1] == bytes([AuthMethod.DIGITAL_SIGNATURE]) and len(body) > kept:
        kept += 1 + body[kept]  # the algorithm, after its length (RFC 7427, 3)
    return body[:kept] + context.pseudonyms.map_bytes(body[kept:])


def _rewrite_notify(body: bytes, context: MessageContext) -> bytes:
    if len(body) < _NOTIFY_HEADER:
        return body
    kept = _NOTIFY_HEADER + body[1]  # with the SPI
    kind, data = int.from_bytes(body[2:4], "big"), body[kept:]
    pseudonyms = context.pseudonyms
    if kind in _KEPT_NOTIFIES:
        return body
    if kind in _NAT_HASHES:
        data = context.map_nat_hash(data)
    elif kind in _ADDRESS_NOTIFIES and len(data) in _ADDRESS_BYTES:
        data = pseudonyms.map_address(data)
    elif kind in (NotifyType.REDIRECT, NotifyType.REDIRECTED_FROM):
        data = _rewrite_gateway(data, pseudonyms)
    else:
        data = pseudonyms.map_bytes(data)
    return body[:kept] + data


def _rewrite_gateway(data: bytes, pseudonyms: Pseudonyms) -> bytes:
    """The gateway of REDIRECT, after its type and length (RFC 5685, 7.2); its nonce is that of the request."""
    if len(data) < 2:
        return pseudonyms.map_bytes(data)
    end = 2 + data[1]
    name, rest = data[2:end], data[end:]
    if data[0] == GatewayIdentity.FQDN:
        name = pseudonyms.map_text(name)
    else:
        name = pseudonyms.map_address(name) if len(name) in _ADDRESS_BYTES else pseudonyms.map_bytes(name)
    return data[:2] + name + rest


def _rewrite_selectors(body: bytes, context: MessageContext) -> bytes:
    out, at = bytearray(body[:4]), 4
    while at + 4 <= len(body):
        size = max(int.from_bytes(body[at + 2 : at + 4], "big"), 4)
        out += _rewrite_selector(body[at : at + size], context.pseudonyms)
        at += size
    return bytes(out) + context.pseudonyms.map_bytes(body[at:])


def _rewrite_selector(selector: bytes, pseudonyms: Pseudonyms) -> bytes:
    """Type, protocol, length, ports, and both addresses (RFC 7296, 3.13.1)."""
    width = traffic_selectors.ADDRESS_BYTES.get(selector[0])
    if width is None or len(selector) != 8 + 2 * width:
        return selector[:4] + pseudonyms.map_bytes(selector[4:])
    return selector[:8] + b"".join(pseudonyms.map_range(selector[8 : 8 + width], selector[8 + width :]))


def _rewrite_configuration(body: bytes, context: MessageContext) -> bytes:
    out, at = bytearray(body[:4]), 4
    while at + 4 <= len(body):
        kind = int.from_bytes(body[at : at + 2], "big") & ATTRIBUTE_TYPE_MASK
        size = int.from_bytes(body[at + 2 : at + 4], "big")
        value = body[at + 4 : at + 4 + size]
        out += body[at : at + 4] + _rewrite_attribute(kind, value, context.pseudonyms)
        at += 4 + size
    return bytes(out) + context.pseudonyms.map_bytes(body[at:])


def _rewrite_attribute(kind: int, value: bytes, pseudonyms: Pseudonyms) -> bytes:
    if kind in _KEPT_ATTRIBUTES:
        return value
    if kind in _TEXT_ATTRIBUTES:
        return pseudonyms.map_text(value)
    if kind == ConfigurationAttribute.INTERNAL_IP4_SUBNET and len(value) == 8:
        length = int.from_bytes(value[4:], "big").bit_count()
        return pseudonyms.map_prefix(value[:4], length) + value[4:]
    match len(value):
        case 4 | 16:
            return pseudonyms.map_address(value)
        case 17:  # an address and the length of its prefix
            return pseudonyms.map_address(value[:16]) + value[16:]
        case _:
            return pseudonyms.map_bytes(value)


_KEPT_PAYLOADS: Final = frozenset(
    {PayloadType.SA, PayloadType.KE, PayloadType.NONCE, PayloadType.DELETE, PayloadType.VENDOR_ID}
)
_REWRITERS: Final[dict[int, Callable[[bytes, MessageContext], bytes]]] = {
    PayloadType.IDI: _rewrite_id,
    PayloadType.IDR: _rewrite_id,
    PayloadType.CERT: lambda body, context: rewrite_certificate(body, context.pseudonyms),
    PayloadType.CERTREQ: lambda body, context: rewrite_certificate_request(body, context.pseudonyms),
    PayloadType.AUTH: _rewrite_auth,
    PayloadType.NOTIFY: _rewrite_notify,
    PayloadType.TSI: _rewrite_selectors,
    PayloadType.TSR: _rewrite_selectors,
    PayloadType.CP: _rewrite_configuration,
    PayloadType.EAP: lambda body, context: rewrite_eap(body, context.pseudonyms),
}
