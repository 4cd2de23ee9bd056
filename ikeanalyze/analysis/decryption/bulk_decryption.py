"""Decrypts the messages of many handshakes at once, with the compiled core or in Python.

It takes the handshakes whose encrypted messages belong to one IKE SA, which key sets with both SPIs name and no other
handshake shares. The core hands back those with an algorithm that it does not have, and those that lack fragments;
without it, `simple_handshakes` takes only handshakes with one key set.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ikeanalyze import core
from ikeanalyze.analysis.decryption.message_records import MARGIN_BYTES, NO_RECORDS, MessageRecords, RecordColumns
from ikeanalyze.analysis.decryption.simple_handshakes import decrypt_simple_handshakes
from ikeanalyze.analysis.grouping import argsort_stable, expand_ranges, find_group_starts, number_pairs
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt16Array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.crypto.algorithms import IkeSuite
from ikeanalyze.crypto.sk_payload import MessageCipher, UnusableKeyError, select_protection
from ikeanalyze.keys.key_ring import KeyRing
from ikeanalyze.keys.key_set import KeySet
from ikeanalyze.keys.key_table import KeySetTable
from ikeanalyze.machine import count_processors
from ikeanalyze.wire.header import SPI_BYTES

#: Maximum number of threads, and minimum number of handshakes for each: fewer are decrypted before a thread starts.
_MAX_THREADS: Final = 4
_MIN_HANDSHAKES: Final = 256


class BulkDecryption(Struct, frozen=True):
    """The decrypted messages of some handshakes, which have numbers from 0 on."""

    handled: BoolArray  # which need no more work. (handshakes,)
    records: MessageRecords
    number: Int64Array  # of the handshake of each record, ascending
    undecrypted: Int64Array  # row of the first datagram of each message that could not be decrypted
    undecrypted_number: Int64Array  # of its handshake

    def select(self, number: int) -> MessageRecords:
        """The messages of one handshake."""
        begin, end = np.searchsorted(self.number, (number, number + 1))
        return replace(self.records, columns=self.records.columns.select(np.arange(begin, end)))


def decrypt_in_bulk(
    state: AnalysisState,
    encrypted: MessageBytes,
    rows: Int64Array,
    starts: Int64Array,
    suites: Sequence[IkeSuite | None],
    ring: KeyRing,
) -> BulkDecryption:
    """Decrypt handshakes of one capture; their numbers are the positions in `starts`.

    Args:
        state: the analysis of the captures so far.
        encrypted: bytes of the encrypted messages.
        rows: encrypted datagrams, handshake by handshake in order of time.
        starts: position in `rows` of the first datagram of each handshake.
        suites: the negotiated algorithms of each handshake.
        ring: the keys of the capture.
    """
    if ring.has_unassigned:
        return _decrypt_nothing(len(starts))
    begin, size = encrypted.places(state.datagrams.datagram[rows])
    chosen_keys = _find_key_sets(state, rows, size, starts, suites, ring)
    numbers, keys = chosen_keys.numbers, chosen_keys.keys
    if not len(numbers):
        return _decrypt_nothing(len(starts))
    counts = np.diff(starts, append=len(rows))
    is_chosen = np.zeros(len(starts), np.bool_)
    is_chosen[numbers] = True
    chosen = np.flatnonzero(np.repeat(is_chosen, counts))
    used = rows[chosen]
    datagrams = state.datagrams
    message = state.message_of_datagram[used]
    columns: dict[str, npt.NDArray[Any]] = {
        "begin": begin[chosen],
        "size": size[chosen],
        "slot": state.messages.slot[message],
        "body": state.messages.body[message],
        "number": datagrams.fragment[used],
        "total": datagrams.fragments[used],
        "from_initiator": state.association.from_initiator[used],
    }
    columns = {name: np.ascontiguousarray(column) for name, column in columns.items()}
    ends = np.cumsum(counts[numbers])
    if core.compiled is None:
        result = decrypt_simple_handshakes(encrypted.heap, columns, ends, _make_decryptors(chosen_keys, suites))
    else:
        # the clear messages are added later
        needed = int(columns["size"].sum())
        heap = np.empty(needed + int(state.clear.entries()[2].sum()) + MARGIN_BYTES, np.uint8)
        result = core.compiled.decrypt_handshakes(
            encrypted.heap,
            columns,
            ends,
            (keys.heap, keys.begin.ravel(), keys.size.ravel()),
            keys.encryption,
            keys.integrity,
            chosen_keys.ends,
            min(count_processors(), _MAX_THREADS, 1 + len(numbers) // _MIN_HANDSHAKES),
            heap[:needed],
        )
        result |= {"heap": heap, "used": needed}
    is_chosen[numbers] = result["handled"]
    return _collect_messages(state, result, used, is_chosen, chosen_keys)


def _make_decryptors(chosen: "_ChosenKeySets", suites: Sequence[IkeSuite | None]) -> list[MessageCipher | None]:
    """The decryptor of each handshake; None: it has several key sets."""
    counts = np.diff(chosen.ends, prepend=0).tolist()
    places = zip(chosen.numbers.tolist(), chosen.ends.tolist(), counts, strict=True)
    key_sets = chosen.keys.key_sets
    return [MessageCipher(key_sets[end - 1], suites[number]) if count == 1 else None for number, end, count in places]


def _decrypt_nothing(count: int) -> BulkDecryption:
    """The result for `count` handshakes that are not decrypted here."""
    none = np.zeros(0, np.int64)
    return BulkDecryption(np.zeros(count, np.bool_), NO_RECORDS, none, none, none)


def _collect_messages(
    state: AnalysisState,
    result: dict[str, Any],
    rows: Int64Array,
    handled: BoolArray,
    chosen: "_ChosenKeySets",
) -> BulkDecryption:
    """The columns of the decrypted messages.

    Args:
        state: the analysis of the captures so far.
        result: columns of `_core.decrypt_handshakes`, `heap`, and the bytes of it that are `used`, unless all are.
        rows: the datagrams that were passed to it.
        handled: which handshakes need no more work.
        chosen: the handshakes that were passed to it, and their key sets.
    """
    numbers = chosen.numbers
    messages = np.diff(result["message_ends"], prepend=0)
    parts = np.diff(result["part_ends"], prepend=0)
    row, position = rows[result["last"]], result["position"]
    count = len(row)
    columns = RecordColumns(
        message=state.message_of_datagram[row].astype(np.int64),
        row=row,
        begin=result["begin"],
        size=result["size"],
        first_part=result["part_ends"] - parts,
        parts=parts,
        encrypted=np.ones(count, np.bool_),
        first=result["first"],
        verified=np.ones(count, np.bool_),
        position=position,
        keys=np.repeat(np.concatenate([[0], chosen.ends[:-1]]), messages) + position,
        outer=np.full(count, -1),
    )
    return BulkDecryption(
        handled=handled,
        records=MessageRecords(
            columns, result["heap"], rows[result["parts"]], chosen.keys.key_sets, (), result.get("used")
        ),
        number=np.repeat(numbers, messages),
        undecrypted=rows[result["undecrypted"]],
        undecrypted_number=np.repeat(numbers, np.diff(result["undecrypted_ends"], prepend=0)),
    )


class _KeyColumns(Struct, frozen=True):
    """Key sets as the compiled core takes them."""

    key_sets: Sequence[KeySet]
    heap: UInt8Array  # the keys
    begin: Int64Array  # offset of SK_ei, SK_er, SK_ai and SK_ar. (key sets, 4)
    size: Int64Array  # their bytes. (key sets, 4)
    encryption: UInt16Array  # transform ID. (key sets,)
    integrity: UInt16Array  # transform ID; 0: none. (key sets,)


class _ChosenKeySets(Struct, frozen=True):
    """The handshakes that may be decrypted here, and the key sets of each."""

    numbers: Int64Array  # positions in `starts`, in ascending order. (handshakes,)
    ends: Int64Array  # where the key sets of each handshake end. (handshakes,)
    keys: _KeyColumns


def _find_key_sets(
    state: AnalysisState,
    rows: Int64Array,
    size: Int64Array,
    starts: Int64Array,
    suites: Sequence[IkeSuite | None],
    ring: KeyRing,
) -> _ChosenKeySets:
    """The key sets of each handshake that may be decrypted here."""
    spi_i, spi_r = state.datagrams.spi_i[rows], state.datagrams.spi_r[rows]
    heads = find_group_starts(spi_i, spi_r)
    heads[starts] = True
    runs = np.flatnonzero(heads)
    named = ring.list_named_key_sets()
    sa = number_pairs(np.concatenate([spi_i[runs], named.spi_i]), np.concatenate([spi_r[runs], named.spi_r]))
    sa_of_run, sa_of_keys = sa[: len(runs)], sa[len(runs) :]
    order = argsort_stable(sa_of_keys)
    first_run = np.searchsorted(runs, starts)
    low, high = (np.searchsorted(sa_of_keys[order], sa_of_run[first_run], side) for side in ("left", "right"))
    # an IKE SA in two handshakes has one chain of keys, which remembers what it decrypted
    chosen = (high > low) & (np.bincount(sa_of_run)[sa_of_run[first_run]] == 1)
    chosen &= np.diff(first_run, append=len(runs)) == 1
    # a message that begins with a clear payload is stored elsewhere
    chosen &= np.minimum.reduceat(size, starts) > 0
    numbers = np.flatnonzero(chosen)
    counts = high[numbers] - low[numbers]
    places = order[expand_ranges(low[numbers], counts)]
    if isinstance(named.key_sets, KeySetTable):
        keys = _select_table_columns(named.key_sets, places)
        numbers, counts = (numbers, counts) if len(keys.key_sets) else (numbers[:0], counts[:0])
    else:
        key_sets = [named.key_sets[place] for place in places.tolist()]
        of_handshake = np.repeat(np.arange(len(numbers)), counts)
        keys, usable = _make_key_columns(key_sets, [suites[number] for number in numbers[of_handshake].tolist()])
        # all key sets of a handshake, or none of them
        whole = np.bincount(of_handshake[~usable], minlength=len(numbers)) == 0
        keys = _select_keys(keys, np.flatnonzero(whole[of_handshake]))
        numbers, counts = numbers[whole], counts[whole]
    return _ChosenKeySets(numbers, np.cumsum(counts), keys)


def _select_table_columns(table: KeySetTable, rows: Int64Array) -> _KeyColumns:
    """Key sets of a table; none if they cannot be used here."""
    transforms = _select_transforms(table[0], None) if len(rows) else None
    chosen = table.select(rows if transforms is not None else rows[:0])
    count, width = chosen.values.shape
    sizes = np.array(table.algorithms.sizes)
    return _KeyColumns(
        key_sets=chosen,
        heap=chosen.values.ravel(),
        begin=np.arange(count)[:, None] * width + 2 * SPI_BYTES + np.cumsum(sizes) - sizes,
        size=np.broadcast_to(sizes, (count, 4)),
        encryption=np.full(count, transforms[0] if transforms else 0, np.uint16),
        integrity=np.full(count, transforms[1] if transforms else 0, np.uint16),
    )


def _make_key_columns(key_sets: Sequence[KeySet], suites: Sequence[IkeSuite | None]) -> tuple[_KeyColumns, BoolArray]:
    """Key sets, with the suites that their IKE SAs negotiated, and which of them can be used here. (key sets,)"""
    transforms = [_select_transforms(keys, suite) for keys, suite in zip(key_sets, suites, strict=True)]
    keys = [key for item in key_sets for key in (item.sk_ei, item.sk_er, item.sk_ai, item.sk_ar)]
    sizes = np.array(list(map(len, keys)), np.int64)
    encryption, integrity = np.array([item or (0, 0) for item in transforms], np.uint16).reshape(-1, 2).T
    columns = _KeyColumns(
        key_sets=key_sets,
        heap=np.frombuffer(b"".join(keys), np.uint8),
        begin=(np.cumsum(sizes) - sizes).reshape(-1, 4),
        size=sizes.reshape(-1, 4),
        encryption=encryption,
        integrity=integrity,
    )
    return columns, np.array([item is not None for item in transforms], np.bool_)


def _select_keys(keys: _KeyColumns, rows: Int64Array) -> _KeyColumns:
    """Select key sets, in this order."""
    key_sets = [keys.key_sets[row] for row in rows.tolist()]
    return _KeyColumns(
        key_sets, keys.heap, keys.begin[rows], keys.size[rows], keys.encryption[rows], keys.integrity[rows]
    )


def _select_transforms(keys: KeySet, suite: IkeSuite | None) -> tuple[int, int] | None:
    """The transform IDs of a key set; None: it is unusable, incomplete, or does not check ICVs."""
    try:
        protection = select_protection(keys, suite)
    except UnusableKeyError:
        return None
    if not (protection.verifies and protection.initiator and protection.responder):
        return None
    return protection.encryption.transform, 0 if protection.mac is None else protection.mac.transform
