"""Facts from the decrypted payloads of CREATE_CHILD_SA and IKE_FOLLOWUP_KE exchanges after the set-up."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ikeanalyze.analysis.handshakes.diagnosis.decrypted_facts import describe_selectors
from ikeanalyze.analysis.handshakes.diagnosis.refused_requests import DecryptedRequest, Purpose
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.ikev2.payloads import Notify, parse_notify
from ikeanalyze.wire.ikev2.proposals import Proposal, parse_sa
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType, ProtocolId
from ikeanalyze.wire.registries.ikev2_notifies import FIRST_STATUS, NotifyType
from ikeanalyze.wire.registries.ikev2_transforms import TransformType

if TYPE_CHECKING:
    from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage

_KEY_EXCHANGES = frozenset((TransformType.KE, *range(TransformType.ADDKE1, TransformType.ADDKE7 + 1)))


def read_requests(messages: "Iterable[DecodedMessage]") -> Mapping[int, DecryptedRequest]:
    """The facts about each exchange of an IKE SA, by row of the exchange.

    Args:
        messages: the decrypted messages of the IKE SA, in the order of their exchanges; before them, if it replaced
            another one, those of the IKE SA whose IKE_AUTH made the CHILD_SA.
    """
    agreed: Proposal | None = None
    pairs: dict[int, dict[bool, DecodedMessage]] = {}
    for message in messages:
        if message.exchange_type in (ExchangeType.CREATE_CHILD_SA, ExchangeType.IKE_FOLLOWUP_KE):
            pairs.setdefault(message.exchange, {})[message.response] = message
        elif message.exchange_type == ExchangeType.IKE_AUTH and message.response:
            agreed = next(iter(_list_proposals(message)), agreed)
    return {row: _read(pair.get(False), pair.get(True), agreed) for row, pair in pairs.items()}


def _read(
    request: "DecodedMessage | None", response: "DecodedMessage | None", agreed: Proposal | None
) -> DecryptedRequest:
    """The facts about one exchange; `agreed`: the proposal for the CHILD_SA of IKE_AUTH."""
    notify = None if response is None else _find_error(response)
    proposals = () if request is None else _list_proposals(request)
    bodies = () if request is None else [request.get_bodies(kind) for kind in (PayloadType.TSI, PayloadType.TSR)]
    return DecryptedRequest(
        has_response=response is not None,
        notify=None if notify is None else get_name(NotifyType, notify.type),
        purpose=None if request is None or not proposals else _get_purpose(request, proposals[0]),
        wanted_method=None if notify is None else _get_wanted_method(notify),
        offered=" or ".join(proposal.describe() for proposal in proposals) or None,
        selectors=None if request is None else describe_selectors([request]),
        selector_bodies=(bodies[0][0], bodies[1][0]) if bodies and all(bodies) else None,
        differs_in_key_exchange=agreed is not None
        and any(_differs_in_key_exchange(proposal, agreed) for proposal in proposals),
    )


def _find_error(response: "DecodedMessage") -> Notify | None:
    notifies = response.parse_bodies(PayloadType.NOTIFY, parse_notify)
    return next((notify for notify in notifies if notify.type < FIRST_STATUS), None)


def _list_proposals(message: "DecodedMessage") -> tuple[Proposal, ...]:
    for body in message.get_bodies(PayloadType.SA):
        return parse_sa(body).proposals
    return ()


def _get_purpose(request: "DecodedMessage", proposal: Proposal) -> Purpose:
    if proposal.protocol == ProtocolId.IKE:
        return Purpose.IKE_REKEYING
    notifies = request.parse_bodies(PayloadType.NOTIFY, parse_notify)
    rekeys = any(notify.type == NotifyType.REKEY_SA for notify in notifies)
    return Purpose.CHILD_REKEYING if rekeys else Purpose.CHILD


def _get_wanted_method(notify: Notify) -> str | None:
    if notify.type != NotifyType.INVALID_KE_PAYLOAD or len(notify.data) < 2:
        return None
    return get_key_exchange_name(int.from_bytes(notify.data[:2], "big"))


def _differs_in_key_exchange(proposal: Proposal, agreed: Proposal) -> bool:
    """Whether a proposal offers what was agreed on, apart from key exchanges, of which IKE_AUTH has none."""
    offered, wanted = _list_others(proposal), _list_others(agreed)
    same_types = {kind for kind, *_ in offered} == {kind for kind, *_ in wanted}
    return proposal.protocol == agreed.protocol and bool(wanted) and same_types and wanted <= offered


def _list_others(proposal: Proposal) -> set[tuple[int, int, int | None]]:
    """The transforms of a proposal other than key exchanges, without integrity NONE, which means the same as none."""
    return {
        (transform.type, transform.id, transform.key_bits)
        for transform in proposal.transforms
        if transform.type not in _KEY_EXCHANGES and not (transform.type == TransformType.INTEG and transform.id == 0)
    }
