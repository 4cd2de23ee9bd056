"""The algorithms of ESP suites: the sizes of initialization vector, block and ICV of each algorithm.

A suite is named as in strongSwan's `esp_proposals`: `aes256gcm16`, `aes128-sha256`, `chacha20poly1305`, `3des-md5`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


class EspError(ValueError):
    """An invalid argument; the message has its value and the allowed ones, `what` is the name of the argument."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(text)
        self.what = what


@dataclass(frozen=True, slots=True)
class EspCipher:
    """An encryption algorithm, with or without authentication (AEAD)."""

    iv: int  # bytes of the initialization vector in each packet
    block: int  # block size of the cipher in bytes; ESP itself aligns to 4 bytes
    icv: int  # bytes of the ICV; 0: the cipher does not authenticate
    source: str  # the RFC that defines the algorithm


@dataclass(frozen=True, slots=True)
class EspIntegrity:
    """An integrity algorithm."""

    icv: int  # bytes after truncation
    source: str


@dataclass(frozen=True, slots=True)
class EspCipherSuite:
    """The algorithms of an ESP SA, and the sizes that follow from them."""

    name: str  # as in `esp_proposals`
    encryption: str  # key of CIPHERS
    integrity: str | None  # key of INTEGRITIES; None: the cipher authenticates, or there is no authentication
    iv: int  # bytes before the ciphertext
    alignment: int  # bytes; payload, padding and trailer are a multiple of this
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
        aes, camellia = f"aes{bits}", f"camellia{bits}"
        ciphers[aes] = EspCipher(16, 16, 0, "RFC 3602")
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


#: Other names of strongSwan: default key lengths, ICVs in bits, hashes with their family.
ALIASES: Final[Mapping[str, str]] = MappingProxyType(_aliases())

#: Parts of a proposal that do not change the size of packets.
_WITHOUT_SIZE: Final = (
    (re.compile(r"(ke[1-7]_)?(modp|ecp|curve|x25519|x448|mlkem|frodo|bike|hqc|ntru)\w*"), "a key exchange method"),
    (re.compile(r"prf\w*"), "a pseudorandom function"),
    (re.compile(r"(no)?esn"), "for extended sequence numbers"),
)

#: ESP aligns the ciphertext to 4 bytes with any cipher (RFC 4303, section 2.4).
_MIN_ALIGNMENT: Final = 4


def parse_suite(name: str) -> EspCipherSuite:
    """Return the suite with this name.

    Raises:
        EspError: an algorithm is unknown, both algorithms authenticate, or there is neither encryption nor
            authentication (RFC 4303, section 3.2).
    """
    first, *rest = (ALIASES.get(part, part) for part in name.lower().split("-"))
    for part in rest:
        for pattern, kind in _WITHOUT_SIZE:
            if pattern.fullmatch(part):
                raise EspError("suite", f"{name!r}: {part!r} is {kind} and does not change sizes; omit it")
    if first not in CIPHERS:
        order = "the cipher must come first; " if first in INTEGRITIES else ""
        raise EspError("suite", f"{name!r}: {order}unknown cipher {first!r}; allowed are {_list_ciphers()}")
    if len(rest) > 1:
        raise EspError("suite", f"{name!r} is not CIPHER or CIPHER-INTEGRITY")
    cipher = CIPHERS[first]
    integrity = rest[0] if rest else None
    if integrity is not None and integrity not in INTEGRITIES:
        known = ", ".join(INTEGRITIES)
        raise EspError("suite", f"{name!r}: unknown integrity algorithm {integrity!r}; allowed are {known}")
    if integrity is not None and cipher.icv:
        raise EspError("suite", f"{name!r}: {first} has its own authentication; omit the integrity algorithm")
    if integrity is None and first == "null":
        raise EspError("suite", f"{name!r} does not protect packets; add an integrity algorithm, as in null-sha256")
    icv = cipher.icv if integrity is None else INTEGRITIES[integrity].icv
    return EspCipherSuite(name.lower(), first, integrity, cipher.iv, max(cipher.block, _MIN_ALIGNMENT), icv)


def _list_ciphers() -> str:
    """Return the names of all ciphers; those that differ only in the key length are one name."""
    names = dict.fromkeys(
        name.replace("128", "128|192|256", 1) if name.startswith(("aes128", "camellia128")) else name
        for name in CIPHERS
        if not name.startswith(("aes192", "aes256", "camellia192", "camellia256"))
    )
    return ", ".join(names)
