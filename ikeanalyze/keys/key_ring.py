"""Which key set opens which message: the chain of key sets of each IKE SA.

An IKE SA has one key set after IKE_SA_INIT and one more after each additional key exchange (RFC 9370, section 2.2.2),
all with the same SPIs. Files give key sets in the order in which they were derived, some with SPIs, some without,
those of several IKE SAs mixed. The rules:

1. Key sets with SPIs belong to the IKE SA with these SPIs; its chain begins with them, in file order.
2. One without SPIs belongs to the IKE SA that it opens a message of, and to no other from then on. Without an ICV to
   check, a key set is never tried on an IKE SA that it does not name.
3. Where nonces are known of both an IKE SA and a key set, only equal ones belong together.
4. An exchange is protected by one key set, request and response. Once a later one was used, one that was used before
   it opens earlier exchanges only, that is their retransmissions.
5. The same keys in two files (both peers' logs) are one key set, which knows what either file says.

Logs and captures have their IKE SAs in about the same order, so key sets are tried from where the last one was
found, nearest first, which finds nearly all at once. What fits nothing would be tried over and over; that ends after
a fixed number of trials, from when on only the nearest are tried.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final, TypeVar

from ikeanalyze.crypto.sk_payload import (
    DecryptedMessage,
    Decryptor,
    EncryptedPayload,
    IkeSuite,
    UnusableKeyError,
    find_encrypted_payload,
)
from ikeanalyze.keys.key_set import KeySet, Origin

_T = TypeVar("_T")

#: Trials of key sets that fit nothing, before only the nearest are tried: a second or two.
_TRIALS: Final = 500_000
#: How many the nearest are.
_NEAREST: Final = 64
#: Exchanges of one IKE SA that are tried on key sets that are nobody's: seven additional key exchanges make eight
#: key sets, twice that for what is damaged.
_EXCHANGES_TRIED: Final = 16
#: Trials of one exchange's messages from one side: the first may be a damaged transmission.
_TRANSMISSIONS_TRIED: Final = 2
#: Suites for which a key set that belongs to nobody is kept ready.
_SUITES_KEPT: Final = 8


class KeyRing:
    """Key sets of any number of files, for the IKE SAs of a capture."""

    __slots__ = (
        "_by_nonces", "_by_spis", "_last", "_marked", "_openers", "_owned", "_plain", "_sas", "_sets", "_trials",
    )  # fmt: skip

    def __init__(self, key_sets: Iterable[KeySet]) -> None:
        """`key_sets`: in file order."""
        self._sets = _without_repeats(key_sets)
        self._by_spis: dict[tuple[bytes | None, bytes | None], list[int]] = {}
        self._by_nonces: dict[bytes, list[int]] = {}
        marked, plain = [], []  # key sets without SPIs, with and without nonces
        for index, keys in enumerate(self._sets):
            nonces = keys.derivation.nonces if keys.derivation else None
            if keys.spi_i is not None or keys.spi_r is not None:
                self._by_spis.setdefault((keys.spi_i, keys.spi_r), []).append(index)
            elif nonces:
                marked.append(index)
                self._by_nonces.setdefault(nonces, []).append(index)
            else:
                plain.append(index)
        self._marked, self._plain = _SortedNumbers(marked), _SortedNumbers(plain)
        self._owned: set[int] = set()
        self._openers: dict[int, dict[IkeSuite | None, Decryptor | None]] = {}
        self._sas: dict[tuple[bytes, bytes], SaKeyChain] = {}
        self._last = 0
        self._trials = _TRIALS

    def get_sa_keys(
        self, spi_i: bytes, spi_r: bytes, suite: IkeSuite | None = None, nonces: bytes | None = None
    ) -> "SaKeyChain":
        """The chain of one IKE SA, the same object each time.

        `suite`: what it negotiated, None as long as it is not known. `nonces`: Ni | Nr of the exchange that made it;
        where key sets have nonces, nothing needs to be tried.
        """
        sa = self._sas.get((spi_i, spi_r))
        if sa is None:
            sa = self._sas[spi_i, spi_r] = SaKeyChain(self, spi_i, spi_r)
        sa._learn(suite, nonces)
        return sa

    @property
    def unusable(self) -> tuple[str, ...]:
        """Why key sets can open nothing in any capture: file, line and reason."""
        reasons = []
        for keys in self._sets:
            if keys.no_salt or _complete(keys):
                try:
                    Decryptor(keys)
                except UnusableKeyError as problem:
                    reasons.append(f"{_place(keys.origin)}: {problem.reason}")
        return tuple(reasons)

    @property
    def reached_limit(self) -> bool:
        """So many messages fitted no key that not every key set was tried on every IKE SA."""
        return self._trials <= 0

    def _named(self, spi_i: bytes, spi_r: bytes) -> list[int]:
        return self._by_spis.get((spi_i, spi_r), [])

    def _candidates(self, sa: "SaKeyChain", near: int | None) -> Iterator[int]:
        """Key sets that could be the IKE SA's and are nobody's yet, likely ones first."""
        for spis in ((sa.spi_i, None), (None, sa.spi_r)):
            yield from self._free(self._by_spis.get(spis, ()))
        near = self._last if near is None else near
        if sa._nonces is not None:
            yield from self._free(self._by_nonces.get(sa._nonces, ()))
        yield from self._plain.near(near)
        if sa._nonces is None:
            yield from self._marked.near(near)

    def _free(self, indices: Iterable[int]) -> Iterator[int]:
        return (index for index in indices if index not in self._owned)

    def _opener(self, index: int, suite: IkeSuite | None) -> Decryptor | None:
        keys = self._sets[index]
        if _complete(keys):
            suite = None
        kept = self._openers.setdefault(index, {})
        if suite not in kept:
            if len(kept) >= _SUITES_KEPT:
                kept.clear()
            try:
                kept[suite] = Decryptor(keys, suite)
            except UnusableKeyError:
                kept[suite] = None
        return kept[suite]

    def _try(
        self, sa: "SaKeyChain", near: int | None, sealed: EncryptedPayload, from_initiator: bool
    ) -> tuple[DecryptedMessage, int] | None:
        """What is in the message and the index of the key set that opens it, which is the IKE SA's from now on."""
        candidates = self._candidates(sa, near)
        if self._trials <= 0:
            candidates = islice(candidates, _NEAREST)
        for index in candidates:
            opener = self._opener(index, sa._suite)
            self._trials -= 1
            if opener is None or not opener.verifies:
                continue
            opened = opener.decrypt_payload(sealed, from_initiator)
            if opened is not None:
                self._owned.add(index)
                self._plain.remove(index)
                self._marked.remove(index)
                self._last = index + 1
                self._trials += 1
                return opened, index
        return None


class _ChainEntry:
    """One key set of a chain."""

    __slots__ = ("index", "opener")

    def __init__(self, index: int, opener: Decryptor | None) -> None:
        self.index = index  # in the ring
        self.opener = opener  # None: unusable, as far as is known


class SaKeyChain:
    """The key sets of one IKE SA. Made by `KeyRing.for_sa`."""

    __slots__ = ("_failures", "_links", "_nonces", "_reasons", "_ring", "_starts", "_suite", "spi_i", "spi_r")

    spi_i: bytes
    spi_r: bytes

    def __init__(self, ring: KeyRing, spi_i: bytes, spi_r: bytes) -> None:
        self.spi_i = spi_i
        self.spi_r = spi_r
        self._ring = ring
        self._suite: IkeSuite | None = None
        self._nonces: bytes | None = None
        self._reasons: dict[int, str] = {}
        self._links = [_ChainEntry(index, None) for index in ring._named(spi_i, spi_r)]
        # By whose request an exchange begins (True: the initiator's): for each key set in use the first message ID.
        self._starts: dict[bool, dict[int, int]] = {True: {}, False: {}}
        # Messages that nothing fitted, by side and exchange: how many transmissions.
        self._failures: dict[tuple[bool, bool, int], int] = {}
        self._prepare()

    @property
    def key_sets(self) -> tuple[KeySet, ...]:
        """The key sets that belong to the IKE SA, by position.

        Those that name it come first, in file order, the others behind them as they are found; positions stay.
        """
        return tuple(self._ring._sets[link.index] for link in self._links)

    @property
    def used(self) -> tuple[int, ...]:
        """Positions of the key sets that opened a message, rising."""
        return tuple(sorted(self._starts[True].keys() | self._starts[False].keys()))

    @property
    def unusable(self) -> list[str]:
        """Why key sets that name this IKE SA can open nothing: file, line and reason."""
        return [self._reasons[index] for index in sorted(self._reasons)]

    def decrypt(self, message: bytes, from_initiator: bool) -> tuple[DecryptedMessage, int] | None:
        """What is inside a whole message or fragment, and the position of the key set that opens it.

        `from_initiator`: sent by the original initiator of the IKE SA. Messages come in the order of the capture.
        None: no key fits, or there is nothing to open. Never raises.
        """
        sealed = find_encrypted_payload(message)
        if sealed is None:
            return None
        by_initiator = from_initiator != sealed.response
        message_id = sealed.message_id
        starts = self._starts[by_initiator]
        for position in self._order(starts, message_id):
            opener = self._links[position].opener
            opened = opener.decrypt_payload(sealed, from_initiator) if opener else None
            if opened is not None:
                self._note(starts, position, message_id)
                return opened, position
        return self._claim(sealed, from_initiator, starts)

    def _order(self, starts: dict[int, int], message_id: int) -> Iterable[int]:
        """Positions that may open the exchange: the one in use, those after it, those before it."""
        count = len(self._links)
        if count < 2:
            return range(count)
        if starts:
            current = max(starts, key=lambda at: (starts[at] <= message_id, starts[at], at))
        else:
            current = max(self._starts[True], default=0)
        return [
            position
            for position in (current, *range(current + 1, count), *range(current))
            if self._open_to(starts, position, message_id)
        ]

    def _open_to(self, starts: dict[int, int], position: int, message_id: int) -> bool:
        """Rule 4. Where no ICV tells, a key set that was left out does not come back either."""
        start = starts.get(position)
        if start is not None:
            return not any(start < other <= message_id for other in starts.values())
        opener = self._links[position].opener
        if opener is None or opener.verifies:
            return True
        return not any(other > position and starts[other] <= message_id for other in starts)

    def _note(self, starts: dict[int, int], position: int, message_id: int) -> None:
        if starts.get(position, message_id) >= message_id:
            starts[position] = message_id

    def _claim(
        self, sealed: EncryptedPayload, from_initiator: bool, starts: dict[int, int]
    ) -> tuple[DecryptedMessage, int] | None:
        side = from_initiator, sealed.response, sealed.message_id
        failures = self._failures.get(side, 0)
        if failures >= _TRANSMISSIONS_TRIED or (not failures and len(self._failures) >= _EXCHANGES_TRIED):
            return None
        near = self._links[-1].index + 1 if self._links else None
        found = self._ring._try(self, near, sealed, from_initiator)
        if found is None:
            self._failures[side] = failures + 1
            return None
        opened, index = found
        self._links.append(_ChainEntry(index, self._ring._opener(index, self._suite)))
        position = len(self._links) - 1
        self._note(starts, position, sealed.message_id)
        return opened, position

    def _learn(self, suite: IkeSuite | None, nonces: bytes | None) -> None:
        if nonces is not None:
            self._nonces = nonces
        if suite is not None and suite != self._suite:
            self._suite = suite
            self._failures.clear()
            self._prepare()

    def _prepare(self) -> None:
        """Make those ready that name the IKE SA and are not ready yet."""
        for link in self._links:
            if link.opener is None:
                keys = self._ring._sets[link.index]
                try:
                    link.opener = Decryptor(keys, self._suite)
                    self._reasons.pop(link.index, None)
                except UnusableKeyError as problem:
                    self._reasons[link.index] = f"{_place(keys.origin)}: {problem.reason}"


class _SortedNumbers:
    """Numbers in rising order, of which some are taken out."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers

    def near(self, number: int) -> Iterator[int]:
        """All of them, the nearest first, from `number` on and before it in turn."""
        numbers = self._numbers
        above = bisect_left(numbers, number)
        below = above - 1
        while above < len(numbers) or below >= 0:
            if above < len(numbers):
                yield numbers[above]
                above += 1
            if below >= 0:
                yield numbers[below]
                below -= 1

    def remove(self, number: int) -> None:
        """Take one out, if it is there."""
        at = bisect_left(self._numbers, number)
        if at < len(self._numbers) and self._numbers[at] == number:
            del self._numbers[at]


def _complete(keys: KeySet) -> bool:
    """Whether the key set says itself which algorithms it is for."""
    return keys.encryption is not None and (keys.integrity is not None or keys.unchecked_icv is not None)


def _place(origin: Origin) -> str:
    return origin.path if origin.line is None else f"{origin.path}:{origin.line}"


def _without_repeats(key_sets: Iterable[KeySet]) -> list[KeySet]:
    """Rule 5. Each stands where its keys stood first."""
    kept: list[KeySet] = []
    by_keys: dict[tuple[bytes, ...], list[int]] = {}
    for keys in key_sets:
        same = by_keys.setdefault((keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar), [])
        for index in same:
            if _compatible(kept[index], keys):
                kept[index] = _merged(kept[index], keys)
                break
        else:
            same.append(len(kept))
            kept.append(keys)
    return kept


def _compatible(first: KeySet, second: KeySet) -> bool:
    if (first.unchecked_icv, first.no_salt) != (second.unchecked_icv, second.no_salt):
        return False
    pairs = (
        (first.spi_i, second.spi_i),
        (first.spi_r, second.spi_r),
        (first.encryption, second.encryption),
        (first.integrity, second.integrity),
    )
    return all(a is None or b is None or a == b for a, b in pairs)


def _either(a: _T | None, b: _T | None) -> _T | None:
    return b if a is None else a


def _merged(first: KeySet, second: KeySet) -> KeySet:
    return replace(
        first,
        spi_i=_either(first.spi_i, second.spi_i),
        spi_r=_either(first.spi_r, second.spi_r),
        encryption=_either(first.encryption, second.encryption),
        integrity=_either(first.integrity, second.integrity),
        sk_d=_either(first.sk_d, second.sk_d),
        sk_pi=_either(first.sk_pi, second.sk_pi),
        sk_pr=_either(first.sk_pr, second.sk_pr),
        derivation=_either(first.derivation, second.derivation),
    )
