"""Fragment encrypted IKE messages and reassemble decrypted fragments (RFC 7383, sections 2.5 and 2.6)."""

from collections.abc import Callable
from typing import Final

from ikeanalyze.crypto.algorithms import ENCRYPTION, IkeSuite
from ikeanalyze.crypto.sk_payload import (
    DecryptedMessage,
    MessageCipher,
    MessageKeys,
    encrypt_message,
    get_fragment_capacity,
    is_plausible_chain,
)
from ikeanalyze.wire.header import Header

_MAX_FRAGMENTS: Final = 0xFFFF


class FragmentTooSmallError(ValueError):
    """The maximum size of fragments leaves no room for payloads, or there would be too many fragments."""


def encrypt_message_or_fragments(
    keys: MessageKeys,
    header: Header,
    first: int,
    plaintext: bytes,
    max_bytes: int | None,
    randomness: Callable[[int], bytes],
    *,
    suite: IkeSuite,
) -> list[bytes]:
    """Return a message with SK or, if that is longer than `max_bytes`, its fragments with SKF.

    `header`, `first`, `plaintext`: as in `encrypt_message`. `max_bytes`: of an IKE message including its header; None:
    do not fragment. `randomness`: returns that many random bytes, for IVs.

    Raises:
        UnusableKeyError: the keys do not fit the suite.
        FragmentTooSmallError: fragments of this size cannot hold the message.
    """
    cipher, iv_size = MessageCipher(keys, suite), ENCRYPTION[suite.encryption].iv
    message = encrypt_message(cipher, header, first, plaintext, randomness(iv_size))
    if max_bytes is None or len(message) <= max_bytes:
        return [message]
    room = get_fragment_capacity(cipher, max_bytes)
    parts = [plaintext[at : at + room] for at in range(0, len(plaintext), room)] if room > 0 else []
    if not 0 < len(parts) <= _MAX_FRAGMENTS:
        raise FragmentTooSmallError(
            f"fragments of {max_bytes} bytes have no room for a message of {len(message)} bytes"
        )
    return [
        encrypt_message(
            cipher, header, first if number == 1 else 0, part, randomness(iv_size), fragment=(number, len(parts))
        )
        for number, part in enumerate(parts, 1)
    ]


class SkfReassembler:
    """Reassembles the decrypted fragments of one message of one sender, in any order and with repetitions.

    Allocates memory only for fragments that were added, not for the announced total.
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
        """Total fragments of the message; 0 before the first was added."""
        return self._total

    def add(self, number: int, total: int, first: int, plaintext: bytes, verified: bool = True) -> bool:
        """Add a decrypted fragment; returns whether it is new.

        Repeated numbers are ignored, even with other content, as are invalid numbers. A higher total means that the
        sender fragmented the message again into smaller fragments, and discards those before; a lower total is ignored
        as outdated.
        """
        if not 1 <= number <= total <= _MAX_FRAGMENTS or total < self._total:
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
        """Return the numbers of missing fragments as ascending ranges."""
        runs, expected = [], 1
        for number in [*sorted(self._parts), self._total + 1]:
            if number > expected:
                runs.append(range(expected, number))
            expected = number + 1
        return tuple(runs)

    def get_message(self) -> DecryptedMessage | None:
        """Return the content of the message; None while fragments are missing.

        Also None if the fragments have no ICV that was checked and are not a plausible chain of payloads: a wrong key.
        """
        if not self._total or len(self._parts) < self._total:
            return None
        plaintext = b"".join(self._parts[number] for number in range(1, self._total + 1))
        if not self._verified and not is_plausible_chain(plaintext, self._first):
            return None
        return DecryptedMessage(plaintext, self._first, self._verified)
