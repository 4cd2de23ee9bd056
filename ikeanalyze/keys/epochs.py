"""Which key sets are the same, and which are epochs of one IKE SA."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from ikeanalyze.keys.keyset import EspKey, KeySet, Phase1Key

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
