"""Lists the contents of a payload, as far as `wire` decodes them, as names and values."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from ikeanalyze.render.core.values import escape_text, format_identifier, format_integer
from ikeanalyze.wire.eap.methods import EapMessage, describe_eap
from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev1.payloads import Ikev1Body, Transaction, decode_ikev1_payload
from ikeanalyze.wire.ikev1.proposals import parse_ikev1_sa
from ikeanalyze.wire.ikev2.auth_methods import get_authentication_name
from ikeanalyze.wire.ikev2.configuration import Configuration
from ikeanalyze.wire.ikev2.decode import Body, MalformedPayload, Nonce, SkPayload, UnparsedPayload, VendorId
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.ikev2.notify_data import describe_notify
from ikeanalyze.wire.ikev2.payloads import (
    Authentication,
    CertificateRequest,
    Delete,
    Identification,
    KeyExchange,
    Notify,
)
from ikeanalyze.wire.ikev2.proposals import SecurityAssociation
from ikeanalyze.wire.ikev2.traffic_selectors import TrafficSelectorPayload
from ikeanalyze.wire.payload_chain import Payload
from ikeanalyze.wire.radius import RadiusPacket
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev1 import Ikev1ExchangeType as ExchangeType1
from ikeanalyze.wire.registries.ikev1 import Ikev1PayloadType as PayloadType1
from ikeanalyze.wire.registries.ikev2 import CertEncoding, IdType, ProtocolId, TrafficSelectorType
from ikeanalyze.wire.registries.ikev2_transforms import TransformType
from ikeanalyze.wire.x509.certificates import ParsedCertificate

Facts = Iterator[tuple[str, str]]

#: Bytes of a value that are listed; the hex dump has all.
_MAX_OCTETS: Final = 16


def list_payload_facts(body: Body | Ikev1Body) -> Facts:
    """List the contents of a payload. Text from the peer is escaped for the terminal."""
    match body:
        case SecurityAssociation():
            yield from _list_sa(body)
        case KeyExchange(method, data):
            yield "method", f"{get_key_exchange_name(method)} ({method})"
            yield "data", format_octets(data)
        case Identification(kind, data):
            yield "type", f"{get_name(IdType, kind)} ({kind})"
            yield "identity", escape_text(format_identity(kind, data) or format_octets(data))
        case ParsedCertificate():
            yield from _list_certificate(body)
        case CertificateRequest(encoding, authorities):
            yield "encoding", f"{get_name(CertEncoding, encoding)} ({encoding})"
            if authorities is not None:
                yield "authorities", format_integer(authorities)
        case Authentication(method, data):
            yield "method", f"{get_authentication_name(body)} ({method})"
            yield "data", format_octets(data)
        case Nonce(data):
            yield "data", format_octets(data)
        case Notify():
            yield from _list_notify(body)
        case Delete(protocol, spis, _):
            yield "protocol", get_name(ProtocolId, protocol)
            yield "SPIs", ", ".join(spi.hex() for spi in spis) or "none: the IKE SA itself"
        case VendorId(data, name):
            if name is not None:
                yield "name", escape_text(name)
            yield "data", format_octets(data)
        case TrafficSelectorPayload(selectors):
            for selector in selectors:
                yield get_name(TrafficSelectorType, selector.type), escape_text(selector.describe())
        case Configuration():
            yield "type", body.name
            for entry in body.entries:
                yield entry.name, escape_text(entry.value or (format_octets(entry.data) if entry.data else "requested"))
        case EapMessage():
            yield from _list_eap(body)
        case SkPayload(size, _, _):
            yield "encrypted", f"{size:,} bytes of IV, ciphertext and ICV"
        case UnparsedPayload(size):
            yield "data", f"{size:,} bytes"
        case MalformedPayload(error):
            yield "error", escape_text(error)
        case Transaction(kind, ident, names, texts):
            yield "type", format_integer(kind)
            yield "identifier", format_identifier(ident)
            for name, text in zip(names, texts, strict=True):
                yield escape_text(name), escape_text(text or "-")
        case _:
            yield from _list_fields(body)


def list_ikev1_facts(payload: Payload, exchange_type: int) -> Facts:
    """List the contents of an IKEv1 payload; the exchange determines the format of an SA payload."""
    if payload.type != PayloadType1.SA:
        yield from list_payload_facts(decode_ikev1_payload(payload))
        return
    sa = parse_ikev1_sa(payload.body)
    if exchange_type == ExchangeType1.QUICK_MODE:
        for proposal in sa.proposals:
            yield f"proposal {proposal.number}", f"{escape_text(proposal.describe())}, SPI {proposal.spi.hex()}"
    else:
        for transform in sa.transforms:
            yield f"transform {transform.number}", escape_text(transform.describe())
    if sa.error is not None:
        yield "error", escape_text(sa.error)


def list_radius_facts(view: RadiusPacket) -> Facts:
    """List the contents of a RADIUS packet, without user names and passwords."""
    yield "identifier", format_identifier(view.identifier)
    yield "length", f"{view.length:,} bytes"
    yield "authenticator", view.authenticator.hex()
    for name, value in (
        ("NAS", view.nas_ip),
        ("calling station", view.calling_station_id),
        ("called station", view.called_station_id),
        ("error", view.error),
    ):
        if value is not None:
            yield name, escape_text(value)
    if view.state is not None:
        yield "state", format_octets(view.state)


def format_octets(data: bytes) -> str:
    """Return the number of bytes, and the first bytes in hexadecimal."""
    if not data:
        return "0 bytes"
    more = "…" if len(data) > _MAX_OCTETS else ""
    return f"{len(data):,} bytes  {data[:_MAX_OCTETS].hex()}{more}"


def _list_sa(body: SecurityAssociation) -> Facts:
    for proposal in body.proposals:
        spi = f", SPI {proposal.spi.hex()}" if proposal.spi else ""
        yield f"proposal {proposal.number}", f"{get_name(ProtocolId, proposal.protocol)}{spi}"
        names_by_type: dict[int, list[str]] = {}
        for transform in proposal.transforms:
            names_by_type.setdefault(transform.type, []).append(transform.name)
        for kind, names in names_by_type.items():
            yield f"  {get_name(TransformType, kind)}", ", ".join(map(escape_text, names))
    if body.error is not None:
        yield "error", escape_text(body.error)


def _list_certificate(view: ParsedCertificate) -> Facts:
    yield "encoding", f"{get_name(CertEncoding, view.encoding)} ({view.encoding})"
    if view.x509 is not None:
        x509 = view.x509
        yield "subject", escape_text(x509.subject or "-")
        yield "issuer", escape_text(x509.issuer or "-")
        yield "serial", x509.serial
        yield "key", f"{escape_text(x509.key.name)}, {x509.key_bytes:,} bytes"
        yield "signature", f"{escape_text(x509.signature.name)}, {x509.signature_bytes:,} bytes"
        yield "other", f"{x509.other_bytes:,} bytes"
    elif view.key is not None:
        yield "key", escape_text(view.key.name)
    if view.url is not None:
        yield "URL", escape_text(view.url)
    if view.digest is not None:
        yield "SHA-1", view.digest.hex()
    if view.error is not None:
        yield "error", escape_text(view.error)


def _list_notify(notify: Notify) -> Facts:
    yield "type", f"{escape_text(describe_notify(notify))} ({notify.type})"
    if notify.protocol or notify.spi:
        yield "protocol", get_name(ProtocolId, notify.protocol)
    if notify.spi:
        yield "SPI", notify.spi.hex()
    if notify.data:
        yield "data", format_octets(notify.data)


def _list_eap(message: EapMessage) -> Facts:
    yield "EAP", escape_text(describe_eap(message))
    yield "identifier", format_identifier(message.packet.identifier)
    yield "length", f"{message.packet.length:,} bytes"
    if message.content is not None:
        yield from _list_fields(message.content)
    if message.error is not None:
        yield "error", escape_text(message.error)


def _list_fields(value: Any) -> Facts:
    """List the fields of a parsed value."""
    if not isinstance(value, Struct):
        return
    for name in value.__struct_fields__:
        text = _format_value(getattr(value, name))
        if text is not None:
            yield name.replace("_", " "), text


def _format_value(value: object) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "yes" if value else "no"
        case int():
            return format_integer(value)
        case bytes():
            return format_octets(value)
        case str():
            return escape_text(value)
        case tuple() | list():
            return ", ".join(filter(None, map(_format_value, value))) or (None if value else "none")
        case _:
            return None
