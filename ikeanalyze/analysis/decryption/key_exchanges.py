"""The key exchanges of an IKE SA: which exchange carries which, what is in it, and whether it is what was negotiated.

IKE_SA_INIT has slot 0. Each IKE_INTERMEDIATE with a KE payload is the next additional key exchange that was negotiated
(RFC 9370, section 2.2.2); these exchanges have the message IDs from 1 on, which tells of those that are missing (RFC
9242, section 3). A CREATE_CHILD_SA has slot 0 of its own, and the IKE_FOLLOWUP_KE exchanges that
N(ADDITIONAL_KEY_EXCHANGE) links to it the others (section 2.2.4).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2.key_exchange import check_key_exchange, get_ke_data_name
from ikeanalyze.wire.ikev2.notify import parse_notify
from ikeanalyze.wire.ikev2.payloads import KeyExchange, parse_key_exchange
from ikeanalyze.wire.ikev2.proposals import Proposal, parse_sa
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType, ProtocolId
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.registries.ikev2_transforms import TransformType

#: Exchanges whose first KE payload is looked at here.
CARRIERS: Final = frozenset(
    {
        ExchangeType.IKE_SA_INIT, ExchangeType.IKE_INTERMEDIATE, ExchangeType.CREATE_CHILD_SA,
        ExchangeType.IKE_FOLLOWUP_KE,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KePayloadSummary:
    """One side's KE payload."""

    name: str  # public value, encapsulation key, ciphertext
    bytes: int  # of the key exchange data
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyExchangeRow:
    """One key exchange: the KE payloads of a request and its response."""

    exchange: int  # row in the capture's exchanges
    purpose: str  # "IKE SA", "CHILD_SA", "rekeying", "not known"
    slot: int | None  # 0, or 1 to 7 of the additional ones; None: not known
    method: int
    linked_to: int | None  # IKE_FOLLOWUP_KE: message ID of the CREATE_CHILD_SA that it belongs to
    request: KePayloadSummary | None  # None: not in the capture, or not readable
    response: KePayloadSummary | None


@dataclass(slots=True)
class _Negotiation:
    """What was agreed on, and how far it has come."""

    purpose: str
    additional: list[tuple[int, int]]  # slot and method, in order
    message_id: int | None = None  # of its CREATE_CHILD_SA
    done: int = 0  # of `additional`, those whose exchange is over

    def next(self) -> tuple[int | None, int | None]:
        """Slot and method of the next additional key exchange, if there is to be one."""
        self.done += 1
        return self.additional[self.done - 1] if self.done <= len(self.additional) else (None, None)


def collect_key_exchanges(contents: Sequence[DecodedMessage]) -> tuple[list[KeyExchangeRow], list[tuple[int, str]]]:
    """All of one IKE SA, whose contents are in order of their exchanges; and findings (frame, what)."""
    exchanges: dict[int, dict[bool, DecodedMessage]] = {}
    for content in contents:
        if content.protocol == Protocol.IKEV2:
            exchanges.setdefault(content.exchange, {})[content.response] = content
    rows: list[KeyExchangeRow] = []
    findings: list[tuple[int, str]] = []
    initial = _Negotiation("IKE SA", [])
    links: dict[tuple[bool, bytes], _Negotiation] = {}
    without = 0  # IKE_INTERMEDIATE exchanges that are readable and have no KE payload
    for exchange, sides in exchanges.items():
        request, response = sides.get(False), sides.get(True)
        some = next(iter(sides.values()))
        slot: int | None = 0
        method: int | None = None
        match some.exchange_type:
            case ExchangeType.IKE_SA_INIT:
                current = initial = _Negotiation("IKE SA", _additional(_chosen(response)))
                method = _method(_chosen(response))
            case ExchangeType.IKE_INTERMEDIATE:
                if not any(_ke(one) for one in sides.values()):
                    without += 1
                    continue
                current = initial
                current.done = max(current.done, some.message_id - 1 - without)
                slot, method = current.next()
            case ExchangeType.CREATE_CHILD_SA:
                proposal = _chosen(response) or _chosen(request)
                purpose = "rekeying" if proposal and proposal.protocol == ProtocolId.IKE else "CHILD_SA"
                current = _Negotiation(purpose, _additional(_chosen(response)), some.message_id)
                method = _method(_chosen(response))
            case ExchangeType.IKE_FOLLOWUP_KE:
                linked = [links[key] for key in _links(request) if key in links]
                current = linked[0] if linked else _Negotiation("not known", [])
                slot, method = current.next()
            case _:
                continue
        links.update(dict.fromkeys(_links(response), current))
        row = _row(exchange, some.exchange_type, current, slot, method, sides, findings)
        if row is not None:
            rows.append(row)
    return rows, findings


def _row(
    exchange: int,
    kind: int,
    current: _Negotiation,
    slot: int | None,
    method: int | None,
    sides: Mapping[bool, DecodedMessage],
    findings: list[tuple[int, str]],
) -> KeyExchangeRow | None:
    parts: dict[bool, KePayloadSummary] = {}
    used = method
    for response, content in sorted(sides.items()):
        ke = _ke(content)
        if ke is None:
            continue
        used = ke.method if method is None else method
        found = check_key_exchange(ke, response, method)
        findings.extend((content.frame, f"KE: {what}") for what in found)
        parts[response] = KePayloadSummary(get_ke_data_name(ke.method, response), len(ke.data), tuple(found))
    if used is None or not parts:
        return None
    linked_to = current.message_id if kind == ExchangeType.IKE_FOLLOWUP_KE else None
    return KeyExchangeRow(exchange, current.purpose, slot, used, linked_to, parts.get(False), parts.get(True))


def _ke(content: DecodedMessage | None) -> KeyExchange | None:
    for body in content.get_bodies(PayloadType.KE) if content is not None else ():
        try:
            return parse_key_exchange(body)
        except WireError:
            return None
    return None


def _chosen(content: DecodedMessage | None) -> Proposal | None:
    for body in content.get_bodies(PayloadType.SA) if content is not None else ():
        proposals = parse_sa(body).proposals
        return proposals[0] if proposals else None
    return None


def _additional(proposal: Proposal | None) -> list[tuple[int, int]]:
    """Slots and methods of the additional key exchanges that were negotiated, in order."""
    if proposal is None:
        return []
    found = {
        one.type - TransformType.ADDKE1 + 1: one.id
        for one in proposal.transforms
        if TransformType.ADDKE1 <= one.type <= TransformType.ADDKE7 and one.id
    }
    return sorted(found.items())


def _method(proposal: Proposal | None) -> int | None:
    """Method of the first key exchange that was negotiated; None: not known, or none was."""
    for one in proposal.transforms if proposal is not None else ():
        if one.type == TransformType.KE:
            return one.id or None
    return None


def _links(content: DecodedMessage | None) -> list[tuple[bool, bytes]]:
    """Data of N(ADDITIONAL_KEY_EXCHANGE), with who asks in the exchange."""
    found = []
    for body in content.get_bodies(PayloadType.NOTIFY) if content is not None else ():
        try:
            notify = parse_notify(body)
        except WireError:
            continue
        if notify.type == NotifyType.ADDITIONAL_KEY_EXCHANGE and content is not None:
            found.append((content.from_initiator != content.response, notify.data))
    return found
