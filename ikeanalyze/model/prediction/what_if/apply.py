"""Applies changes to a recorded handshake and to those that are comparable with it.

Sizes of messages change by those of their payloads; messages that become longer than the recorded fragments are
fragmented (RFC 7383). Processing times stay as recorded; those of added exchanges are 0.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ikeanalyze.model.prediction.flow import FlowExchange, FlowMessage, HandshakeFlow, Side, get_peer
from ikeanalyze.model.prediction.layout import layout_encrypted_message, resize_clear_message
from ikeanalyze.model.prediction.what_if.algorithm_sizes import KemSizes, SignatureSizes
from ikeanalyze.model.prediction.what_if.changes import ChainChange, ChangeError, HandshakeChanges, PayloadChange
from ikeanalyze.wire.ikev2.payload_size import PayloadSize
from ikeanalyze.wire.registries.ikev2 import AuthMethod

#: AUTH methods that are signatures (RFC 7296, section 3.8; RFC 4754; RFC 7427).
_SIGNATURE_METHODS: Final = (
    AuthMethod.RSA,
    AuthMethod.DSS,
    AuthMethod.ECDSA_256,
    AuthMethod.ECDSA_384,
    AuthMethod.ECDSA_521,
    AuthMethod.DIGITAL_SIGNATURE,
)
#: Before a signature of method 14: the length, and an AlgorithmIdentifier with an OID of nine bytes and no parameters
#: (RFC 7427, section 3; RFC 9881 and RFC 9909 for ML-DSA and SLH-DSA).
_ALGORITHM_IDENTIFIER: Final = 1 + 13
#: Bytes of a transform without attributes (RFC 7296, section 3.3.2) and of a notify payload without data (3.10).
_TRANSFORM: Final = 8
_NOTIFY: Final = 8
_INTERMEDIATE: Final = "IKE_INTERMEDIATE"
#: Fragment size of strongSwan and libreswan, for flows without fragments.
_DEFAULT_FRAGMENT: Final = 1280

#: Bytes of the generic header and the fixed fields of a KE payload (RFC 7296, section 3.4).
_KE_HEADER: Final = 8

Exchanges = tuple[FlowExchange, ...]
Payloads = tuple[PayloadSize, ...]


@dataclass(frozen=True, slots=True)
class MessageEdit:
    """A change of the payloads of some messages."""

    #: Returns the changed payloads of a message, given its exchange, sender and payloads; None: it stays as it is.
    change: Callable[[FlowExchange, Side, Payloads], Payloads | None]
    problem: str  # if no message changes


def apply_changes(flow: HandshakeFlow, changes: HandshakeChanges) -> HandshakeFlow:
    """Return `flow` with `changes`; comparable handshakes whose payloads are unknown are dropped.

    Raises:
        ChangeError: the payloads are unknown, or a change has no effect.
        LayoutError: a message has too many fragments.
    """
    if flow.protocol != "IKEv2":
        raise ChangeError(f"only IKEv2 handshakes can be changed, not {flow.protocol}")
    samples = flow.samples
    if changes != HandshakeChanges(added_kems=changes.added_kems):
        if unknown := _find_unknown(flow.exchanges):
            raise ChangeError(
                f"the sizes of the payloads in {', '.join(unknown)} are unknown, because they are encrypted. "
                "Name the keys with --keys"
            )
        samples = tuple(exchanges for exchanges in samples if not _find_unknown(exchanges))
    return replace(
        flow,
        exchanges=_change_handshake(flow.exchanges, flow, changes),
        samples=tuple(_change_handshake(exchanges, flow, changes) for exchanges in samples),
        changes=changes.describe(),
    )


def _find_unknown(exchanges: Exchanges) -> list[str]:
    """Return the names of the exchanges with a message whose payloads are unknown."""
    return [
        exchange.name
        for exchange in exchanges
        if any(message is not None and message.payloads is None for message in (exchange.request, exchange.response))
    ]


def _change_handshake(exchanges: Exchanges, flow: HandshakeFlow, changes: HandshakeChanges) -> Exchanges:
    if changes.signature:
        exchanges = _edit_messages(exchanges, flow, _make_signature_edit(exchanges, changes.signature))
    if changes.kem:
        exchanges = _edit_messages(exchanges, flow, _make_kem_edit(exchanges, changes.kem))
    for chain in changes.chains:
        exchanges = _edit_messages(exchanges, flow, _make_chain_edit(chain))
    for change in changes.replaced:
        exchanges = _edit_messages(exchanges, flow, _make_replacement(change))
    for change in changes.added:
        exchanges = _edit_messages(exchanges, flow, _make_addition(exchanges, change))
    for number, kem in enumerate(changes.added_kems):
        exchanges = _add_kem(exchanges, flow, kem, first=number == 0)
    return exchanges


def _list_messages(exchanges: Exchanges) -> Iterator[tuple[FlowExchange, Side, Payloads]]:
    for exchange in exchanges:
        yield exchange, exchange.asker, exchange.request.payloads or ()
        if exchange.response is not None:
            yield exchange, get_peer(exchange.asker), exchange.response.payloads or ()


def _edit_messages(exchanges: Exchanges, flow: HandshakeFlow, edit: MessageEdit) -> Exchanges:
    """Return the exchanges with edited messages.

    Raises:
        ChangeError: no message is edited.
    """
    edited = 0

    def apply(exchange: FlowExchange, sender: Side, message: FlowMessage) -> FlowMessage:
        nonlocal edited
        payloads = edit.change(exchange, sender, message.payloads or ())
        if payloads is None:
            return message
        edited += 1
        return _rebuild_message(message, payloads, flow)

    result = tuple(
        replace(
            exchange,
            request=apply(exchange, exchange.asker, exchange.request),
            response=exchange.response and apply(exchange, get_peer(exchange.asker), exchange.response),
        )
        for exchange in exchanges
    )
    if not edited:
        raise ChangeError(edit.problem)
    return result


def _rebuild_message(message: FlowMessage, payloads: Payloads, flow: HandshakeFlow) -> FlowMessage:
    """Return `message` with these payloads, fragmented like the recorded messages."""
    if not message.encrypted:
        growth = sum(item.bytes for item in payloads) - sum(item.bytes for item in message.payloads or ())
        return replace(resize_clear_message(message, growth), payloads=payloads)
    if flow.protection is None:
        raise ChangeError("the cipher of the handshake is unknown")
    content = sum(item.bytes for item in payloads)
    return replace(
        layout_encrypted_message(message, content, _find_fragment_limit(flow), flow.protection), payloads=payloads
    )


def _find_fragment_limit(flow: HandshakeFlow) -> int | None:
    """Return the bytes of the largest IP packet of an IKE fragment; None: the peers do not fragment."""
    if not flow.fragmentation:
        return None
    messages = [message for exchange in flow.exchanges for message in (exchange.request, exchange.response) if message]
    packets = [
        message.ip + message.transport + message.marker + part.ike_bytes
        for message in messages
        for part in message.parts
        if message.encrypted and len(message.parts) > 1
    ]
    return max(packets, default=_DEFAULT_FRAGMENT)


def _make_signature_edit(exchanges: Exchanges, sizes: SignatureSizes) -> MessageEdit:
    signers = {
        sender
        for _, sender, payloads in _list_messages(exchanges)
        for payload in payloads
        if payload.name == "AUTH" and payload.method in _SIGNATURE_METHODS
    }

    def change_payloads(_exchange: FlowExchange, sender: Side, payloads: Payloads) -> Payloads | None:
        changed = tuple(_sign(payload, sizes) for payload in payloads)
        return changed if sender in signers and changed != payloads else None

    return MessageEdit(change_payloads, "no side authenticates with a signature")


def _sign(payload: PayloadSize, sizes: SignatureSizes) -> PayloadSize:
    """Return an AUTH or CERT payload with another algorithm; other payloads are returned unchanged."""
    if payload.name == "AUTH":
        return replace(payload, data_bytes=_ALGORITHM_IDENTIFIER + sizes.signature, method=AuthMethod.DIGITAL_SIGNATURE)
    if payload.name == "CERT" and payload.other_bytes is not None:
        return replace(payload, data_bytes=payload.other_bytes + sizes.public_key + sizes.signature)
    return payload


def _make_kem_edit(exchanges: Exchanges, kem: KemSizes) -> MessageEdit:
    additional = any(
        exchange.type == _INTERMEDIATE and payload.name == "KE"
        for exchange, _, payloads in _list_messages(exchanges)
        for payload in payloads
    )
    type_ = _INTERMEDIATE if additional else "IKE_SA_INIT"

    def change_payloads(exchange: FlowExchange, sender: Side, payloads: Payloads) -> Payloads | None:
        if exchange.type != type_:
            return None
        size = kem.encapsulation_key if sender == exchange.asker else kem.ciphertext
        return _set_data(payloads, "KE", size)

    return MessageEdit(change_payloads, "no message has a KE payload")


def _set_data(payloads: Payloads, name: str, size: int) -> Payloads | None:
    """Return the payloads with this size of the data of those with this name; None: there are none."""
    if all(payload.name != name for payload in payloads):
        return None
    return tuple(replace(payload, data_bytes=size) if payload.name == name else payload for payload in payloads)


def _make_chain_edit(chain: ChainChange) -> MessageEdit:
    def change_payloads(_exchange: FlowExchange, sender: Side, payloads: Payloads) -> Payloads | None:
        certificates = [payload for payload in payloads if payload.name == "CERT"]
        if not certificates or chain.side not in (None, sender):
            return None
        # further certificates have the size of the last one, an intermediate authority's if there is one
        longer = certificates + [certificates[-1]] * (chain.certificates - len(certificates))
        others = [payload for payload in payloads if payload.name != "CERT"]
        return (*longer[: chain.certificates], *others)

    return MessageEdit(change_payloads, "no certificates are sent")


def _make_replacement(wanted: PayloadChange) -> MessageEdit:
    def change_payloads(_exchange: FlowExchange, sender: Side, payloads: Payloads) -> Payloads | None:
        if wanted.side not in (None, sender):
            return None
        return _set_data(payloads, wanted.payload, wanted.data_bytes)

    return MessageEdit(change_payloads, f"no message{_describe_sender(wanted.side)} has a {wanted.payload} payload")


def _make_addition(exchanges: Exchanges, wanted: PayloadChange) -> MessageEdit:
    present = any(
        payload.name == wanted.payload
        for _, sender, payloads in _list_messages(exchanges)
        for payload in payloads
        if wanted.side in (None, sender)
    )
    # the first certificate goes where the side authenticates
    place = "AUTH" if wanted.payload == "CERT" and not present else wanted.payload

    def change_payloads(_exchange: FlowExchange, sender: Side, payloads: Payloads) -> Payloads | None:
        if wanted.side not in (None, sender) or all(payload.name != place for payload in payloads):
            return None
        return (*payloads, PayloadSize.make(wanted.payload, wanted.data_bytes))

    return MessageEdit(
        change_payloads,
        f"no message{_describe_sender(wanted.side)} has a {place} payload, with which one could be added",
    )


def _describe_sender(side: Side | None) -> str:
    return f" of the {side}" if side else ""


def _add_kem(exchanges: Exchanges, flow: HandshakeFlow, kem: KemSizes, *, first: bool) -> Exchanges:
    """Return the exchanges with one more IKE_INTERMEDIATE (RFC 9370, section 2.2.2), after those that there are.

    IKE_SA_INIT grows by a transform for each proposal, and by the notify that announces IKE_INTERMEDIATE if there was
    none.
    """
    if flow.protection is None:
        raise ChangeError("the cipher of the handshake is unknown")
    before = [item for item in exchanges if item.type in ("IKE_SA_INIT", _INTERMEDIATE)]
    after = exchanges[len(before) :]
    if not after or after[0].message_id is None:
        raise ChangeError("the handshake has no IKE_AUTH")
    notify = _NOTIFY if first and not flow.intermediate else 0
    grown = tuple(
        replace(
            item,
            request=resize_clear_message(item.request, notify + _TRANSFORM * flow.offered),
            response=item.response and resize_clear_message(item.response, notify + _TRANSFORM),
        )
        if item.type == "IKE_SA_INIT"
        else item
        for item in before
    )
    limit = _find_fragment_limit(flow)
    request, response = (
        layout_encrypted_message(message, _KE_HEADER + size, limit, flow.protection)
        for message, size in ((after[0].request, kem.encapsulation_key), (after[0].response, kem.ciphertext))
        if message is not None
    )
    added = FlowExchange(_INTERMEDIATE, after[0].message_id, "initiator", request, response, 0, 0, 0, 0)
    later = tuple(replace(item, message_id=(item.message_id or 0) + 1) for item in after)
    return (*grown, added, *later)
