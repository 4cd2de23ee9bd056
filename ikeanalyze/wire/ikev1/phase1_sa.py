"""Parses SA payloads of IKEv1's phase 1 (RFC 2408, section 3.4; RFC 2409, appendix A)."""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.ikev2.proposals import TransformAttributeValue, get_attribute_number, parse_attributes
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
#: Length of the level or the bitmap of a labelled domain, and reserved bytes (RFC 2407, section 4.6.1).
_LABEL_LENGTH: Final = Struct(">Hxx")


@dataclass(frozen=True, slots=True)
class Phase1Transform:
    """One proposed set of algorithms for phase 1 (RFC 2409, appendix A)."""

    number: int
    attributes: tuple[TransformAttributeValue, ...]

    def value(self, kind: int) -> int | None:
        """Value of the first attribute of a type; None if it is absent."""
        return get_attribute_number(self.attributes, kind)

    @property
    def encryption(self) -> str | None:
        """Encryption algorithm with its key length, such as AES-CBC-256; None if absent."""
        name = self._name(Phase1Attribute.ENCRYPTION_ALGORITHM, Phase1Encryption)
        bits = self.value(Phase1Attribute.KEY_LENGTH)
        return name if name is None or bits is None else f"{name}-{bits}"

    @property
    def hash(self) -> str | None:
        """Hash algorithm of the PRF and the integrity protection, such as SHA2-256; None if absent."""
        return self._name(Phase1Attribute.HASH_ALGORITHM, Phase1Hash)

    @property
    def group(self) -> str | None:
        """Diffie-Hellman group, such as MODP-2048; None if absent."""
        return self._name(Phase1Attribute.GROUP_DESCRIPTION, Phase1Group)

    @property
    def auth(self) -> str | None:
        """Authentication method, such as PSK, RSA-SIG or XAuthInitPSK; None if absent."""
        return self._name(Phase1Attribute.AUTHENTICATION_METHOD, AuthenticationMethod)

    def describe(self) -> str:
        """The transform in one line, without absent values: AES-CBC-256/SHA2-256/MODP-2048/PSK."""
        return "/".join(part for part in (self.encryption, self.hash, self.group, self.auth) if part is not None)

    def _name(self, kind: int, registry: type[Registry]) -> str | None:
        value = self.value(kind)
        return None if value is None else get_name(registry, value)


@dataclass(frozen=True, slots=True)
class Phase1Sa:
    """Contents of an SA payload of phase 1."""

    doi: int | None  # domain of interpretation: 1 IPsec, 2 GDOI
    transforms: tuple[Phase1Transform, ...]  # of all proposals (normally one), in the sender's order
    error: str | None  # why parsing stopped early; None: everything was parsed


def parse_phase1_sa(body: bytes) -> Phase1Sa:
    """Parse an SA payload of phase 1; `body` follows its generic header. Never raises."""
    cursor = Cursor(body)
    doi = None
    transforms: list[Phase1Transform] = []
    try:
        doi = cursor.read_uint32()
        skip_situation(cursor, doi)
        while cursor.remaining():
            _, length, _, _, spi_size, _ = cursor.unpack(_PROPOSAL)
            with cursor.restrict_to(length - _PROPOSAL.size):
                cursor.skip(spi_size)
                while cursor.remaining():
                    transforms.append(_parse_transform(cursor))
    except WireError as error:
        return Phase1Sa(doi, tuple(transforms), str(error))
    return Phase1Sa(doi, tuple(transforms), None)


def skip_situation(cursor: Cursor, doi: int) -> None:
    """Skip the situation, including the security labels (RFC 2407, section 4.6.1)."""
    situation = cursor.read_uint32()
    if doi == Doi.IPSEC and situation & (Situation.SIT_SECRECY | Situation.SIT_INTEGRITY):
        # the labelled domain, then level and category bitmap of each, padded to 4 bytes
        cursor.read_uint32()
        bits = situation & (Situation.SIT_SECRECY | Situation.SIT_INTEGRITY)
        for _ in range(2 * bits.bit_count()):
            (size,) = cursor.unpack(_LABEL_LENGTH)
            cursor.skip(-(-size // 4) * 4)


def _parse_transform(cursor: Cursor) -> Phase1Transform:
    _, length, number, _ = cursor.unpack(_TRANSFORM)
    with cursor.restrict_to(length - _TRANSFORM.size):
        return Phase1Transform(number, parse_attributes(cursor))
