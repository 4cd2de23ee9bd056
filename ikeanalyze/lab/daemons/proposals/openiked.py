"""Converts proposals from strongSwan's names, which scenarios use, to those of iked.conf(5).

strongSwan  aes256gcm16-prfsha384-ecp384        iked  ikesa enc aes-256-gcm prf hmac-sha2-384 group ecp384
"""

import re
from collections.abc import Callable
from typing import Final

_GROUPS: Final = "modp768|modp1024|modp1536|modp2048|modp3072|modp4096|modp6144|modp8192|ecp256|ecp384|ecp521"
_HASHES: Final = {"sha1": "hmac-sha1", "sha256": "hmac-sha2-256", "sha384": "hmac-sha2-384", "sha512": "hmac-sha2-512"}
_HASH_NAMES: Final = "|".join(_HASHES)
#: What each keyword of iked.conf(5) is for.
_PURPOSES: Final = {"ikesa": "IKE", "childsa": "ESP"}
#: Ciphers that iked has for one of the two keywords only, with this keyword; iked then rejects its whole configuration.
_LIMITED: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile("chacha20poly1305"), "childsa"),
    (re.compile("aes(128|256)gcm12"), "ikesa"),
)
#: Kind of algorithm, pattern of strongSwan's name, and conversion to iked's name.
_RULES: Final[tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    ("enc", re.compile("3des"), lambda match: match[0]),
    ("enc", re.compile("aes(128|192|256)"), lambda match: f"aes-{match[1]}"),
    ("enc", re.compile("aes(128|256)gcm16"), lambda match: f"aes-{match[1]}-gcm"),
    ("enc", re.compile("aes(128|256)gcm12"), lambda match: f"aes-{match[1]}-gcm-12"),
    ("enc", re.compile("chacha20poly1305"), lambda _: "chacha20-poly1305"),
    ("auth", re.compile(_HASH_NAMES), lambda match: _HASHES[match[0]]),
    ("prf", re.compile(f"prf({_HASH_NAMES})"), lambda match: _HASHES[match[1]]),
    ("group", re.compile(_GROUPS), lambda match: match[0]),
    ("group", re.compile("x25519|curve25519"), lambda _: "curve25519"),
)


def to_iked_proposals(proposals: str, keyword: str) -> list[str]:
    """Convert comma-separated proposals; `keyword` is "ikesa" or "childsa".

    Raises:
        ValueError: OpenIKED does not support an algorithm, or not for this keyword.
    """
    return [_convert_proposal(proposal, keyword) for proposal in proposals.split(",")]


def _convert_proposal(proposal: str, keyword: str) -> str:
    words: dict[str, list[str]] = {"enc": [], "prf": [], "auth": [], "group": []}
    for word in proposal.split("-"):
        kind, name = _convert_word(word, keyword)
        words[kind].append(name)
    if keyword == "childsa":
        words["prf"] = []
    elif not words["prf"]:  # strongSwan's default: the hash of the integrity algorithm
        words["prf"] = words["auth"]
    parts = [f"{kind} {name}" for kind, names in words.items() for name in names]
    return " ".join([keyword, *parts, *(["noesn"] if keyword == "childsa" else [])])


def _convert_word(word: str, keyword: str) -> tuple[str, str]:
    for pattern, only in _LIMITED:
        if pattern.fullmatch(word) and keyword != only:
            raise ValueError(f"OpenIKED supports {word} for {_PURPOSES[only]} only")
    for kind, pattern, convert in _RULES:
        if match := pattern.fullmatch(word):
            return kind, convert(match)
    raise ValueError(f"OpenIKED does not support {word}")
