"""Assign key sets to IKE SAs and decrypt their messages.

An IKE SA has one key set after IKE_SA_INIT and one more after each IKE_INTERMEDIATE exchange with an additional key
exchange (RFC 9370, section 2.2.2) or a PPK (RFC 9867), all with the same SPIs. Files give key sets in the order of
their derivation, some with SPIs, some without, those of several IKE SAs mixed. The rules:

1. Key sets with SPIs belong to the IKE SA with these SPIs; its chain begins with them, in file order.
2. A key set without SPIs belongs to the IKE SA whose message it decrypts, and from then on to no other. A key set that
   cannot check an ICV is never tried on an IKE SA that it does not name.
3. Where nonces are known of both an IKE SA and a key set, they must be equal.
4. An exchange is protected by one key set, request and response. After a later key set was used, an earlier one
   decrypts earlier exchanges only, that is their retransmissions.
5. The same keys in two files (the logs of both peers) are one key set, with the attributes of both files.

Logs and captures list their IKE SAs in about the same order. So key sets are tried from the place of the last match,
nearest first, which finds nearly all at once. Messages that match nothing would be tried again and again; after a fixed
number of trials only the nearest key sets are tried.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ikeanalyze.crypto.algorithms import IkeSuite
from ikeanalyze.crypto.sk_payload import (
    DecryptedMessage,
    EncryptedPayload,
    MessageCipher,
    UnusableKeyError,
    find_encrypted_payload,
    select_protection,
)
from ikeanalyze.keys.key_set import KeySet
from ikeanalyze.keys.key_table import KeySetTable

#: Unsuccessful trials before only the nearest key sets are tried: a second or two.
MAX_TRIALS: Final = 500_000
#: Key sets that are tried after that.
_MAX_NEAREST: Final = 64
#: Exchanges of one IKE SA that are tried with unassigned key sets: seven additional key exchanges and a PPK make
#: nine key sets, and the others allow for damaged messages.
_MAX_EXCHANGES_TRIED: Final = 16
#: Trials of one exchange's messages from one side: the first may be a damaged transmission.
_MAX_TRANSMISSIONS_TRIED: Final = 2
#: Suites for which the decryptors of an unassigned key set are cached.
_MAX_CACHED_SUITES: Final = 8

#: Attributes that must not differ between two key sets with the same keys, and those that one may lack.
_IDENTIFYING: Final = ("spi_i", "spi_r", "encryption", "integrity")
_OPTIONAL: Final = (*_IDENTIFYING, "sk_d", "sk_pi", "sk_pr", "derivation")


class NamedKeySets(Struct, frozen=True):
    """Key sets that name their IKE SAs. (key sets,) each"""

    key_sets: Sequence[KeySet]
    spi_i: npt.NDArray[np.uint64]
    spi_r: npt.NDArray[np.uint64]


class _KeySetIndex:
    """Where the key sets are that name an IKE SA or its nonces, by position in a ring, and those that do not."""

    def __init__(self, key_sets: Sequence[KeySet]) -> None:
        self.by_spis: dict[tuple[bytes | None, bytes | None], list[int]] = {}
        self.by_nonces: dict[bytes, list[int]] = {}
        with_nonces, without_nonces = [], []  # key sets without SPIs
        for index, keys in enumerate(key_sets):
            nonces = keys.derivation.nonces if keys.derivation else None
            if keys.spi_i is not None or keys.spi_r is not None:
                self.by_spis.setdefault((keys.spi_i, keys.spi_r), []).append(index)
            elif nonces:
                with_nonces.append(index)
                self.by_nonces.setdefault(nonces, []).append(index)
            else:
                without_nonces.append(index)
        self.with_nonces, self.without_nonces = _SortedNumbers(with_nonces), _SortedNumbers(without_nonces)
        self.has_unassigned = bool(with_nonces or without_nonces) or any(None in spis for spis in self.by_spis)


class KeyRing:
    """Key sets of any number of files, for the IKE SAs of a capture."""

    def __init__(self, key_sets: Iterable[KeySet]) -> None:
        """`key_sets`: in file order."""
        self._given = key_sets
        #: None: key sets are objects, or some may be repeated.
        self._table = key_sets if isinstance(key_sets, KeySetTable) and key_sets.has_distinct_keys() else None
        self._assigned: set[int] = set()
        self._decryptors: dict[int, dict[IkeSuite | None, MessageCipher | None]] = {}
        self._chains: dict[tuple[bytes, bytes], SaKeyChain] = {}
        self._last = 0
        self._trials_left = MAX_TRIALS
        #: Whether so many trials failed that not every key set was tried on every IKE SA.
        self.reached_limit = False

    @cached_property
    def _key_sets(self) -> Sequence[KeySet]:
        return _merge_repeated(self._given) if self._table is None else self._table

    @cached_property
    def _index(self) -> "_KeySetIndex":
        return _KeySetIndex(self._key_sets)

    def get_sa_keys(
        self, spi_i: bytes, spi_r: bytes, suite: IkeSuite | None = None, nonces: bytes | None = None
    ) -> "SaKeyChain":
        """Return the chain of an IKE SA, the same object each time.

        `suite`: the negotiated algorithms, None while they are unknown. `nonces`: Ni | Nr of the exchange that created
        the IKE SA; they identify key sets that have nonces, without trials.
        """
        chain = self._chains.get((spi_i, spi_r))
        if chain is None:
            chain = self._chains[spi_i, spi_r] = SaKeyChain(self, spi_i, spi_r)
        chain._note_negotiated(suite, nonces)
        return chain

    @property
    def unusable(self) -> tuple[str, ...]:
        """The key sets that cannot decrypt anything in any capture: file, line and reason."""
        reasons = []
        key_sets = self._key_sets
        if self._table is not None and _find_reason(self._table[0]) is None:
            key_sets = ()  # all have the same algorithms and sizes
        for keys in key_sets:
            if keys.no_salt or _names_algorithms(keys):
                reason = _find_reason(keys)
                if reason is not None:
                    reasons.append(reason)
        return tuple(reasons)

    def list_named_key_sets(self) -> NamedKeySets:
        """The key sets with both SPIs, in file order. The chain of an IKE SA begins with its own (rule 1)."""
        if self._table is not None:
            return NamedKeySets(self._table, self._table.spi_i, self._table.spi_r)
        named, spis_i, spis_r = [], [], []
        for keys in self._key_sets:
            if keys.spi_i is not None and keys.spi_r is not None:
                named.append(keys)
                spis_i.append(int.from_bytes(keys.spi_i))
                spis_r.append(int.from_bytes(keys.spi_r))
        return NamedKeySets(named, np.array(spis_i, np.uint64), np.array(spis_r, np.uint64))

    @property
    def has_unassigned(self) -> bool:
        """Whether a key set lacks an SPI, so that its IKE SA is found by trials."""
        return self._table is None and self._index.has_unassigned

    @property
    def has_integrity_keys(self) -> bool:
        """Whether a key set has SK_a: one of an AEAD cipher has none."""
        if self._table is not None:
            return any(self._table.algorithms.sizes[2:])
        return any(keys.sk_ai or keys.sk_ar for keys in self._key_sets)

    @property
    def has_nonces(self) -> bool:
        """Whether the nonces of IKE SAs identify some of the key sets."""
        return self._table is None and bool(self._index.by_nonces)

    def _iterate_candidates(self, chain: "SaKeyChain", near: int | None) -> Iterator[int]:
        """Unassigned key sets that may belong to the IKE SA, likely ones first."""
        listed = [self._index.by_spis.get(spis, []) for spis in ((chain.spi_i, None), (None, chain.spi_r))]
        if chain._nonces is not None:
            listed.append(self._index.by_nonces.get(chain._nonces, []))
        for indices in listed:
            yield from (index for index in indices if index not in self._assigned)
        near = self._last if near is None else near
        yield from self._index.without_nonces.iterate_near(near)
        if chain._nonces is None:
            yield from self._index.with_nonces.iterate_near(near)

    def _get_decryptor(self, index: int, suite: IkeSuite | None) -> MessageCipher | None:
        keys = self._key_sets[index]
        if _names_algorithms(keys):
            suite = None
        by_suite = self._decryptors.setdefault(index, {})
        if suite not in by_suite:
            if len(by_suite) >= _MAX_CACHED_SUITES:
                by_suite.clear()
            try:
                by_suite[suite] = MessageCipher(keys, suite)
            except UnusableKeyError:
                by_suite[suite] = None
        return by_suite[suite]

    def _try(
        self, chain: "SaKeyChain", near: int | None, payload: EncryptedPayload, from_initiator: bool
    ) -> tuple[DecryptedMessage, int] | None:
        """Decrypt with an unassigned key set and assign it; returns the message and the key set's index."""
        most = None if self._trials_left > 0 else _MAX_NEAREST
        for tried, index in enumerate(self._iterate_candidates(chain, near)):
            if tried == most:
                self.reached_limit = True
                return None
            decryptor = self._get_decryptor(index, chain._suite)
            self._trials_left -= 1
            if decryptor is None or not decryptor.verifies:
                continue
            decrypted = _decrypt(decryptor, payload, from_initiator)
            if decrypted is not None:
                self._assigned.add(index)
                self._index.without_nonces.remove(index)
                self._index.with_nonces.remove(index)
                self._last = index + 1
                self._trials_left += 1
                return decrypted, index
        return None


def _decrypt(decryptor: MessageCipher, payload: EncryptedPayload, from_initiator: bool) -> DecryptedMessage | None:
    """Decrypt a payload; None: a key is wrong."""
    decrypted = decryptor.decrypt_payload(payload, from_initiator)
    if decrypted is None or decryptor.is_garbage(decrypted.plaintext, payload.first, payload.fragment):
        return None
    return decrypted


class _ChainEntry:
    """One key set of a chain."""

    __slots__ = ("decryptor", "index")

    def __init__(self, index: int, decryptor: MessageCipher | None) -> None:
        self.index = index  # in the ring
        self.decryptor = decryptor  # None: unusable, or the algorithms are unknown so far


class SaKeyChain:
    """The key sets of one IKE SA. Created by `KeyRing.get_sa_keys`."""

    __slots__ = ("_entries", "_failures", "_nonces", "_reasons", "_ring", "_starts", "_suite", "spi_i", "spi_r")

    def __init__(self, ring: KeyRing, spi_i: bytes, spi_r: bytes) -> None:
        self.spi_i = spi_i
        self.spi_r = spi_r
        self._ring = ring
        self._suite: IkeSuite | None = None
        self._nonces: bytes | None = None
        self._reasons: dict[int, str] = {}
        self._entries = [_ChainEntry(index, None) for index in ring._index.by_spis.get((spi_i, spi_r), [])]
        # The first message ID of each key set in use, by the side that sends the requests (True: initiator).
        self._starts: dict[bool, dict[int, int]] = {True: {}, False: {}}
        # Transmissions that could not be decrypted, by sender, response flag and message ID.
        self._failures: dict[tuple[bool, bool, int], int] = {}
        self._prepare()

    @property
    def key_sets(self) -> tuple[KeySet, ...]:
        """The key sets that belong to the IKE SA, by position.

        Those that name it come first, in file order; the others are appended when they are found. Positions do not
        change.
        """
        return tuple(self._ring._key_sets[entry.index] for entry in self._entries)

    def get_key_set(self, position: int) -> KeySet:
        """The key set at a position of `key_sets`."""
        return self._ring._key_sets[self._entries[position].index]

    @property
    def used(self) -> tuple[int, ...]:
        """Positions of the key sets that decrypted a message, ascending."""
        return tuple(sorted(self._starts[True].keys() | self._starts[False].keys()))

    @property
    def unusable(self) -> list[str]:
        """The key sets that name this IKE SA and cannot be used: file, line and reason."""
        return [self._reasons[index] for index in sorted(self._reasons)]

    def decrypt(self, message: bytes, from_initiator: bool) -> tuple[DecryptedMessage, int] | None:
        """Decrypt a complete message or fragment; returns its content and the position of the key set.

        `from_initiator`: sent by the original initiator of the IKE SA. Messages must come in the order of the capture.
        None: no key set matches, or the message has no encrypted payload. Never raises.
        """
        payload = find_encrypted_payload(message)
        if payload is None:
            return None
        message_id = payload.message_id
        starts = self._starts[from_initiator != payload.response]
        for position in self._iterate_positions(starts, message_id):
            decryptor = self._entries[position].decryptor
            decrypted = _decrypt(decryptor, payload, from_initiator) if decryptor else None
            if decrypted is not None:
                starts[position] = min(starts.get(position, message_id), message_id)
                return decrypted, position
        return self._try_unassigned(payload, from_initiator, starts)

    def find_wrong_encryption_key(self, message: bytes, from_initiator: bool) -> KeySet | None:
        """The key set whose SK_a fits a message that could not be decrypted, so that its SK_e is wrong; None: none.

        `message`, `from_initiator`: as in `decrypt`.
        """
        for entry in self._entries:
            if entry.decryptor is not None and entry.decryptor.has_wrong_encryption_key(message, from_initiator):
                return self._ring._key_sets[entry.index]
        return None

    def _iterate_positions(self, starts: dict[int, int], message_id: int) -> Iterable[int]:
        """Positions that may decrypt the exchange: the one in use, those after it, those before it."""
        count = len(self._entries)
        if count < 2:
            return range(count)
        if starts:
            current = max(starts, key=lambda position: (starts[position] <= message_id, starts[position], position))
        else:
            current = max(self._starts[True], default=0)
        return [
            position
            for position in (current, *range(current + 1, count), *range(current))
            if self._may_decrypt(starts, position, message_id)
        ]

    def _may_decrypt(self, starts: dict[int, int], position: int, message_id: int) -> bool:
        """Rule 4. A key set that was skipped is not tried again if it cannot check ICVs."""
        start = starts.get(position)
        if start is not None:
            return not any(start < other <= message_id for other in starts.values())
        decryptor = self._entries[position].decryptor
        if decryptor is None or decryptor.verifies:
            return True
        return not any(other > position and starts[other] <= message_id for other in starts)

    def _try_unassigned(
        self, payload: EncryptedPayload, from_initiator: bool, starts: dict[int, int]
    ) -> tuple[DecryptedMessage, int] | None:
        if not self._ring.has_unassigned:
            return None
        message_key = from_initiator, payload.response, payload.message_id
        failures = self._failures.get(message_key, 0)
        if failures >= _MAX_TRANSMISSIONS_TRIED or (not failures and len(self._failures) >= _MAX_EXCHANGES_TRIED):
            return None
        near = self._entries[-1].index + 1 if self._entries else None
        match = self._ring._try(self, near, payload, from_initiator)
        if match is None:
            self._failures[message_key] = failures + 1
            return None
        decrypted, index = match
        position = len(self._entries)
        self._entries.append(_ChainEntry(index, self._ring._get_decryptor(index, self._suite)))
        starts[position] = payload.message_id
        return decrypted, position

    def _note_negotiated(self, suite: IkeSuite | None, nonces: bytes | None) -> None:
        if nonces is not None:
            self._nonces = nonces
        if suite is not None and suite != self._suite:
            self._suite = suite
            self._failures.clear()
            self._prepare()

    def _prepare(self) -> None:
        """Create the decryptors that could not be created before."""
        for entry in self._entries:
            if entry.decryptor is None:
                keys = self._ring._key_sets[entry.index]
                try:
                    entry.decryptor = MessageCipher(keys, self._suite)
                    self._reasons.pop(entry.index, None)
                except UnusableKeyError as error:
                    self._reasons[entry.index] = f"{keys.origin}: {error}"


class _SortedNumbers:
    """Numbers in ascending order that can be removed."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers

    def iterate_near(self, number: int) -> Iterator[int]:
        """All of them, nearest first, alternating between those from `number` on and those before it."""
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
        """Remove a number, if present."""
        position = bisect_left(self._numbers, number)
        if position < len(self._numbers) and self._numbers[position] == number:
            del self._numbers[position]


def _names_algorithms(keys: KeySet) -> bool:
    return keys.encryption is not None and (keys.integrity is not None or keys.unchecked_icv is not None)


def _find_reason(keys: KeySet) -> str | None:
    """Why a key set cannot decrypt anything: file, line and reason; None: it can, as far as it names its algorithms."""
    try:
        select_protection(keys)
    except UnusableKeyError as error:
        return f"{keys.origin}: {error}"
    return None


def _merge_repeated(key_sets: Iterable[KeySet]) -> list[KeySet]:
    """Rule 5. A merged key set keeps the place of the first one."""
    merged: list[KeySet] = []
    by_keys: dict[tuple[bytes, ...], list[int]] = {}
    for keys in key_sets:
        same = by_keys.setdefault((keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar), [])
        for index in same:
            if _are_compatible(merged[index], keys):
                added = {name: getattr(keys, name) for name in _OPTIONAL if getattr(merged[index], name) is None}
                merged[index] = replace(merged[index], **added)
                break
        else:
            same.append(len(merged))
            merged.append(keys)
    return merged


def _are_compatible(first: KeySet, second: KeySet) -> bool:
    if (first.unchecked_icv, first.no_salt) != (second.unchecked_icv, second.no_salt):
        return False
    pairs = ((getattr(first, name), getattr(second, name)) for name in _IDENTIFYING)
    return all(a is None or b is None or a == b for a, b in pairs)
