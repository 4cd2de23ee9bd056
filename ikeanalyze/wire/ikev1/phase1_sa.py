"""The security association payload of IKEv1's phase 1: what a peer offers or takes (RFC 2408, section 3.4;
RFC 2409, appendix A).
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.ikev2.proposals import TransformAttributeValue, attribute_value, parse_attribute
from ikeanalyze.wire.registries import Registry, get_name
from ikeanalyze.wire.registries.ikev1 import Doi, Situation
from ikeanalyze.wire.registries.ikev1_phase1 import (
    AuthenticationMethod,
    Phase1Attribute,
    Phase1Encryption,
    Phase1Group,
    Phase1Hash,
)

#: Last substructure, length, number, protocol, SPI size, number of transforms (RFC 2408, section 3.5).
_PROPOSAL: Final = Struct(">BxHBBBB")
#: Last substructure, length, number, transform ID (RFC 2408, section 3.6).
_TRANSFORM: Final = Struct(">BxHBBxx")
#: Length of a labelled domain's level and of its bitmap, with what is reserved (RFC 2407, section 4.6.1).
_LABEL_LENGTH: Final = Struct(">Hxx")


@dataclass(frozen=True, slots=True)
class Phase1Transform:
    """One set of algorithms on offer for phase 1 (RFC 2409, appendix A)."""

    number: int
    attributes: tuple[TransformAttributeValue, ...]

    def value(self, kind: int) -> int | None:
        """Value of the first attribute of a type; None: there is none."""
        return attribute_value(self.attributes, kind)

    @property
    def encryption(self) -> str | None:
        """Encryption algorithm with its key length: AES-CBC-256; None: not said."""
        name = self._name(Phase1Attribute.ENCRYPTION_ALGORITHM, Phase1Encryption)
        bits = self.value(Phase1Attribute.KEY_LENGTH)
        return name if name is None or bits is None else f"{name}-{bits}"

    @property
    def hash(self) -> str | None:
        """Hash algorithm, which gives the PRF and the integrity protection: SHA2-256; None: not said."""
        return self._name(Phase1Attribute.HASH_ALGORITHM, Phase1Hash)

    @property
    def group(self) -> str | None:
        """Diffie-Hellman group: MODP-2048; None: not said."""
        return self._name(Phase1Attribute.GROUP_DESCRIPTION, Phase1Group)

    @property
    def auth(self) -> str | None:
        """Authentication method: PSK, RSA-SIG, XAuthInitPSK; None: not said."""
        return self._name(Phase1Attribute.AUTHENTICATION_METHOD, AuthenticationMethod)

    def describe(self) -> str:
        """In a line, what is not said left out: AES-CBC-256/SHA2-256/MODP-2048/PSK."""
        return "/".join(part for part in (self.encryption, self.hash, self.group, self.auth) if part is not None)

    def _name(self, kind: int, registry: type[Registry]) -> str | None:
        value = self.value(kind)
        return None if value is None else get_name(registry, value)


@dataclass(frozen=True, slots=True)
class Phase1Sa:
    """What could be read of an SA payload."""

    doi: int | None  # domain of interpretation: 1 IPsec, 2 GDOI
    transforms: tuple[Phase1Transform, ...]  # of all proposals (there should be one), in the sender's order
    error: str | None  # why reading ended before the end; None: all was read


def parse_phase1_sa(body: bytes) -> Phase1Sa:
    """Transforms of an SA payload of phase 1; `body` is what follows its generic header. Never raises."""
    cursor = Cursor(body)
    doi = None
    transforms: list[Phase1Transform] = []
    try:
        doi = cursor.get_uint32()
        skip_situation(cursor, doi)
        while cursor.remaining():
            _, length, _, _, spi_size, _ = cursor.unpack(_PROPOSAL)
            with cursor.restrict_to(length - _PROPOSAL.size):
                cursor.skip(spi_size)
                while cursor.remaining():
                    transforms.append(_transform(cursor))
    except WireError as error:
        return Phase1Sa(doi, tuple(transforms), str(error))
    return Phase1Sa(doi, tuple(transforms), None)


def skip_situation(cursor: Cursor, doi: int) -> None:
    """Pass over the situation, with the labels of a labelled domain (RFC 2407, section 4.6.1)."""
    situation = cursor.get_uint32()
    if doi == Doi.IPSEC and situation & (Situation.SIT_SECRECY | Situation.SIT_INTEGRITY):
        # the labelled domain, then level and category bitmap of each, padded to 4 bytes
        cursor.get_uint32()
        bits = situation & (Situation.SIT_SECRECY | Situation.SIT_INTEGRITY)
        for _ in range(2 * bits.bit_count()):
            (size,) = cursor.unpack(_LABEL_LENGTH)
            cursor.skip(-(-size // 4) * 4)


def _transform(cursor: Cursor) -> Phase1Transform:
    _, length, number, _ = cursor.unpack(_TRANSFORM)
    attributes = []
    with cursor.restrict_to(length - _TRANSFORM.size):
        while cursor.remaining():
            attributes.append(parse_attribute(cursor))
    return Phase1Transform(number, tuple(attributes))
