"""Keys of all file formats with their origin, their fingerprints, and the epochs of an IKE SA.

No `repr` of these classes shows a secret, so they may appear in exceptions and log lines.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import ClassVar

from msgspec import Struct

from ikeanalyze.crypto.sk_payload import MessageKeys, WithSecrets


class Origin(Struct, frozen=True):
    """The place of keys in a file."""

    path: str  # of the file, as given
    line: int | None  # from 1; None: the format has no lines

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


class Derivation(WithSecrets, frozen=True):
    """The logged inputs from which a daemon derived a key set (RFC 7296, sections 2.14, 2.18; RFC 9370, 2.2.2)."""

    SHOWN: ClassVar[tuple[str, ...]] = ("prf",)
    secret: bytes | None  # g^ir, or SK(n) of an additional key exchange
    additional: tuple[bytes, ...]  # of a rekeying (RFC 9370, 2.2.4): SK(1)...
    nonces: bytes | None  # Ni | Nr
    skeyseed: bytes | None
    prf: str | None  # the name in the log: PRF_HMAC_SHA2_256


class KeySet(MessageKeys, frozen=True, kw_only=True):
    """The SK_* of one epoch of an IKE SA (RFC 7296, section 2.14)."""

    SHOWN: ClassVar[tuple[str, ...]] = (*MessageKeys.SHOWN, "origin", "spi_i", "spi_r", "derivation")
    origin: Origin
    spi_i: bytes | None  # 8 bytes; None: the file does not name the IKE SA
    spi_r: bytes | None
    sk_d: bytes | None = None
    sk_pi: bytes | None = None
    sk_pr: bytes | None = None
    derivation: Derivation | None = None


class Phase1Key(WithSecrets, frozen=True):
    """The encryption key of an IKEv1 IKE SA, cut to the cipher's length as in Wireshark (RFC 2409, app. B)."""

    SHOWN: ClassVar[tuple[str, ...]] = ("origin", "cookie_i")
    origin: Origin
    cookie_i: bytes  # 8 bytes
    key: bytes


class EspKey(WithSecrets, frozen=True):
    """The keys of one ESP SA, that is of one direction, with the names of Wireshark's esp_sa table."""

    SHOWN: ClassVar[tuple[str, ...]] = ("origin", "protocol", "source", "destination", "spi", "encryption", "integrity")
    origin: Origin
    protocol: str  # "IPv4" or "IPv6"
    source: str
    destination: str
    spi: int | None  # None: any
    encryption: str
    encryption_key: bytes
    integrity: str
    integrity_key: bytes


def compute_fingerprint(keys: KeySet | Phase1Key | EspKey) -> str:
    """Identify keys without revealing them: the first 8 hexadecimal digits of a SHA-256.

    The hash covers only the keys that decrypt and authenticate messages, so that it is the same in every format.
    """
    values: tuple[bytes, ...]
    match keys:
        case KeySet():
            values = (keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar)
        case Phase1Key():
            values = (keys.key,)
        case EspKey():
            values = (keys.encryption_key, keys.integrity_key)
    return sha256(b"".join(len(value).to_bytes(4) + value for value in values)).hexdigest()[:8]


def number_epochs(key_sets: Sequence[KeySet]) -> list[int | None]:
    """Return the epoch of each key set of a file: how many key sets of its IKE SA come before it.

    Key sets belong to the same IKE SA if they have the same SPIs or, without SPIs, the same nonces. None: the key set
    has neither.
    """
    counts: Counter[tuple[bytes, ...]] = Counter()
    epochs: list[int | None] = []
    for keys in key_sets:
        if keys.spi_i is not None and keys.spi_r is not None:
            sa: tuple[bytes, ...] = (keys.spi_i, keys.spi_r)
        elif keys.derivation is not None and keys.derivation.nonces:
            sa = (keys.derivation.nonces,)
        else:
            epochs.append(None)
            continue
        epochs.append(counts[sa])
        counts[sa] += 1
    return epochs


def remove_repeated_key_sets(key_sets: Sequence[KeySet]) -> list[KeySet]:
    """Return the key sets of several files without repetitions, such as those in the logs of both peers."""
    unique: dict[object, KeySet] = {}
    for keys in key_sets:
        unique.setdefault((keys.spi_i, keys.spi_r, keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar), keys)
    return list(unique.values())
