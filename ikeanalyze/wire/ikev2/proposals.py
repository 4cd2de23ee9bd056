"""The security association payload of IKEv2: proposals, their transforms, their attributes (RFC 7296, section
3.3).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2_transforms import TRANSFORM_IDS, TransformAttribute, TransformType

#: Last substructure, length, number, protocol, SPI size, number of transforms.
_PROPOSAL: Final = Struct(">BxHBBBB")
#: Last substructure, length, transform type, transform ID.
_TRANSFORM: Final = Struct(">BxHBxH")
_ATTRIBUTE: Final = Struct(">HH")
_TYPE_AND_VALUE: Final = 0x8000

_IKE: Final = 1
_NONE: Final = 0
_NO_TYPE_SHOWN: Final = frozenset(
    {TransformType.ENCR, TransformType.INTEG, TransformType.PRF, TransformType.KE, TransformType.SN}
)
#: Transform types in the order of `Proposal.describe`; others follow by number.
_ORDER: Final = {
    kind: place
    for place, kind in enumerate(
        (TransformType.ENCR, TransformType.INTEG, TransformType.PRF, TransformType.KE,
         *range(TransformType.ADDKE1, TransformType.ADDKE7 + 1), TransformType.SN)
    )
}  # fmt: skip
#: Transform types where the ID 0 alone is the same as no transform of the type (RFC 7296, section 3.3.3).
_MAY_BE_NONE: Final = frozenset(
    {TransformType.INTEG, TransformType.KE, *range(TransformType.ADDKE1, TransformType.ADDKE7 + 1)}
)
#: SA payloads up to this size are kept parsed; a testbed sends the same few again and again.
_KEPT_BYTES: Final = 2048
_KEPT: Final = 512


@dataclass(frozen=True, slots=True)
class TransformAttributeValue:
    """A transform attribute (RFC 7296, section 3.3.5)."""

    type: int
    value: int | bytes  # a number in the short format (TV), bytes in the long one (TLV)


@dataclass(frozen=True, slots=True)
class Transform:
    """One algorithm on offer (RFC 7296, section 3.3.2)."""

    type: int  # 1 encryption, 2 PRF, 3 integrity, 4 key exchange, 5 sequence numbers, 6-12 ADDKE1-7 ...
    id: int  # transform ID within the type
    attributes: tuple[TransformAttributeValue, ...]

    @property
    def key_bits(self) -> int | None:
        """Value of the attribute Key Length; None: there is none."""
        for attribute in self.attributes:
            if attribute.type == TransformAttribute.KEY_LENGTH:
                value = attribute.value
                return value if isinstance(value, int) else int.from_bytes(value, "big")
        return None

    @property
    def name(self) -> str:
        """Short name with the key length: AES-GCM-16-256. An unknown ID or type shows its number: 99-256."""
        registry = TRANSFORM_IDS.get(self.type)
        name = str(self.id) if registry is None else get_name(registry, self.id)
        return name if self.key_bits is None else f"{name}-{self.key_bits}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One proposal: of each transform type, one of its alternatives is to be chosen (RFC 7296, 3.3.1)."""

    number: int
    protocol: int  # 1 IKE, 2 AH, 3 ESP
    spi: bytes  # empty in IKE_SA_INIT
    transforms: tuple[Transform, ...]  # in the sender's order

    def describe(self) -> str:
        """The proposal in a line: AES-GCM-16-256/HMAC-SHA2-384/ECP-384/ADDKE1:ML-KEM-768.

        Transform types are separated by "/", in the order encryption, integrity, PRF, key exchange,
        additional key exchanges 1 to 7, sequence numbers, others by number; alternatives of a type by "+", in
        the sender's order, each once. Additional key exchanges and later types begin with the name of the
        type and ":". Left out are types without a transform; integrity and key exchanges whose only
        alternative is NONE, which means the same; sequence numbers outside of ESP and AH.
        """
        alternatives: dict[int, dict[str, int]] = {}
        for transform in self.transforms:
            alternatives.setdefault(transform.type, {}).setdefault(transform.name, transform.id)
        parts = []
        for kind in sorted(alternatives, key=lambda kind: (_ORDER.get(kind, len(_ORDER)), kind)):
            names = alternatives[kind]
            if kind in _MAY_BE_NONE and set(names.values()) == {_NONE}:
                continue
            if kind == TransformType.SN and self.protocol == _IKE:
                continue
            text = "+".join(names)
            parts.append(text if kind in _NO_TYPE_SHOWN else f"{get_name(TransformType, kind)}:{text}")
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class SecurityAssociation:
    """What could be read of an SA payload."""

    proposals: tuple[Proposal, ...]  # in the sender's order; if there is an error, the last may lack transforms
    error: str | None  # why reading ended before the end; None: all was read


def parse_sa(body: bytes) -> SecurityAssociation:
    """Proposals of an SA payload (RFC 7296, section 3.3); `body` is what follows its generic header. Never
    raises.

    Lengths decide how far things reach; the counts and the "last" fields are not trusted. Offsets in the
    error are of `body`.
    """
    return _kept(body) if len(body) <= _KEPT_BYTES else _read(body)


def _read(body: bytes) -> SecurityAssociation:
    cursor = Cursor(body)
    proposals: list[Proposal] = []
    while cursor.remaining():
        transforms: list[Transform] = []
        head: tuple[int, int, bytes] | None = None
        try:
            _, length, number, protocol, spi_size, _ = cursor.unpack(_PROPOSAL)
            with cursor.restrict_to(length - _PROPOSAL.size):
                head = number, protocol, cursor.get_bytes(spi_size)
                while cursor.remaining():
                    transforms.append(_transform(cursor))
        except WireError as error:
            if head is not None:
                proposals.append(Proposal(*head, tuple(transforms)))
            return SecurityAssociation(tuple(proposals), str(error))
        proposals.append(Proposal(*head, tuple(transforms)))
    return SecurityAssociation(tuple(proposals), None)


_kept = lru_cache(maxsize=_KEPT)(_read)


def _transform(cursor: Cursor) -> Transform:
    _, length, kind, number = cursor.unpack(_TRANSFORM)
    if length == _TRANSFORM.size:
        return Transform(kind, number, ())
    attributes = []
    with cursor.restrict_to(length - _TRANSFORM.size):
        while cursor.remaining():
            attributes.append(parse_attribute(cursor))
    return Transform(kind, number, tuple(attributes))


def attribute_value(attributes: Iterable[TransformAttributeValue], kind: int) -> int | None:
    """Number in the first attribute of a type; None: there is none."""
    for attribute in attributes:
        if attribute.type == kind:
            value = attribute.value
            return value if isinstance(value, int) else int.from_bytes(value, "big")
    return None


def parse_attribute(cursor: Cursor) -> TransformAttributeValue:
    """Next attribute, in the short or the long format (RFC 7296, section 3.3.5; RFC 2408, section 3.3)."""
    kind, value = cursor.unpack(_ATTRIBUTE)
    if kind & _TYPE_AND_VALUE:
        return TransformAttributeValue(kind & ~_TYPE_AND_VALUE, value)
    return TransformAttributeValue(kind, cursor.get_bytes(value))
