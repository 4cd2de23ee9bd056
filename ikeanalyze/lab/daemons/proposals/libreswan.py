"""Converts proposals from strongSwan's names, which scenarios use, to libreswan's.

strongSwan  aes256gcm16-prfsha384-ecp384        libreswan  aes_gcm_16_256-sha2_384-dh20
"""

import re
from collections.abc import Callable
from typing import Final

_GROUPS: Final = {
    "modp1536": "dh5",
    "modp2048": "dh14",
    "modp3072": "dh15",
    "modp4096": "dh16",
    "modp6144": "dh17",
    "modp8192": "dh18",
    "ecp256": "dh19",
    "ecp384": "dh20",
    "ecp521": "dh21",
    "x25519": "dh31",
    "curve25519": "dh31",
}
_HASHES: Final = {"sha1": "sha1", "sha256": "sha2_256", "sha384": "sha2_384", "sha512": "sha2_512"}
_AES: Final = "aes(128|192|256)"
#: Kind of algorithm, pattern of strongSwan's name, and conversion to libreswan's name.
_RULES: Final[tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    ("encryption", re.compile(_AES), lambda match: f"aes{match[1]}"),
    ("encryption", re.compile(_AES + "(gcm|ccm)(8|12|16)"), lambda match: f"aes_{match[2]}_{match[3]}_{match[1]}"),
    ("encryption", re.compile(r"chacha20poly1305"), lambda match: match[0]),
    ("hash", re.compile(rf"(?:prf)?({'|'.join(_HASHES)})"), lambda match: _HASHES[match[1]]),
    ("group", re.compile("|".join(_GROUPS)), lambda match: _GROUPS[match[0]]),
)


def to_libreswan_proposals(proposals: str) -> str:
    """Convert comma-separated proposals to libreswan's names.

    Raises:
        ValueError: libreswan does not support an algorithm or combination.
    """
    return ",".join(_convert_proposal(proposal) for proposal in proposals.split(","))


def _convert_proposal(proposal: str) -> str:
    words: dict[str, str] = {}
    for word in proposal.split("-"):
        kind, name = _convert_word(word)
        if words.setdefault(kind, name) != name:
            raise ValueError(f"libreswan does not support two algorithms of the same kind in {proposal}")
    return "-".join(words[kind] for kind in ("encryption", "hash", "group") if kind in words)


def _convert_word(word: str) -> tuple[str, str]:
    for kind, pattern, convert in _RULES:
        if match := pattern.fullmatch(word):
            return kind, convert(match)
    raise ValueError(f"libreswan does not support {word}")
