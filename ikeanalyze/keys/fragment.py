"""An encrypted message in as many fragments as it takes (RFC 7383, section 2.5); `defragment` puts them together."""

from collections.abc import Callable
from typing import Final

from ikeanalyze.keys.algorithms import ENCRYPTION, Suite
from ikeanalyze.keys.schedule import MessageKeys
from ikeanalyze.keys.sealed import Opener, room_in_fragment, seal
from ikeanalyze.wire.header import Header

_MOST: Final = 0xFFFF


class NoRoomError(ValueError):
    """Fragments would be too small to hold anything, or too many."""


def seal_message(
    keys: MessageKeys,
    header: Header,
    first: int,
    plaintext: bytes,
    largest: int | None,
    randomness: Callable[[int], bytes],
    *,
    suite: Suite,
) -> list[bytes]:
    """One message with SK, or if that has more than `largest` bytes, fragments with SKF that do not.

    `header`, `first`, `plaintext`: as in `sealed.seal`. `largest`: bytes of an IKE message, header included; None: never
    cut. `randomness`: gives so many bytes, for IVs. Raises `KeyUnusable`; `NoRoomError` if a fragment has no room for anything.
    """
    opener, iv_size = Opener(keys, suite), ENCRYPTION[suite.encryption].iv
    whole = seal(opener, header, first, plaintext, randomness(iv_size))
    if largest is None or len(whole) <= largest:
        return [whole]
    room = room_in_fragment(opener, largest)
    parts = [plaintext[at : at + room] for at in range(0, len(plaintext), room)] if room > 0 else []
    if not 0 < len(parts) <= _MOST:
        raise NoRoomError(f"fragments of {largest} bytes have no room for a message of {len(whole)}")
    return [
        seal(opener, header, first if number == 1 else 0, part, randomness(iv_size), fragment=(number, len(parts)))
        for number, part in enumerate(parts, 1)
    ]
