"""Describes payloads of IKEv1 in a few words each: `ID(10.0.0.0/24) HASH N(INITIAL-CONTACT) V(XAuth)`."""

from collections.abc import Iterable
from typing import Final

from ikeanalyze.wire.ikev1.message import Ikev1Fragment
from ikeanalyze.wire.ikev1.payloads import (
    Ikev1Body,
    Ikev1Delete,
    Ikev1Identification,
    Ikev1Notify,
    NatOriginalAddress,
    Transaction,
    decode_ikev1_payload,
)
from ikeanalyze.wire.ikev2.decode import MalformedPayload, VendorId
from ikeanalyze.wire.ikev2.describe import describe_certificate, describe_delete, describe_vendor_id, join_texts
from ikeanalyze.wire.payload_chain import Payload, PayloadChain
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev1 import Ikev1PayloadType, Ikev1ProtocolId
from ikeanalyze.wire.registries.ikev1_notifies import Ikev1NotifyType
from ikeanalyze.wire.registries.ikev1_phase2 import TransactionType
from ikeanalyze.wire.text import shorten_text
from ikeanalyze.wire.x509.certificates import ParsedCertificate

_NAMES: Final = {Ikev1PayloadType.NONCE: "No", Ikev1PayloadType.VENDOR_ID: "V"}
_MAX_ATTRIBUTES: Final = 8


def describe_ikev1_payloads(chain: PayloadChain | Iterable[Payload]) -> list[str]:
    """A short text for each payload of a clear or decrypted message, in order. Never raises.

    Nonce and vendor ID have IKEv2's short names. Values chosen by a peer are escaped and shortened.
    """
    payloads = chain.payloads if isinstance(chain, PayloadChain) else chain
    return [describe_ikev1_payload(payload) for payload in payloads]


def describe_ikev1_payload(payload: Payload) -> str:
    """A short text for one payload."""
    if payload.type not in Ikev1PayloadType._value2member_map_:
        return f"unknown {payload.type}"
    name = _NAMES.get(Ikev1PayloadType(payload.type)) or get_name(Ikev1PayloadType, payload.type)
    details = _describe_body(decode_ikev1_payload(payload))
    return f"{name}({details})" if details else name


def _describe_body(body: Ikev1Body) -> str:
    match body:
        case MalformedPayload():
            return "?"
        case Ikev1Identification():
            return shorten_text(body.text or "?")
        case Ikev1Notify():
            return get_name(Ikev1NotifyType, body.type)
        case Ikev1Delete():
            protocol = get_name(Ikev1ProtocolId, body.protocol).removeprefix("PROTO_").removeprefix("IPSEC_")
            return describe_delete(protocol, len(body.spis), False)
        case Transaction():
            return _describe_transaction(body)
        case ParsedCertificate():
            return describe_certificate(body)
        case VendorId(data, name):
            return describe_vendor_id(data, name)
        case NatOriginalAddress(text):
            return text or "?"
        case Ikev1Fragment(_, number, last):
            return f"{number}, last" if last else str(number)
        case _:
            return ""


def _describe_transaction(transaction: Transaction) -> str:
    pairs = list(zip(transaction.names, transaction.texts, strict=True))
    texts = [name if text is None else f"{name}={shorten_text(text)}" for name, text in pairs[:_MAX_ATTRIBUTES]]
    text = join_texts(texts, len(pairs), " ")
    kind = get_name(TransactionType, transaction.type)
    return f"{kind}: {text}" if text else kind
