"""Decrypts the messages of many handshakes at once with the compiled core.

It takes the handshakes whose encrypted messages belong to one IKE SA, which key sets with both SPIs name and no other
handshake shares. It hands back those with an algorithm that it does not have, and those that lack fragments.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from ikeanalyze import core
from ikeanalyze.analysis.decryption.message_records import NO_RECORDS, MessageRecords, RecordColumns
from ikeanalyze.analysis.grouping import find_group_starts
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.parallel import count_processors
from ikeanalyze.crypto.algorithms import IkeSuite
from ikeanalyze.crypto.sk_payload import UnusableKeyError, select_protection
from ikeanalyze.keys.key_ring import KeyRing
from ikeanalyze.keys.key_set import KeySet

#: Threads that decrypt at most, and handshakes of each: fewer take less time than to start a thread.
_MAX_THREADS: Final = 4
_MIN_HANDSHAKES: Final = 256


@dataclass(frozen=True, slots=True)
class CoreDecryption:
    """What the core decrypted of some handshakes, which have numbers from 0 on."""

    handled: BoolArray  # which need no more work. (handshakes,)
    records: MessageRecords  # without the number of additional key exchanges
    number: Int64Array  # of the handshake of each record
    undecrypted: Int64Array  # row of the first datagram of each message that could not be decrypted
    undecrypted_number: Int64Array  # of its handshake

    def select(self, number: int) -> MessageRecords:
        """The messages of one handshake."""
        columns = self.records.columns.select(np.flatnonzero(self.number == number))
        return replace(self.records, columns=columns)


def decrypt_with_core(
    state: AnalysisState,
    encrypted: MessageBytes,
    rows: Int64Array,
    starts: Int64Array,
    suites: Sequence[IkeSuite | None],
    ring: KeyRing,
) -> CoreDecryption:
    """Decrypt handshakes of one capture; their numbers are the positions in `starts`.

    Args:
        state: of the captures.
        encrypted: bytes of the encrypted messages.
        rows: encrypted datagrams, handshake by handshake in order of time.
        starts: position in `rows` of the first datagram of each handshake.
        suites: the negotiated algorithms of each handshake.
        ring: the keys of the capture.
    """
    if core.compiled is None or ring.has_unassigned:
        return _decrypt_nothing(len(starts))
    begin, size = encrypted.places(state.datagrams.datagram[rows])
    key_sets = _find_key_sets(state, rows, size, starts, suites, ring)
    if not key_sets:
        return _decrypt_nothing(len(starts))
    numbers = np.fromiter(key_sets, np.int64, len(key_sets))
    counts = np.diff(starts, append=len(rows))
    is_chosen = np.zeros(len(starts), np.bool_)
    is_chosen[numbers] = True
    chosen = np.flatnonzero(np.repeat(is_chosen, counts))
    used = rows[chosen]
    datagrams = state.datagrams
    message = state.message_of_datagram[used]
    columns = {
        "begin": begin[chosen],
        "size": size[chosen],
        "slot": state.messages.slot[message],
        "body": state.messages.body[message],
        "number": datagrams.fragment[used],
        "total": datagrams.fragments[used],
        "from_initiator": state.association.from_initiator[used],
    }
    keys = [keys for of_handshake in key_sets.values() for keys in of_handshake]
    key_ends = np.cumsum([len(of_handshake) for of_handshake in key_sets.values()])
    result = core.compiled.decrypt_handshakes(
        encrypted.heap,
        {name: np.ascontiguousarray(column) for name, column in columns.items()},
        np.cumsum(counts[numbers]),
        [(keys.key_set.sk_ei, keys.key_set.sk_er, keys.key_set.sk_ai, keys.key_set.sk_ar) for keys in keys],
        np.array([keys.encryption for keys in keys], np.uint16),
        np.array([keys.integrity for keys in keys], np.uint16),
        key_ends,
        min(count_processors(), _MAX_THREADS, 1 + len(numbers) // _MIN_HANDSHAKES),
    )
    is_chosen[numbers] = result["handled"]
    return _collect_messages(state, result, used, numbers, is_chosen, [item.key_set for item in keys], key_ends)


def _decrypt_nothing(count: int) -> CoreDecryption:
    """The result for `count` handshakes that the core does not decrypt."""
    none = np.zeros(0, np.int64)
    return CoreDecryption(np.zeros(count, np.bool_), NO_RECORDS, none, none, none)


def _collect_messages(
    state: AnalysisState,
    result: dict[str, Any],
    rows: Int64Array,
    numbers: Int64Array,
    handled: BoolArray,
    key_sets: list[KeySet],
    key_ends: Int64Array,
) -> CoreDecryption:
    """The columns of the messages that the core decrypted.

    Args:
        state: of the captures.
        result: columns of the core.
        rows: the datagrams that it got.
        numbers: of the handshakes that it got.
        handled: which handshakes need no more work.
        key_sets: of these handshakes.
        key_ends: where those of each handshake end.
    """
    messages = np.diff(result["message_ends"], prepend=0)
    size = np.diff(result["heap_ends"], prepend=0)
    parts = np.diff(result["part_ends"], prepend=0)
    row, position = rows[result["last"]], result["position"]
    count = len(row)
    columns = RecordColumns(
        message=state.message_of_datagram[row],
        row=row,
        begin=result["heap_ends"] - size,
        size=size,
        first_part=result["part_ends"] - parts,
        parts=parts,
        encrypted=np.ones(count, np.bool_),
        first=result["first"],
        verified=np.ones(count, np.bool_),
        additional=np.full(count, -1),
        position=position,
        keys=np.repeat(np.concatenate([[0], key_ends[:-1]]), messages) + position,
        outer=np.full(count, -1),
    )
    return CoreDecryption(
        handled=handled,
        records=MessageRecords(columns, result["heap"], rows[result["parts"]], key_sets, ()),
        number=np.repeat(numbers, messages),
        undecrypted=rows[result["undecrypted"]],
        undecrypted_number=np.repeat(numbers, np.diff(result["undecrypted_ends"], prepend=0)),
    )


class _KeySetForCore(NamedTuple):
    """A key set and the transform IDs of its algorithms; a named tuple, because a capture has many."""

    key_set: KeySet
    encryption: int
    integrity: int  # 0: none


def _find_key_sets(
    state: AnalysisState,
    rows: Int64Array,
    size: Int64Array,
    starts: Int64Array,
    suites: Sequence[IkeSuite | None],
    ring: KeyRing,
) -> dict[int, list[_KeySetForCore]]:
    """The key sets of each handshake that the core may decrypt, by position in `starts`."""
    spi_i, spi_r = state.datagrams.spi_i[rows], state.datagrams.spi_r[rows]
    heads = find_group_starts(spi_i, spi_r)
    heads[starts] = True
    runs = np.flatnonzero(heads)
    # an IKE SA in two handshakes has one chain of keys, which remembers what it decrypted
    uses = Counter(zip(spi_i[runs].tolist(), spi_r[runs].tolist(), strict=True))
    runs_of = np.add.reduceat(heads.astype(np.int64), starts).tolist()
    whole = np.minimum.reduceat(size, starts).tolist()
    first_i, first_r = spi_i[starts].tolist(), spi_r[starts].tolist()
    result: dict[int, list[_KeySetForCore]] = {}
    for number, spis in enumerate(zip(first_i, first_r, strict=True)):
        # a message that begins with a clear payload is stored elsewhere
        if runs_of[number] != 1 or not whole[number] or uses[spis] != 1:
            continue
        named = ring.get_named_key_sets(spis[0].to_bytes(8), spis[1].to_bytes(8))
        prepared = _prepare_key_sets(named, suites[number])
        if prepared:
            result[number] = prepared
    return result


def _prepare_key_sets(key_sets: Sequence[KeySet], suite: IkeSuite | None) -> list[_KeySetForCore]:
    """Key sets with their algorithms; empty if one of them is unusable, incomplete or does not check ICVs."""
    prepared = []
    for keys in key_sets:
        try:
            protection = select_protection(keys, suite)
        except UnusableKeyError:
            return []
        if not (protection.verifies and protection.initiator and protection.responder):
            return []
        integrity = 0 if protection.mac is None else protection.mac.transform
        prepared.append(_KeySetForCore(keys, protection.encryption.transform, integrity))
    return prepared
