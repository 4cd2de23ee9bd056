"""IKEv1 payloads in clear with other identities and addresses, of the same structure and size (RFC 2408, section 3).

SA, KE, nonce, vendor ID and delete payloads stay. The hash of aggressive mode becomes pseudorandom too: with it, a
pre-shared key could be guessed.
"""

from typing import Final

from ikeanalyze.sharing.anonymize.payloads import (
    MessageContext,
    rewrite_certificate,
    rewrite_certificate_request,
    rewrite_identity,
)
from ikeanalyze.wire.registries.ikev1 import Ikev1PayloadType
from ikeanalyze.wire.registries.ikev2 import IdType

_KEPT: Final = frozenset(
    {
        Ikev1PayloadType.SA,
        Ikev1PayloadType.KE,
        Ikev1PayloadType.NONCE,
        Ikev1PayloadType.DELETE,
        Ikev1PayloadType.VENDOR_ID,
    }
)
_NAT_HASHES: Final = (Ikev1PayloadType.NAT_D, Ikev1PayloadType.NAT_D_DRAFT)
_NAT_ADDRESSES: Final = (Ikev1PayloadType.NAT_OA, Ikev1PayloadType.NAT_OA_DRAFT)
#: Type, protocol and port before an identity; DOI, protocol, size of the SPI and type before the SPI of a notify.
_ID_HEADER: Final = 4
_NOTIFY_HEADER: Final = 8
_HASHES: Final = {16: ("md5",), 20: ("sha1",), 32: ("sha256",), 48: ("sha384",), 64: ("sha512",)}
#: Types of RFC 2407 (4.6.2.1) with another number in IKEv2: address ranges and subnets, user@FQDN is the same.
_SUBNETS_AND_RANGES: Final = (4, 6, 7, 8)


def rewrite_phase1_payload(kind: int, body: bytes, context: MessageContext) -> bytes:
    """The body of an IKEv1 payload, which may be truncated."""
    pseudonyms = context.pseudonyms
    if kind in _KEPT:
        return body
    if kind == Ikev1PayloadType.ID and body:
        return body[:_ID_HEADER] + _rewrite_identity(body[0], body[_ID_HEADER:], context)
    if kind == Ikev1PayloadType.CERT:
        return rewrite_certificate(body, pseudonyms)
    if kind == Ikev1PayloadType.CERTREQ:
        return rewrite_certificate_request(body, pseudonyms)
    if kind == Ikev1PayloadType.NOTIFY and len(body) >= _NOTIFY_HEADER:
        kept = _NOTIFY_HEADER + body[5]
        return body[:kept] + pseudonyms.map_bytes(body[kept:])
    if kind in _NAT_HASHES:
        return context.map_nat_hash(body, _HASHES.get(len(body), ()))
    if kind in _NAT_ADDRESSES and body[:1] in (b"\x01", b"\x05"):
        return body[:_ID_HEADER] + rewrite_identity(body[0], body[_ID_HEADER:], pseudonyms)
    return pseudonyms.map_bytes(body)


def _rewrite_identity(kind: int, data: bytes, context: MessageContext) -> bytes:
    pseudonyms, half = context.pseudonyms, len(data) // 2
    if kind in _SUBNETS_AND_RANGES and len(data) in (8, 32):
        if kind in (4, 6):  # an address and a netmask
            length = int.from_bytes(data[half:], "big").bit_count()
            return pseudonyms.map_prefix(data[:half], length) + data[half:]
        return b"".join(pseudonyms.map_range(data[:half], data[half:]))
    return pseudonyms.map_bytes(data) if kind == IdType.ID_KEY_ID else rewrite_identity(kind, data, pseudonyms)
