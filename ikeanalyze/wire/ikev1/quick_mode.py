"""Parses SA payloads of IKEv1's quick mode (RFC 2408, section 3.5; RFC 2407, sections 4.4 and 4.5)."""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.ikev1.phase1_sa import skip_situation
from ikeanalyze.wire.ikev2.proposals import TransformAttributeValue, get_attribute_number, parse_attributes
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev1 import Ikev1ProtocolId
from ikeanalyze.wire.registries.ikev1_phase1 import Phase1Group
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
class QuickModeTransform:
    """One proposed set of algorithms (RFC 2408, section 3.6)."""

    number: int
    id: int  # transform ID within the protocol
    attributes: tuple[TransformAttributeValue, ...]

    def value(self, kind: int) -> int | None:
        """Value of the first attribute of a type; None if it is absent."""
        return get_attribute_number(self.attributes, kind)


@dataclass(frozen=True, slots=True)
class QuickModeProposal:
    """One proposal; proposals with the same number are accepted or rejected together (RFC 2408, section 4.2)."""

    number: int
    protocol: int  # 2 AH, 3 ESP, 4 IPCOMP
    spi: bytes
    transforms: tuple[QuickModeTransform, ...]  # in order of preference

    def describe(self) -> str:
        """The proposal in one line: ESP:AES-CBC-128/HMAC-SHA1/MODP-2048; "+" separates alternatives."""
        name = get_name(Ikev1ProtocolId, self.protocol).removeprefix("PROTO_").removeprefix("IPSEC_")
        texts = dict.fromkeys(self._describe_transform(transform) for transform in self.transforms)
        return f"{name}:{'+'.join(texts)}"

    def _describe_transform(self, transform: QuickModeTransform) -> str:
        registry = TRANSFORM_IDS.get(self.protocol)
        name = str(transform.id) if registry is None else get_name(registry, transform.id)
        bits = transform.value(Phase2Attribute.KEY_LENGTH)
        parts = [name if bits is None else f"{name}-{bits}"]
        integrity = transform.value(Phase2Attribute.AUTHENTICATION_ALGORITHM)
        if integrity is not None:
            parts.append(get_name(AuthenticationAlgorithm, integrity))
        group = transform.value(Phase2Attribute.GROUP_DESCRIPTION)
        if group is not None:
            parts.append(get_name(Phase1Group, group))
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class QuickModeSa:
    """Contents of an SA payload of quick mode."""

    proposals: tuple[QuickModeProposal, ...]  # in the sender's order
    error: str | None  # why parsing stopped early; None: everything was parsed


def parse_quick_mode_sa(body: bytes) -> QuickModeSa:
    """Parse an SA payload of quick mode; `body` follows its generic header. Never raises."""
    cursor = Cursor(body)
    proposals: list[QuickModeProposal] = []
    try:
        skip_situation(cursor, cursor.read_uint32())
        while cursor.remaining():
            _, length, number, protocol, spi_size, _ = cursor.unpack(_PROPOSAL)
            with cursor.restrict_to(length - _PROPOSAL.size):
                spi = cursor.read_bytes(spi_size)
                transforms = []
                while cursor.remaining():
                    transforms.append(_parse_transform(cursor))
            proposals.append(QuickModeProposal(number, protocol, spi, tuple(transforms)))
    except WireError as error:
        return QuickModeSa(tuple(proposals), str(error))
    return QuickModeSa(tuple(proposals), None)


def _parse_transform(cursor: Cursor) -> QuickModeTransform:
    _, length, number, ident = cursor.unpack(_TRANSFORM)
    with cursor.restrict_to(length - _TRANSFORM.size):
        return QuickModeTransform(number, ident, parse_attributes(cursor))
