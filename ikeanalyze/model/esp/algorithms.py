"""The algorithms of ESP suites: the sizes of initialization vector, padding and ICV of every algorithm.

A suite is named as in strongSwan's `esp_proposals`: `aes256gcm16`, `aes128-sha256`, `chacha20poly1305`, `3des-md5`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


class EspError(ValueError):
    """No packet can be like that; the text has what was asked for and what there is, `what` names the argument."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(text)
        self.what = what


@dataclass(frozen=True, slots=True)
class EspCipher:
    """An encryption algorithm, or one that encrypts and authenticates."""

    iv: int  # bytes of the initialization vector that each packet carries
    block: int  # bytes of which the ciphertext is a multiple, as the cipher needs it; ESP itself needs 4
    icv: int  # bytes of its own ICV; 0: it does not authenticate
    source: str  # the RFC that defines it


@dataclass(frozen=True, slots=True)
class EspIntegrity:
    """An integrity algorithm."""

    icv: int  # bytes, as truncated
    source: str


@dataclass(frozen=True, slots=True)
class EspCipherSuite:
    """What protects the packets of an ESP SA."""

    name: str  # as in `esp_proposals`
    encryption: str  # key of CIPHERS
    integrity: str | None  # key of INTEGRITIES; None: the cipher authenticates, or nothing does
    iv: int  # bytes that stand before the ciphertext
    alignment: int  # payload, padding and the two bytes after them are a multiple of this, in bytes
    icv: int  # bytes after the ciphertext


def _ciphers() -> dict[str, EspCipher]:
    ciphers = {
        "null": EspCipher(0, 1, 0, "RFC 2410"),
        "des": EspCipher(8, 8, 0, "RFC 2405"),
        "3des": EspCipher(8, 8, 0, "RFC 2451"),
        "cast128": EspCipher(8, 8, 0, "RFC 2451"),
        "blowfish": EspCipher(8, 8, 0, "RFC 2451"),
    }
    for bits in (128, 192, 256):
        aes = f"aes{bits}"
        ciphers[aes] = EspCipher(16, 16, 0, "RFC 3602")
        camellia = f"camellia{bits}"
        ciphers[camellia] = EspCipher(16, 16, 0, "RFC 4312")
        ciphers[f"{camellia}ctr"] = EspCipher(8, 1, 0, "RFC 5529")
        ciphers[f"{aes}ctr"] = EspCipher(8, 1, 0, "RFC 3686")
        ciphers[f"{aes}gmac"] = EspCipher(8, 1, 16, "RFC 4543")
        for icv in (8, 12, 16):
            ciphers[f"{aes}gcm{icv}"] = EspCipher(8, 1, icv, "RFC 4106")
            ciphers[f"{aes}ccm{icv}"] = EspCipher(8, 1, icv, "RFC 4309")
            ciphers[f"{camellia}ccm{icv}"] = EspCipher(8, 1, icv, "RFC 5529")
        ciphers[f"{aes}gcm16iiv"] = EspCipher(0, 1, 16, "RFC 8750")
        ciphers[f"{aes}ccm8iiv"] = EspCipher(0, 1, 8, "RFC 8750")
    ciphers["chacha20poly1305"] = EspCipher(8, 1, 16, "RFC 7634")
    ciphers["chacha20poly1305iiv"] = EspCipher(0, 1, 16, "RFC 8750")
    return ciphers


#: Ciphers by their names in proposals; `iiv` at the end is ours, for the implicit IV of RFC 8750.
CIPHERS: Final[Mapping[str, EspCipher]] = MappingProxyType(_ciphers())

#: Integrity algorithms by their names in proposals.
INTEGRITIES: Final[Mapping[str, EspIntegrity]] = MappingProxyType(
    {
        "md5": EspIntegrity(12, "RFC 2403"),
        "md5_128": EspIntegrity(16, "RFC 4595"),
        "sha1": EspIntegrity(12, "RFC 2404"),
        "sha1_160": EspIntegrity(20, "RFC 4595"),
        "aesxcbc": EspIntegrity(12, "RFC 3566"),
        "aescmac": EspIntegrity(12, "RFC 4494"),
        "sha256_96": EspIntegrity(12, "draft-ietf-ipsec-ciph-sha-256-00"),
        "sha256": EspIntegrity(16, "RFC 4868"),
        "sha384": EspIntegrity(24, "RFC 4868"),
        "sha512": EspIntegrity(32, "RFC 4868"),
    }
)


def _aliases() -> dict[str, str]:
    aliases = {"aes": "aes128", "camellia": "camellia128", "sha": "sha1"}
    for bits in (128, 192, 256):
        aliases[f"blowfish{bits}"] = "blowfish"
        for aead in ("aes{}gcm", "aes{}ccm", "camellia{}ccm"):
            name = aead.format(bits)
            aliases |= {f"{name}{8 * icv}": f"{name}{icv}" for icv in (8, 12, 16)}
    for name in ("256", "256_96", "384", "512"):
        aliases[f"sha2_{name}"] = f"sha{name}"
    return aliases


#: Other names that strongSwan has for the same: key lengths by default, ICVs in bits, the family before the hash.
ALIASES: Final[Mapping[str, str]] = MappingProxyType(_aliases())

#: What a proposal has besides, which no packet shows.
_ELSE: Final = (
    (
        re.compile(r"(ke[1-7]_)?(modp|ecp|curve|x25519|x448|mlkem|frodo|bike|hqc|ntru)\w*"),
        "a key exchange method",
    ),
    (re.compile(r"prf\w*"), "a pseudorandom function"),
    (re.compile(r"(no)?esn"), "about extended sequence numbers"),
)

#: Of RFC 4303, section 2.4: the ciphertext ends on a 4-byte boundary, whatever the cipher.
_WORD: Final = 4


def parse_suite(name: str) -> EspCipherSuite:
    """The suite of this name.

    Raises:
        EspError: it has an unknown algorithm, two that authenticate, or one that does nothing (RFC 4303, 3.2).
    """
    first, *rest = (ALIASES.get(part, part) for part in name.lower().split("-"))
    for part in rest:
        for pattern, kind in _ELSE:
            if pattern.fullmatch(part):
                raise EspError("suite", f"{name!r}: {part!r} is {kind}, which changes no size; leave it out")
    if first not in CIPHERS:
        prefix = "the cipher stands first, and no" if first in INTEGRITIES else "no"
        raise EspError("suite", f"{name!r}: {prefix} cipher is called {first!r}; there are {_names(CIPHERS)}")
    if len(rest) > 1:
        raise EspError("suite", f"{name!r} is not CIPHER or CIPHER-INTEGRITY")
    cipher = CIPHERS[first]
    integrity = rest[0] if rest else None
    if integrity is not None and integrity not in INTEGRITIES:
        known = ", ".join(INTEGRITIES)
        raise EspError("suite", f"{name!r}: no integrity algorithm is called {integrity!r}; there are {known}")
    if integrity is not None and cipher.icv:
        raise EspError("suite", f"{name!r}: {first} authenticates by itself, it takes no integrity algorithm")
    if integrity is None and first == "null":
        raise EspError("suite", f"{name!r} protects nothing; say what authenticates, as in null-sha256")
    icv = cipher.icv if integrity is None else INTEGRITIES[integrity].icv
    return EspCipherSuite(name.lower(), first, integrity, cipher.iv, max(cipher.block, _WORD), icv)


def _names(ciphers: Mapping[str, EspCipher]) -> str:
    """All of them, the three key lengths in one."""
    names = dict.fromkeys(
        name.replace("128", "128|192|256", 1) if name.startswith(("aes128", "camellia128")) else name
        for name in ciphers
        if not name.startswith(("aes192", "aes256", "camellia192", "camellia256"))
    )
    return ", ".join(names)
