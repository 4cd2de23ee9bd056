"""Parses SA payloads of IKEv2: proposals, transforms and transform attributes (RFC 7296, section 3.3)."""

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2_transforms import TRANSFORM_IDS, TransformAttribute, TransformType

#: Fields: last-substructure flag, length, number, protocol, SPI size, number of transforms.
PROPOSAL: Final = Struct(">BxHBBBB")
#: Fields: last-substructure flag, length, transform type, transform ID.
TRANSFORM: Final = Struct(">BxHBxH")
ATTRIBUTE: Final = Struct(">HH")
#: Bit of the attribute type: the value is a number in the place of the length.
ATTRIBUTE_FORMAT_TV: Final = 0x8000

_PROTOCOL_IKE: Final = 1
_NONE: Final = 0
#: Transform types whose name `Proposal.describe` omits.
_TYPES_WITHOUT_PREFIX: Final = frozenset(
    {TransformType.ENCR, TransformType.INTEG, TransformType.PRF, TransformType.KE, TransformType.SN}
)
#: Transform types in the order of `Proposal.describe`; others follow by number.
_ORDER: Final = {
    kind: position
    for position, kind in enumerate(
        (TransformType.ENCR, TransformType.INTEG, TransformType.PRF, TransformType.KE,
         *range(TransformType.ADDKE1, TransformType.ADDKE7 + 1), TransformType.SN)
    )
}  # fmt: skip
#: Transform types for which NONE as the only ID means the same as no transform (RFC 7296, section 3.3.3).
_OPTIONAL_TYPES: Final = frozenset(
    {TransformType.INTEG, TransformType.KE, *range(TransformType.ADDKE1, TransformType.ADDKE7 + 1)}
)
#: Largest SA payload whose result is cached, and number of results; hosts of a testbed repeat their proposals.
_MAX_CACHED_BYTES: Final = 2048
_CACHE_SIZE: Final = 512


class TransformAttributeValue(msgspec.Struct, frozen=True):
    """A transform attribute (RFC 7296, section 3.3.5)."""

    type: int
    value: int | bytes  # a number in the short format (TV), bytes in the long one (TLV)


class Transform(msgspec.Struct, frozen=True):
    """One proposed algorithm (RFC 7296, section 3.3.2)."""

    type: int  # 1 encryption, 2 PRF, 3 integrity, 4 key exchange, 5 sequence numbers, 6-12 ADDKE1-7 ...
    id: int  # transform ID within the type
    attributes: tuple[TransformAttributeValue, ...]

    @property
    def key_bits(self) -> int | None:
        """Value of the attribute Key Length, in bits; None if it is absent."""
        return get_attribute_number(self.attributes, TransformAttribute.KEY_LENGTH)

    @property
    def name(self) -> str:
        """Short name with the key length, such as AES-GCM-16-256; the number of an unknown ID or type: 99-256."""
        registry = TRANSFORM_IDS.get(self.type)
        name = str(self.id) if registry is None else get_name(registry, self.id)
        return name if self.key_bits is None else f"{name}-{self.key_bits}"


class Proposal(msgspec.Struct, frozen=True):
    """One proposal, from which the responder chooses one transform of each type (RFC 7296, section 3.3.1)."""

    number: int
    protocol: int  # 1 IKE, 2 AH, 3 ESP
    spi: bytes  # empty in IKE_SA_INIT
    transforms: tuple[Transform, ...]  # in the sender's order

    def list_additional_key_exchanges(self) -> list[tuple[int, Transform]]:
        """The transforms of additional key exchanges other than NONE (RFC 9370), each with its slot, 1 to 7."""
        slots = ((transform.type - TransformType.ADDKE1 + 1, transform) for transform in self.transforms)
        return [(slot, transform) for slot, transform in slots if 1 <= slot <= 7 and transform.id]

    def describe(self) -> str:
        """The proposal in one line: AES-GCM-16-256/HMAC-SHA2-384/ECP-384/ADDKE1:ML-KEM-768.

        Transform types are separated by "/": encryption, integrity, PRF, key exchange, additional key exchanges 1 to 7,
        sequence numbers, then others by number. Alternatives of a type are separated by "+", in the sender's order
        without duplicates. Additional key exchanges and later types have the name of the type and ":" as a prefix.
        Omitted: integrity and key exchanges whose only alternative is NONE; sequence numbers except for ESP and AH.
        """
        alternatives: dict[int, dict[str, int]] = {}
        for transform in self.transforms:
            alternatives.setdefault(transform.type, {}).setdefault(transform.name, transform.id)
        parts = []
        for kind in sorted(alternatives, key=lambda kind: (_ORDER.get(kind, len(_ORDER)), kind)):
            names = alternatives[kind]
            if kind in _OPTIONAL_TYPES and set(names.values()) == {_NONE}:
                continue
            if kind == TransformType.SN and self.protocol == _PROTOCOL_IKE:
                continue
            text = "+".join(names)
            parts.append(text if kind in _TYPES_WITHOUT_PREFIX else f"{get_name(TransformType, kind)}:{text}")
        return "/".join(parts)


class SecurityAssociation(msgspec.Struct, frozen=True):
    """Contents of an SA payload."""

    proposals: tuple[Proposal, ...]  # in the sender's order; after an error, the last one may be incomplete
    error: str | None  # why parsing stopped early; None: everything was parsed


def parse_sa(body: bytes) -> SecurityAssociation:
    """Parse an SA payload (RFC 7296, section 3.3); `body` follows its generic header. Never raises.

    Lengths delimit proposals and transforms; counts and the "last" fields are ignored. Offsets in the error count from
    the beginning of `body`.
    """
    return _parse_cached(body) if len(body) <= _MAX_CACHED_BYTES else _parse(body)


def _parse(body: bytes) -> SecurityAssociation:
    cursor = Cursor(body)
    proposals: list[Proposal] = []
    while cursor.remaining():
        transforms: list[Transform] = []
        fields: tuple[int, int, bytes] | None = None
        try:
            _, length, number, protocol, spi_size, _ = cursor.unpack(PROPOSAL)
            with cursor.restrict_to(length - PROPOSAL.size):
                fields = number, protocol, cursor.read_bytes(spi_size)
                while cursor.remaining():
                    transforms.append(_parse_transform(cursor))
        except WireError as error:
            if fields is not None:
                proposals.append(Proposal(*fields, tuple(transforms)))
            return SecurityAssociation(tuple(proposals), str(error))
        proposals.append(Proposal(*fields, tuple(transforms)))
    return SecurityAssociation(tuple(proposals), None)


_parse_cached = lru_cache(maxsize=_CACHE_SIZE)(_parse)


def _parse_transform(cursor: Cursor) -> Transform:
    _, length, kind, number = cursor.unpack(TRANSFORM)
    if length == TRANSFORM.size:
        return Transform(kind, number, ())
    with cursor.restrict_to(length - TRANSFORM.size):
        return Transform(kind, number, parse_attributes(cursor))


def get_attribute_number(attributes: Iterable[TransformAttributeValue], kind: int) -> int | None:
    """Value of the first attribute of a type as a number; None if it is absent."""
    for attribute in attributes:
        if attribute.type == kind:
            value = attribute.value
            return value if isinstance(value, int) else int.from_bytes(value, "big")
    return None


def parse_attribute(cursor: Cursor) -> TransformAttributeValue:
    """Next attribute, in the short or the long format (RFC 7296, section 3.3.5; RFC 2408, section 3.3).

    Raises:
        WireError: it is truncated.
    """
    kind, value = cursor.unpack(ATTRIBUTE)
    if kind & ATTRIBUTE_FORMAT_TV:
        return TransformAttributeValue(kind & ~ATTRIBUTE_FORMAT_TV, value)
    return TransformAttributeValue(kind, cursor.read_bytes(value))


def parse_attributes(cursor: Cursor) -> tuple[TransformAttributeValue, ...]:
    """All attributes up to the end of the cursor.

    Raises:
        WireError: one of them is truncated.
    """
    attributes = []
    while cursor.remaining():
        attributes.append(parse_attribute(cursor))
    return tuple(attributes)
