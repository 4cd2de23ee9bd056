"""An encrypted message in as many fragments as it takes (RFC 7383, section 2.5); `defragment` puts them together.

Putting the opened fragments of one IKE message together (RFC 7383, section 2.6).
"""

from collections.abc import Callable
from typing import Final

from ikeanalyze.crypto.algorithms import ENCRYPTION, IkeSuite
from ikeanalyze.crypto.key_schedule import MessageKeys
from ikeanalyze.crypto.sk_payload import (
    DecryptedMessage,
    Decryptor,
    encrypt_message,
    get_fragment_capacity,
    is_plausible_chain,
)
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


_HIGHEST = 0xFFFF


class SkfReassembler:
    """The fragments of one message of one sender, in any order and as often as they come.

    Holds what was put into it and nothing for what was merely announced.
    """

    __slots__ = ("_first", "_parts", "_total", "_verified")

    def __init__(self) -> None:
        self._restart(0)

    def _restart(self, total: int) -> None:
        self._total = total
        self._first = 0
        self._parts: dict[int, bytes] = {}
        self._verified = True

    @property
    def total(self) -> int:
        """Fragments that the message has; 0 before the first was added."""
        return self._total

    def add(self, number: int, total: int, first: int, plaintext: bytes, verified: bool = True) -> bool:
        """Take in one opened fragment; whether it was new and counts.

        One that is there already is left out, be its content another or not. A higher total means that the sender
        cuts the message anew into smaller fragments, and replaces what there is; one with a lower total is old.
        A fragment whose number cannot be is left out.
        """
        if not 1 <= number <= total <= _HIGHEST or total < self._total:
            return False
        if total > self._total:
            self._restart(total)
        if number in self._parts:
            return False
        self._parts[number] = plaintext
        self._verified = self._verified and verified
        if number == 1:
            self._first = first
        return True

    def get_missing_ranges(self) -> tuple[range, ...]:
        """Numbers of the fragments that are not there, in rising runs."""
        runs, expected = [], 1
        for number in [*sorted(self._parts), self._total + 1]:
            if number > expected:
                runs.append(range(expected, number))
            expected = number + 1
        return tuple(runs)

    def get_message(self) -> DecryptedMessage | None:
        """What was inside the message; None while fragments are missing.

        None too for fragments without an ICV that together are no chain of payloads: a wrong key.
        """
        if not self._total or len(self._parts) < self._total:
            return None
        plaintext = b"".join(self._parts[number] for number in range(1, self._total + 1))
        if not self._verified and not is_plausible_chain(plaintext, self._first):
            return None
        return DecryptedMessage(plaintext, self._first, self._verified)
