"""Payloads of IKEv1 in a few words each: `ID(10.0.0.0/24) HASH N(INITIAL-CONTACT) V(XAuth)`."""

from collections.abc import Iterable
from typing import Final

from ikeanalyze.wire.certificates import CertificateView
from ikeanalyze.wire.chain import Chain, Payload
from ikeanalyze.wire.describe import describe_certificate, describe_delete, describe_vendor_id, listed
from ikeanalyze.wire.ikev1 import Fragment
from ikeanalyze.wire.ikev1_payloads import (
    Address,
    Body1,
    Delete1,
    Identification1,
    Malformed1,
    Notify1,
    Transaction,
    VendorId1,
    read_ikev1_body,
)
from ikeanalyze.wire.registries import name_of
from ikeanalyze.wire.registries.ikev1 import NotifyType, PayloadType, ProtocolId
from ikeanalyze.wire.registries.ikev1_phase2 import TransactionType
from ikeanalyze.wire.text import shortened

_NAMES: Final = {PayloadType.NONCE: "No", PayloadType.VENDOR_ID: "V"}
_SHOWN_ATTRIBUTES: Final = 8


def describe_ikev1_payloads(chain: Chain | Iterable[Payload]) -> list[str]:
    """Each payload of a clear or decrypted message in a few words, in order. Never raises.

    Nonce and vendor ID have IKEv2's short names. Everything that a peer chose is escaped and shortened.
    """
    payloads = chain.payloads if isinstance(chain, Chain) else chain
    return [describe_ikev1_payload(payload) for payload in payloads]


def describe_ikev1_payload(payload: Payload) -> str:
    """One payload in a few words."""
    if payload.type not in PayloadType._value2member_map_:
        return f"unknown {payload.type}"
    name = _NAMES.get(PayloadType(payload.type)) or name_of(PayloadType, payload.type)
    said = _said(read_ikev1_body(payload))
    return f"{name}({said})" if said else name


def _said(body: Body1) -> str:
    match body:
        case Malformed1():
            return "?"
        case Identification1():
            return shortened(body.text or "?")
        case Notify1():
            return name_of(NotifyType, body.type)
        case Delete1():
            protocol = name_of(ProtocolId, body.protocol).removeprefix("PROTO_").removeprefix("IPSEC_")
            return describe_delete(protocol, len(body.spis), False)
        case Transaction():
            return _transaction(body)
        case CertificateView():
            return describe_certificate(body)
        case VendorId1(data, name):
            return describe_vendor_id(data, name)
        case Address(text):
            return text or "?"
        case Fragment(_, number, last):
            return f"{number}, last" if last else str(number)
        case _:
            return ""


def _transaction(transaction: Transaction) -> str:
    pairs = list(zip(transaction.names, transaction.texts, strict=True))
    texts = [name if text is None else f"{name}={shortened(text)}" for name, text in pairs[:_SHOWN_ATTRIBUTES]]
    text = listed(texts, len(pairs), " ")
    kind = name_of(TransactionType, transaction.type)
    return f"{kind}: {text}" if text else kind
