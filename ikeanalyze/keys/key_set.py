"""Keys as they come out of files, whatever the file: one object per set, with where it stood.

No `repr` of these shows a secret: an exception or a log line that has one in it is harmless.

Which key sets are the same, and which are epochs of one IKE SA.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from ikeanalyze.crypto.key_schedule import MessageKeys


@dataclass(frozen=True, slots=True)
class Origin:
    """Where keys stand."""

    path: str  # of the file, as it was given
    line: int | None  # from 1; None: the format has no lines


@dataclass(frozen=True, slots=True)
class Derivation:
    """What a daemon logged of how it derived a key set (RFC 7296, sections 2.14 and 2.18; RFC 9370, 2.2.2)."""

    secret: bytes | None = field(repr=False)  # g^ir, or SK(n) of an additional key exchange
    additional: tuple[bytes, ...] = field(repr=False)  # more of a rekeying (RFC 9370, 2.2.4): SK(1)...
    nonces: bytes | None = field(repr=False)  # Ni | Nr
    skeyseed: bytes | None = field(repr=False)
    prf: str | None  # as the log names it: PRF_HMAC_SHA2_256


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySet(MessageKeys):
    """The SK_* of one epoch of an IKE SA (RFC 7296, section 2.14)."""

    origin: Origin
    spi_i: bytes | None  # 8 bytes; None: the file does not say for which IKE SA the keys are
    spi_r: bytes | None
    sk_d: bytes | None = field(repr=False, default=None)
    sk_pi: bytes | None = field(repr=False, default=None)
    sk_pr: bytes | None = field(repr=False, default=None)
    derivation: Derivation | None = None


@dataclass(frozen=True, slots=True)
class Phase1Key:
    """The encryption key of an IKEv1 IKE SA, as Wireshark has it: already of the cipher's length (RFC 2409, app. B)."""

    origin: Origin
    cookie_i: bytes  # 8 bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class EspKey:
    """The keys of one ESP SA, that is of one direction. Names are those of Wireshark's table."""

    origin: Origin
    protocol: str  # "IPv4" or "IPv6"
    source: str
    destination: str
    spi: int | None  # None: any
    encryption: str
    encryption_key: bytes = field(repr=False)
    integrity: str
    integrity_key: bytes = field(repr=False)


pass

_SHOWN: Final = 8  # hexadecimal digits of a fingerprint


def compute_fingerprint(keys: KeySet | Phase1Key | EspKey) -> str:
    """What tells keys from others without giving them away: the first 8 digits of a SHA-256.

    It is made of what decrypts and checks messages alone, so that a set has the same one in every format.
    """
    values: tuple[bytes, ...]
    match keys:
        case KeySet():
            values = (keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar)
        case Phase1Key():
            values = (keys.key,)
        case EspKey():
            values = (keys.encryption_key, keys.integrity_key)
    return sha256(b"".join(len(value).to_bytes(4) + value for value in values)).hexdigest()[:_SHOWN]


def number_epochs(key_sets: Sequence[KeySet]) -> list[int | None]:
    """For each key set of a file how many of its IKE SA stand before it; None: it is not said of which IKE SA it is.

    One IKE SA has the same SPIs in all its epochs or, as far as a log has them, the same nonces.
    """
    seen: dict[object, int] = {}
    found: list[int | None] = []
    for keys in key_sets:
        sa: object = None
        if keys.spi_i is not None and keys.spi_r is not None:
            sa = (keys.spi_i, keys.spi_r)
        elif keys.derivation is not None and keys.derivation.nonces:
            sa = keys.derivation.nonces
        if sa is None:
            found.append(None)
        else:
            found.append(seen.get(sa, 0))
            seen[sa] = seen.get(sa, 0) + 1
    return found


def remove_repeated_key_sets(key_sets: Sequence[KeySet]) -> list[KeySet]:
    """Key sets of several files without those that stand in one before, as in the logs of both peers."""
    seen: set[object] = set()
    left = []
    for keys in key_sets:
        what = (keys.spi_i, keys.spi_r, keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar)
        if what not in seen:
            seen.add(what)
            left.append(keys)
    return left
