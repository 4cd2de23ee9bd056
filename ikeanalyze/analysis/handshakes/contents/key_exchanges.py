"""Collects the key exchanges of an IKE SA and checks them against the negotiation.

IKE_SA_INIT has slot 0. Each IKE_INTERMEDIATE with a KE payload is the next additional key exchange that was negotiated
(RFC 9370, section 2.2.2); their message IDs count from 1, so missing exchanges are detected (RFC 9242, section 3). A
CREATE_CHILD_SA exchange has a slot 0 of its own, and the IKE_FOLLOWUP_KE exchanges that N(ADDITIONAL_KEY_EXCHANGE)
links to it have the other slots (section 2.2.4).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2.key_exchange import check_key_exchange, get_ke_data_name
from ikeanalyze.wire.ikev2.payloads import KeyExchange, parse_key_exchange, parse_notify
from ikeanalyze.wire.ikev2.proposals import Proposal, parse_sa
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType, ProtocolId
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.registries.ikev2_transforms import TransformType

#: Exchanges whose first KE payload is checked here.
CARRIERS: Final = frozenset(
    {
        ExchangeType.IKE_SA_INIT,
        ExchangeType.IKE_INTERMEDIATE,
        ExchangeType.CREATE_CHILD_SA,
        ExchangeType.IKE_FOLLOWUP_KE,
    }
)


class KePayloadSummary(Struct, frozen=True):
    """One side's KE payload."""

    name: str  # public value, encapsulation key, ciphertext
    bytes: int  # of the key exchange data
    findings: tuple[str, ...]


class KeyExchangeRow(Struct, frozen=True):
    """One key exchange: the KE payloads of a request and its response."""

    exchange: int  # row in the capture's exchanges
    purpose: str  # "IKE SA", "CHILD_SA", "rekeying", "not known"
    slot: int | None  # 0, or 1 to 7 for additional key exchanges; None: unknown
    method: int
    linked_to: int | None  # IKE_FOLLOWUP_KE: message ID of the CREATE_CHILD_SA that it belongs to
    request: KePayloadSummary | None  # None: not in the capture, or invalid
    response: KePayloadSummary | None


class _Negotiation(Struct):
    """The key exchanges of one negotiation, and how many are done."""

    purpose: str
    additional: list[tuple[int, int]]  # slot and method, in order
    message_id: int | None = None  # of its CREATE_CHILD_SA
    done: int = 0  # number of `additional` key exchanges that are over

    def next(self) -> tuple[int | None, int | None]:
        """Slot and method of the next additional key exchange; None, None: none was negotiated."""
        self.done += 1
        return self.additional[self.done - 1] if self.done <= len(self.additional) else (None, None)


def collect_key_exchanges(contents: Sequence[DecodedMessage]) -> tuple[list[KeyExchangeRow], list[tuple[int, str]]]:
    """The key exchanges of one IKE SA, and findings (frame, text).

    `contents` are its messages in the order of their exchanges.
    """
    exchanges: dict[int, dict[bool, DecodedMessage]] = {}
    for content in contents:
        if content.protocol == Protocol.IKEV2:
            exchanges.setdefault(content.exchange, {})[content.response] = content
    rows: list[KeyExchangeRow] = []
    findings: list[tuple[int, str]] = []
    initial = _Negotiation("IKE SA", [])
    links: dict[tuple[bool, bytes], _Negotiation] = {}
    without = 0  # decrypted IKE_INTERMEDIATE exchanges without a KE payload
    for exchange, sides in exchanges.items():
        request, response = sides.get(False), sides.get(True)
        either = next(iter(sides.values()))
        slot: int | None = 0
        method: int | None = None
        match either.exchange_type:
            case ExchangeType.IKE_SA_INIT:
                current = initial = _Negotiation("IKE SA", _get_additional(_parse_chosen(response)))
                method = _get_method(_parse_chosen(response))
            case ExchangeType.IKE_INTERMEDIATE:
                if not any(map(_parse_ke, sides.values())):
                    without += 1
                    continue
                current = initial
                current.done = max(current.done, either.message_id - 1 - without)
                slot, method = current.next()
            case ExchangeType.CREATE_CHILD_SA:
                proposal = _parse_chosen(response) or _parse_chosen(request)
                purpose = "rekeying" if proposal and proposal.protocol == ProtocolId.IKE else "CHILD_SA"
                current = _Negotiation(purpose, _get_additional(_parse_chosen(response)), either.message_id)
                method = _get_method(_parse_chosen(response))
            case ExchangeType.IKE_FOLLOWUP_KE:
                linked = (links[key] for key in _get_links(request) if key in links)
                current = next(linked, _Negotiation("not known", []))
                slot, method = current.next()
            case _:
                continue
        links.update(dict.fromkeys(_get_links(response), current))
        row = _make_row(exchange, either.exchange_type, current, slot, method, sides, findings)
        if row is not None:
            rows.append(row)
    return rows, findings


def _make_row(
    exchange: int,
    exchange_type: int,
    current: _Negotiation,
    slot: int | None,
    method: int | None,
    sides: Mapping[bool, DecodedMessage],
    findings: list[tuple[int, str]],
) -> KeyExchangeRow | None:
    parts: dict[bool, KePayloadSummary] = {}
    used = method
    for response, content in sorted(sides.items()):
        ke = _parse_ke(content)
        if ke is None:
            continue
        used = ke.method if method is None else method
        texts = check_key_exchange(ke, response, method)
        findings.extend((content.frame, f"KE: {text}") for text in texts)
        parts[response] = KePayloadSummary(get_ke_data_name(ke.method, response), len(ke.data), tuple(texts))
    if used is None or not parts:
        return None
    linked_to = current.message_id if exchange_type == ExchangeType.IKE_FOLLOWUP_KE else None
    return KeyExchangeRow(exchange, current.purpose, slot, used, linked_to, parts.get(False), parts.get(True))


def _parse_ke(content: DecodedMessage) -> KeyExchange | None:
    for body in content.get_bodies(PayloadType.KE):
        try:
            return parse_key_exchange(body)
        except WireError:
            return None
    return None


def _parse_chosen(content: DecodedMessage | None) -> Proposal | None:
    for body in content.get_bodies(PayloadType.SA) if content is not None else ():
        proposals = parse_sa(body).proposals
        return proposals[0] if proposals else None
    return None


def _get_additional(proposal: Proposal | None) -> list[tuple[int, int]]:
    """Slots and methods of the negotiated additional key exchanges, in order."""
    if proposal is None:
        return []
    return sorted({slot: transform.id for slot, transform in proposal.list_additional_key_exchanges()}.items())


def _get_method(proposal: Proposal | None) -> int | None:
    """Negotiated method of slot 0; None: unknown, or no key exchange."""
    for transform in proposal.transforms if proposal is not None else ():
        if transform.type == TransformType.KE:
            return transform.id or None
    return None


def _get_links(content: DecodedMessage | None) -> list[tuple[bool, bytes]]:
    """Data of N(ADDITIONAL_KEY_EXCHANGE), each with whether the IKE SA's initiator sent the request."""
    if content is None:
        return []
    return [
        (content.from_initiator != content.response, notify.data)
        for notify in content.parse_bodies(PayloadType.NOTIFY, parse_notify)
        if notify.type == NotifyType.ADDITIONAL_KEY_EXCHANGE
    ]
