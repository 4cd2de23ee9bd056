"""An encrypted message in as many fragments as it takes (RFC 7383, section 2.5); `defragment` puts them together."""

from collections.abc import Callable
from typing import Final

from ikeanalyze.keys.algorithms import ENCRYPTION, IkeSuite
from ikeanalyze.keys.schedule import MessageKeys
from ikeanalyze.keys.sealed import Decryptor, encrypt_message, get_fragment_capacity
from ikeanalyze.wire.header import Header

_MOST: Final = 0xFFFF


class FragmentTooSmallError(ValueError):
    """Fragments would be too small to hold anything, or too many."""


def encrypt_message_or_fragments(
    keys: MessageKeys,
    header: Header,
    first: int,
    plaintext: bytes,
    largest: int | None,
    randomness: Callable[[int], bytes],
    *,
    suite: IkeSuite,
) -> list[bytes]:
    """One message with SK, or if that has more than `largest` bytes, fragments with SKF that do not.

    `header`, `first`, `plaintext`: as in `sealed.seal`. `largest`: bytes of an IKE message, header included; None: never
    cut. `randomness`: gives so many bytes, for IVs. Raises `KeyUnusable`; `FragmentTooSmallError` if a fragment has no room for anything.
    """
    opener, iv_size = Decryptor(keys, suite), ENCRYPTION[suite.encryption].iv
    whole = encrypt_message(opener, header, first, plaintext, randomness(iv_size))
    if largest is None or len(whole) <= largest:
        return [whole]
    room = get_fragment_capacity(opener, largest)
    parts = [plaintext[at : at + room] for at in range(0, len(plaintext), room)] if room > 0 else []
    if not 0 < len(parts) <= _MOST:
        raise FragmentTooSmallError(f"fragments of {largest} bytes have no room for a message of {len(whole)}")
    return [
        encrypt_message(
            opener, header, first if number == 1 else 0, part, randomness(iv_size), fragment=(number, len(parts))
        )
        for number, part in enumerate(parts, 1)
    ]
