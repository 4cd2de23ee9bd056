"""The security association payload of IKEv1's quick mode: what shall protect the traffic (RFC 2408, section 3.5;
RFC 2407, sections 4.4 and 4.5).
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.ikev1_sa import skip_situation
from ikeanalyze.wire.proposals import Attribute, attribute_value, read_attribute
from ikeanalyze.wire.registries import name_of
from ikeanalyze.wire.registries.ikev1 import ProtocolId
from ikeanalyze.wire.registries.ikev1_phase1 import Group
from ikeanalyze.wire.registries.ikev1_phase2 import (
    TRANSFORM_IDS,
    AuthenticationAlgorithm,
    Phase2Attribute,
)

#: Last substructure, length, number, protocol, SPI size, number of transforms.
_PROPOSAL: Final = Struct(">BxHBBBB")
#: Last substructure, length, number, transform ID.
_TRANSFORM: Final = Struct(">BxHBBxx")


@dataclass(frozen=True, slots=True)
class Phase2Transform:
    """One set of algorithms on offer (RFC 2408, section 3.6)."""

    number: int
    id: int  # transform ID within the protocol
    attributes: tuple[Attribute, ...]

    def value(self, kind: int) -> int | None:
        """Value of the first attribute of a type; None: there is none."""
        return attribute_value(self.attributes, kind)


@dataclass(frozen=True, slots=True)
class Phase2Proposal:
    """One proposal; those of one number are taken or refused together (RFC 2408, section 4.2)."""

    number: int
    protocol: int  # 2 AH, 3 ESP, 4 IPCOMP
    spi: bytes
    transforms: tuple[Phase2Transform, ...]  # in order of preference

    def describe(self) -> str:
        """ESP:AES-CBC-128/HMAC-SHA1/MODP-2048, alternatives separated by "+"."""
        name = name_of(ProtocolId, self.protocol).removeprefix("PROTO_").removeprefix("IPSEC_")
        texts = dict.fromkeys(self._transform(transform) for transform in self.transforms)
        return f"{name}:{'+'.join(texts)}"

    def _transform(self, transform: Phase2Transform) -> str:
        registry = TRANSFORM_IDS.get(self.protocol)
        name = str(transform.id) if registry is None else name_of(registry, transform.id)
        bits = transform.value(Phase2Attribute.KEY_LENGTH)
        parts = [name if bits is None else f"{name}-{bits}"]
        integrity = transform.value(Phase2Attribute.AUTHENTICATION_ALGORITHM)
        if integrity is not None:
            parts.append(name_of(AuthenticationAlgorithm, integrity))
        group = transform.value(Phase2Attribute.GROUP_DESCRIPTION)
        if group is not None:
            parts.append(name_of(Group, group))
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Phase2Sa:
    """What could be read of an SA payload of quick mode."""

    proposals: tuple[Phase2Proposal, ...]  # in the sender's order
    error: str | None  # why reading ended before the end; None: all was read


def read_phase2_sa(body: bytes) -> Phase2Sa:
    """Proposals of an SA payload of quick mode; `body` is what follows its generic header. Never raises."""
    cursor = Cursor(body)
    proposals: list[Phase2Proposal] = []
    try:
        skip_situation(cursor, cursor.get_uint32())
        while cursor.remaining():
            _, length, number, protocol, spi_size, _ = cursor.unpack(_PROPOSAL)
            with cursor.restrict_to(length - _PROPOSAL.size):
                spi = cursor.get_bytes(spi_size)
                transforms = []
                while cursor.remaining():
                    transforms.append(_transform(cursor))
            proposals.append(Phase2Proposal(number, protocol, spi, tuple(transforms)))
    except WireError as error:
        return Phase2Sa(tuple(proposals), str(error))
    return Phase2Sa(tuple(proposals), None)


def _transform(cursor: Cursor) -> Phase2Transform:
    _, length, number, ident = cursor.unpack(_TRANSFORM)
    attributes = []
    with cursor.restrict_to(length - _TRANSFORM.size):
        while cursor.remaining():
            attributes.append(read_attribute(cursor))
    return Phase2Transform(number, ident, tuple(attributes))
