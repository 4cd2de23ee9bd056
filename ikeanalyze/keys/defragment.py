"""Putting the opened fragments of one IKE message together (RFC 7383, section 2.6)."""

from ikeanalyze.keys.sealed import DecryptedMessage, is_plausible_chain

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
