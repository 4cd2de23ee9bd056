"""The security association payload from values to bytes (RFC 7296, section 3.3); `proposals` reads it."""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from ikeanalyze.wire.encoding import Payload
from ikeanalyze.wire.proposals import Proposal, Transform, TransformAttributeValue
from ikeanalyze.wire.registries.ikev2 import PayloadType

#: Last substructure, length, number, protocol, SPI size, number of transforms.
_PROPOSAL: Final = Struct(">BxHBBBB")
#: Last substructure, length, transform type, transform ID.
_TRANSFORM: Final = Struct(">BxHBxH")
_ATTRIBUTE: Final = Struct(">HH")
_TYPE_AND_VALUE: Final = 0x8000
_MORE_PROPOSALS: Final = 2
_MORE_TRANSFORMS: Final = 3


def encode_sa(proposals: Sequence[Proposal]) -> Payload:
    """SA payload. Numbers, SPIs and the order of everything are those of the values."""
    last = len(proposals) - 1
    return PayloadType.SA, b"".join(
        _proposal(proposal, _MORE_PROPOSALS if index < last else 0) for index, proposal in enumerate(proposals)
    )


def _proposal(proposal: Proposal, more: int) -> bytes:
    last = len(proposal.transforms) - 1
    body = proposal.spi + b"".join(
        _transform(transform, _MORE_TRANSFORMS if index < last else 0)
        for index, transform in enumerate(proposal.transforms)
    )
    head = proposal.number, proposal.protocol, len(proposal.spi), len(proposal.transforms)
    return _PROPOSAL.pack(more, _PROPOSAL.size + len(body), *head) + body


def _transform(transform: Transform, more: int) -> bytes:
    body = b"".join(map(_attribute, transform.attributes))
    return _TRANSFORM.pack(more, _TRANSFORM.size + len(body), transform.type, transform.id) + body


def _attribute(attribute: TransformAttributeValue) -> bytes:
    """In the short format if the value is a number, in the long one if it is bytes (section 3.3.5)."""
    if isinstance(attribute.value, int):
        return _ATTRIBUTE.pack(_TYPE_AND_VALUE | attribute.type, attribute.value)
    return _ATTRIBUTE.pack(attribute.type, len(attribute.value)) + attribute.value
