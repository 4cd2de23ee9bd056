"""Parses SA payloads of phase 1 and of quick mode (RFC 2408, sections 3.4 to 3.6; RFC 2407, section 4.6.1)."""

from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.ikev2.proposals import PROPOSAL, TransformAttributeValue, get_attribute_number, parse_attributes
from ikeanalyze.wire.registries import Registry, get_name, ikev1_phase1
from ikeanalyze.wire.registries.ikev1 import Doi, Ikev1ProtocolId, Situation
from ikeanalyze.wire.registries.ikev1_phase1 import Phase1Attribute, Phase1Group
from ikeanalyze.wire.registries.ikev1_phase2 import TRANSFORM_IDS, AuthenticationAlgorithm, Phase2Attribute

#: Last substructure, length, number, transform ID (RFC 2408, section 3.6).
_TRANSFORM: Final = Struct(">BxHBBxx")
#: Length of the level or the bitmap of a labelled domain, and reserved bytes (RFC 2407, section 4.6.1).
_LABEL_LENGTH: Final = Struct(">Hxx")


class Ikev1Transform(msgspec.Struct, frozen=True):
    """One proposed set of algorithms; the properties are those of phase 1 (RFC 2409, appendix A)."""

    number: int
    id: int  # transform ID within the protocol of the proposal
    attributes: tuple[TransformAttributeValue, ...]

    def value(self, kind: int) -> int | None:
        """Value of the first attribute of a type; None if it is absent."""
        return get_attribute_number(self.attributes, kind)

    @property
    def encryption(self) -> str | None:
        """Encryption algorithm with its key length, such as AES-CBC-256; None if absent."""
        name = self.value_name(Phase1Attribute.ENCRYPTION_ALGORITHM, ikev1_phase1.Phase1Encryption)
        bits = self.value(Phase1Attribute.KEY_LENGTH)
        return name if name is None or bits is None else f"{name}-{bits}"

    @property
    def hash(self) -> str | None:
        """Hash algorithm of the PRF and the integrity protection, such as SHA2-256; None if absent."""
        return self.value_name(Phase1Attribute.HASH_ALGORITHM, ikev1_phase1.Phase1Hash)

    @property
    def group(self) -> str | None:
        """Diffie-Hellman group, such as MODP-2048; None if absent."""
        return self.value_name(Phase1Attribute.GROUP_DESCRIPTION, Phase1Group)

    @property
    def auth(self) -> str | None:
        """Authentication method, such as PSK, RSA-SIG or XAuthInitPSK; None if absent."""
        return self.value_name(Phase1Attribute.AUTHENTICATION_METHOD, ikev1_phase1.AuthenticationMethod)

    def describe(self) -> str:
        """The transform of phase 1 in one line, without absent values: AES-CBC-256/SHA2-256/MODP-2048/PSK."""
        return "/".join(filter(None, (self.encryption, self.hash, self.group, self.auth)))

    def value_name(self, kind: int, registry: type[Registry]) -> str | None:
        """Name of the value of an attribute; None if the attribute is absent."""
        value = self.value(kind)
        return None if value is None else get_name(registry, value)


class Ikev1Proposal(msgspec.Struct, frozen=True):
    """One proposal; proposals with the same number are accepted or rejected together (RFC 2408, section 4.2)."""

    number: int
    protocol: int  # 1 ISAKMP, 2 AH, 3 ESP, 4 IPCOMP
    spi: bytes
    transforms: tuple[Ikev1Transform, ...]  # in order of preference

    def describe(self) -> str:
        """The proposal of quick mode in one line: ESP:AES-CBC-128/HMAC-SHA1/MODP-2048; "+" separates alternatives."""
        name = get_name(Ikev1ProtocolId, self.protocol).removeprefix("PROTO_").removeprefix("IPSEC_")
        return f"{name}:{'+'.join(dict.fromkeys(map(self._describe_transform, self.transforms)))}"

    def _describe_transform(self, transform: Ikev1Transform) -> str:
        registry = TRANSFORM_IDS.get(self.protocol)
        name = str(transform.id) if registry is None else get_name(registry, transform.id)
        bits = transform.value(Phase2Attribute.KEY_LENGTH)
        integrity = transform.value_name(Phase2Attribute.AUTHENTICATION_ALGORITHM, AuthenticationAlgorithm)
        group = transform.value_name(Phase2Attribute.GROUP_DESCRIPTION, Phase1Group)
        return "/".join(filter(None, (name if bits is None else f"{name}-{bits}", integrity, group)))


class Ikev1Sa(msgspec.Struct, frozen=True):
    """Contents of an SA payload."""

    doi: int | None  # domain of interpretation: 1 IPsec, 2 GDOI; None: truncated
    proposals: tuple[Ikev1Proposal, ...]  # in the sender's order, without an incomplete last one
    transforms: tuple[Ikev1Transform, ...]  # of all proposals (in phase 1 normally one), in the sender's order
    error: str | None  # why parsing stopped early; None: everything was parsed


def parse_ikev1_sa(body: bytes) -> Ikev1Sa:
    """Parse an SA payload of phase 1 or quick mode; `body` follows its generic header. Never raises."""
    cursor = Cursor(body)
    doi = error = None
    proposals: list[Ikev1Proposal] = []
    transforms: list[Ikev1Transform] = []
    try:
        doi = cursor.read_uint32()
        _skip_situation(cursor, doi)
        while cursor.remaining():
            _, length, number, protocol, spi_size, _ = cursor.unpack(PROPOSAL)
            first = len(transforms)
            with cursor.restrict_to(length - PROPOSAL.size):
                spi = cursor.read_bytes(spi_size)
                while cursor.remaining():
                    transforms.append(_parse_transform(cursor))
            proposals.append(Ikev1Proposal(number, protocol, spi, tuple(transforms[first:])))
    except WireError as problem:
        error = str(problem)
    return Ikev1Sa(doi, tuple(proposals), tuple(transforms), error)


def _skip_situation(cursor: Cursor, doi: int) -> None:
    """Skip the situation, including the security labels (RFC 2407, section 4.6.1)."""
    labels = cursor.read_uint32() & (Situation.SIT_SECRECY | Situation.SIT_INTEGRITY)
    if doi != Doi.IPSEC or not labels:
        return
    cursor.read_uint32()  # the labelled domain
    for _ in range(labels.bit_count()):
        # a level whose length is in bytes, then a category bitmap whose length is in bits, both padded to 32 bits
        for unit_bits in (8, 1):
            (length,) = cursor.unpack(_LABEL_LENGTH)
            cursor.skip(-(-length * unit_bits // 32) * 4)


def _parse_transform(cursor: Cursor) -> Ikev1Transform:
    _, length, number, ident = cursor.unpack(_TRANSFORM)
    with cursor.restrict_to(length - _TRANSFORM.size):
        return Ikev1Transform(number, ident, parse_attributes(cursor))
