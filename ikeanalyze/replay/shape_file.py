"""Shape files: a handshake described in TOML, for a live replay without a capture.

proposals = "aes256-sha256-ecp256"    # for the IKE SA, in strongSwan's words, separated by commas
esp_proposals = "aes256-sha256"       # for the Child SA
auth = "eap"                          # psk, rsa, ecdsa, ed25519, ed448 or eap; by default as the credentials allow
eap = "EAP-AKA"                       # the only EAP method to accept; by default any
fragment_size = 1248                  # largest unfragmented IKE message in bytes; 0: no IKE fragmentation
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from ikeanalyze.io.toml import TomlFileError, decode_toml
from ikeanalyze.replay.handshake_shape import DEFAULT_FRAGMENT_SIZE, HandshakeShape, make_transform
from ikeanalyze.replay.initiator.interface import CannotReplayError
from ikeanalyze.wire.ikev2.proposals import Proposal, Transform
from ikeanalyze.wire.registries.ikev2 import ProtocolId
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.registries.ikev2_transforms import (
    Encryption,
    Integrity,
    KeyExchangeMethod,
    Prf,
    TransformType,
)

#: A path with this suffix is a shape file.
SUFFIX: Final = ".toml"
_HASH_IDS: Final = b"\0\2\0\3\0\4"  # SHA2-256, -384 and -512 (RFC 7427, section 4)
_ProposalText = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9_]+(-[a-z0-9_]+)*(,[a-z0-9_]+(-[a-z0-9_]+)*){0,254}\Z",
        max_length=10_000,
        description="algorithms in strongSwan's words, such as aes256-sha256-ecp256",
    ),
]


class _ShapeTable(Struct, forbid_unknown_fields=True):
    proposals: _ProposalText = "aes256-sha256-ecp256"
    esp_proposals: _ProposalText = "aes256-sha256"
    auth: Literal["psk", "rsa", "ecdsa", "ed25519", "ed448", "eap"] | None = None
    eap: Literal["EAP-MD5", "EAP-MSCHAPv2", "EAP-AKA"] | None = None
    fragment_size: Annotated[int, Meta(ge=0, le=65_535)] = DEFAULT_FRAGMENT_SIZE


_PRFS: Final = {
    "sha1": Prf.HMAC_SHA1,
    "sha256": Prf.HMAC_SHA2_256,
    "sha384": Prf.HMAC_SHA2_384,
    "sha512": Prf.HMAC_SHA2_512,
}
_INTEGRITY: Final = {
    "sha1": Integrity.HMAC_SHA1_96,
    "sha256": Integrity.HMAC_SHA2_256_128,
    "sha384": Integrity.HMAC_SHA2_384_192,
    "sha512": Integrity.HMAC_SHA2_512_256,
}
_HASHES: Final = "|".join(_PRFS)
_GROUPS: Final = {
    **{f"modp{bits}": KeyExchangeMethod[f"MODP_{bits}"] for bits in (2048, 3072, 4096)},
    **{f"ecp{bits}": KeyExchangeMethod[f"ECP_{bits}"] for bits in (256, 384, 521)},
    **{f"mlkem{size}": KeyExchangeMethod[f"ML_KEM_{size}"] for size in (512, 768, 1024)},
    "x25519": KeyExchangeMethod.X25519,
    "curve25519": KeyExchangeMethod.X25519,
    "x448": KeyExchangeMethod.X448,
}
_GROUP: Final = "|".join(_GROUPS)
#: Pattern of a word, and conversion to its transform.
_WORDS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Transform]], ...]] = (
    (
        re.compile(r"aes(128|192|256)"),
        lambda match: make_transform(TransformType.ENCR, Encryption.AES_CBC, int(match[1])),
    ),
    (
        re.compile(r"aes(128|192|256)(gcm|ccm)(8|12|16)"),
        lambda match: make_transform(
            TransformType.ENCR, Encryption[f"AES_{match[2].upper()}_{match[3]}"], int(match[1])
        ),
    ),
    (re.compile("chacha20poly1305"), lambda _: make_transform(TransformType.ENCR, Encryption.CHACHA20_POLY1305)),
    (re.compile(f"({_HASHES})"), lambda match: make_transform(TransformType.INTEG, _INTEGRITY[match[1]])),
    (re.compile(f"prf({_HASHES})"), lambda match: make_transform(TransformType.PRF, _PRFS[match[1]])),
    (re.compile(f"({_GROUP})"), lambda match: make_transform(TransformType.KE, _GROUPS[match[1]])),
    (
        re.compile(f"ke([1-7])_({_GROUP})"),
        lambda match: make_transform(TransformType.ADDKE1 + int(match[1]) - 1, _GROUPS[match[2]]),
    ),
)


def read_shape_file(path: str) -> HandshakeShape:
    """Read the shape of a handshake from a shape file.

    Raises:
        CannotReplayError: the file cannot be read or is not valid; one line with its path.
    """
    try:
        table = decode_toml(path, _ShapeTable)
        return _make_shape(table)
    except OSError as error:
        raise CannotReplayError(f"{path}: {error.strerror}") from None
    except (TomlFileError, ValueError) as error:
        raise CannotReplayError(f"{path}: {error}") from None


def _make_shape(table: _ShapeTable) -> HandshakeShape:
    """Raises ValueError: an algorithm is not known or missing."""
    proposals = tuple(_parse_proposals(table.proposals, ProtocolId.IKE))
    methods = [transform.id for transform in proposals[0].transforms if transform.type == TransformType.KE]
    shape = HandshakeShape(
        proposals=proposals,
        key_exchange=methods[0],
        fragment_size=table.fragment_size or None,
        esp_proposals=tuple(_parse_proposals(table.esp_proposals, ProtocolId.ESP)),
        auth_initiator=table.auth or ("eap" if table.eap else None),
        eap=table.eap,
        guessed=() if table.auth or table.eap else ("auth_initiator",),
    )
    notifies: list[tuple[int, bytes]] = [(NotifyType.SIGNATURE_HASH_ALGORITHMS, _HASH_IDS)]
    if table.fragment_size:
        notifies.append((NotifyType.IKEV2_FRAGMENTATION_SUPPORTED, b""))
    if shape.additional:
        notifies.append((NotifyType.INTERMEDIATE_EXCHANGE_SUPPORTED, b""))
    return replace(shape, notifies=tuple(notifies))


def _parse_proposals(text: str, protocol: ProtocolId) -> Sequence[Proposal]:
    """Return the proposals of a comma-separated list."""
    build = _build_ike if protocol == ProtocolId.IKE else _build_esp
    return [
        Proposal(number, protocol, b"", build(proposal, [_parse_word(word) for word in proposal.split("-")]))
        for number, proposal in enumerate(text.split(","), 1)
    ]


def _parse_word(word: str) -> Transform:
    for pattern, convert in _WORDS:
        if match := pattern.fullmatch(word):
            return convert(match)
    raise ValueError(f"unknown algorithm {word}")


def _build_ike(text: str, transforms: list[Transform]) -> tuple[Transform, ...]:
    """Return the transforms of an IKE proposal; without a PRF, that of the integrity algorithm, as strongSwan does."""
    kinds = {transform.type for transform in transforms}
    if TransformType.PRF not in kinds:
        hashes = {number: _PRFS[name] for name, number in _INTEGRITY.items()}
        integrity = [transform.id for transform in transforms if transform.type == TransformType.INTEG]
        transforms = [
            *transforms,
            *(make_transform(TransformType.PRF, hashes[Integrity(number)]) for number in integrity),
        ]
    kinds = {transform.type for transform in transforms}
    for kind, name in (
        (TransformType.ENCR, "encryption algorithm"),
        (TransformType.PRF, "PRF"),
        (TransformType.KE, "key exchange"),
    ):
        if kind not in kinds:
            raise ValueError(f"proposals: {text} has no {name}")
    return tuple(transforms)


def _build_esp(text: str, transforms: list[Transform]) -> tuple[Transform, ...]:
    """Return the transforms of an ESP proposal. The first Child SA has no key exchange (RFC 7296, section 1.2)."""
    kept = [transform for transform in transforms if transform.type in (TransformType.ENCR, TransformType.INTEG)]
    if TransformType.ENCR not in {transform.type for transform in kept}:
        raise ValueError(f"esp_proposals: {text} has no encryption algorithm")
    return (*kept, make_transform(TransformType.SN, 0))
