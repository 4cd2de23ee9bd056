"""What of recorded proposals can be offered again: the rest is left out, and told."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ikeanalyze.crypto.algorithms import ENCRYPTION, INTEGRITY, PRF
from ikeanalyze.replay import key_exchange
from ikeanalyze.replay.steps import CannotReplayError
from ikeanalyze.wire.ikev2.proposals import Proposal, Transform
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import TransformType
from ikeanalyze.wire.registries.ikev2_transforms import Encryption

_NONE: Final = 0
_MOST_TRANSFORMS: Final = 255  # their number is one byte
_ADDITIONAL: Final = range(TransformType.ADDKE1, TransformType.ADDKE7 + 1)


@dataclass(frozen=True, slots=True)
class ReplayProposals:
    """Proposals for IKE_SA_INIT all of which we can do."""

    proposals: tuple[Proposal, ...]
    key_exchange: int  # method of the KE payload
    left_out: tuple[str, ...]  # what was recorded and is not offered, with the reason


def select_proposals(recorded: Sequence[Proposal], method: int) -> ReplayProposals:
    """The proposals as they were recorded, without what we cannot do.

    `method`: of the recorded KE payload; another that is offered takes its place if it cannot be used. Raises
    `CannotReplayError` if nothing is left.
    """
    proposals: list[Proposal] = []
    left_out: dict[str, None] = {}
    for proposal in recorded:
        kept, reasons = _possible(proposal)
        left_out.update(dict.fromkeys(reasons))
        if kept is not None:
            # they are counted from 1 without a gap (RFC 7296, section 3.3.1)
            proposals.append(replace(kept, number=len(proposals) + 1))
    methods = list_key_exchange_methods(proposals)
    if not methods:
        why = "; ".join(left_out) or "there is none"
        raise CannotReplayError(f"none of the recorded proposals can be offered: {why}")
    if method not in methods:
        reason = key_exchange.explain_unsupported(method)
        if reason is not None:
            left_out[reason] = None
        method = methods[0]
    return ReplayProposals(tuple(proposals), method, tuple(left_out))


def list_key_exchange_methods(proposals: Sequence[Proposal]) -> list[int]:
    """Key exchange methods that are offered for IKE_SA_INIT, in order."""
    return [
        transform.id
        for proposal in proposals
        for transform in proposal.transforms
        if transform.type == TransformType.KE
    ]


def is_offered(chosen: Proposal, offered: Sequence[Proposal]) -> bool:
    """Whether a responder chose one alternative of each transform type of one of the proposals (RFC 7296, section 2.7)."""
    for proposal in offered:
        if proposal.number != chosen.number or proposal.protocol != chosen.protocol:
            continue
        kinds = [transform.type for transform in chosen.transforms]
        needed = {transform.type for transform in proposal.transforms}
        optional = {transform.type for transform in proposal.transforms if transform.id == _NONE}
        return (
            len(set(kinds)) == len(kinds)
            and needed - optional <= set(kinds)
            and all(transform in proposal.transforms for transform in chosen.transforms)
        )
    return False


def _possible(proposal: Proposal) -> tuple[Proposal | None, list[str]]:
    """A proposal without the transforms that we cannot do; None: a type has no other."""
    if len(proposal.transforms) > _MOST_TRANSFORMS:
        return None, [f"a proposal with more than {_MOST_TRANSFORMS} transforms cannot be written"]
    kept, reasons = [], []
    for transform in proposal.transforms:
        reason = _unsupported(transform)
        if reason is None:
            kept.append(transform)
        else:
            reasons.append(reason)
    lost = {transform.type for transform in proposal.transforms} - {transform.type for transform in kept}
    if lost or not kept:
        return None, reasons
    return replace(proposal, transforms=tuple(kept)), reasons


def _unsupported(transform: Transform) -> str | None:
    kind, number = transform.type, transform.id
    if kind == TransformType.ENCR:
        algorithm = ENCRYPTION.get(number)
        if number != Encryption.NULL and algorithm and algorithm.get_key_bytes(transform.key_bits) is not None:
            return None
    elif kind == TransformType.PRF:
        if number in PRF:
            return None
    elif kind == TransformType.INTEG:
        if number in INTEGRITY or number == _NONE:
            return None
    elif kind in _ADDITIONAL and number == _NONE:
        return None
    elif kind == TransformType.KE or kind in _ADDITIONAL:
        return key_exchange.explain_unsupported(number)
    return f"{get_name(TransformType, kind)} {transform.name} is not among what can be re-enacted"
