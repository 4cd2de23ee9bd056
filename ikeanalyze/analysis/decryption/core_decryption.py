"""Decrypts the messages of many handshakes at once with the compiled core.

It takes the handshakes whose encrypted messages belong to one IKE SA, which key sets with both SPIs name and no other
handshake shares. It hands back those with an algorithm that it does not have, and those that lack fragments.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ikeanalyze import core
from ikeanalyze.analysis.grouping import find_group_starts
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.crypto.algorithms import IkeSuite
from ikeanalyze.crypto.sk_payload import DecryptedMessage, UnusableKeyError, select_protection
from ikeanalyze.keys.key_ring import KeyRing
from ikeanalyze.keys.key_set import KeySet


@dataclass(frozen=True, slots=True)
class CoreMessage:
    """A message that the core decrypted."""

    row: int  # of the last datagram that was used
    datagrams: tuple[int, ...]  # rows of the datagrams that were used, by fragment number
    opened: DecryptedMessage
    position: int  # of the key set in `CoreHandshake.key_sets`


@dataclass(frozen=True, slots=True)
class CoreHandshake:
    """A handshake whose messages the core decrypted."""

    key_sets: tuple[KeySet, ...]
    messages: list[CoreMessage]
    undecrypted: list[int]  # row of the first datagram of each message that could not be decrypted


def decrypt_with_core(
    state: AnalysisState,
    encrypted: MessageBytes,
    rows: Int64Array,
    starts: Sequence[int],
    suites: Sequence[IkeSuite | None],
    ring: KeyRing,
) -> dict[int, CoreHandshake]:
    """Decrypt handshakes of one capture; returns those that need no more work, by position in `starts`.

    Args:
        state: of the captures.
        encrypted: bytes of the encrypted messages.
        rows: encrypted datagrams, handshake by handshake in order of time.
        starts: position in `rows` of the first datagram of each handshake.
        suites: the negotiated algorithms of each handshake.
        ring: the keys of the capture.
    """
    if core.compiled is None or ring.has_unassigned or not len(rows):
        return {}
    begin, size = encrypted.places(state.datagrams.datagram[rows])
    key_sets = _find_key_sets(state, rows, size, starts, suites, ring)
    if not key_sets:
        return {}
    ends = [*starts[1:], len(rows)]
    chosen = np.concatenate([np.arange(starts[number], ends[number]) for number in key_sets])
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
    counts = [ends[number] - starts[number] for number in key_sets]
    keys = [keys for of_handshake in key_sets.values() for keys in of_handshake]
    result = core.compiled.decrypt_handshakes(
        encrypted.heap,
        {name: np.ascontiguousarray(column) for name, column in columns.items()},
        np.cumsum(counts),
        [(keys.key_set.sk_ei, keys.key_set.sk_er, keys.key_set.sk_ai, keys.key_set.sk_ar) for keys in keys],
        np.array([keys.encryption for keys in keys], np.uint16),
        np.array([keys.integrity for keys in keys], np.uint16),
        np.cumsum([len(of_handshake) for of_handshake in key_sets.values()]),
    )
    return _collect_handshakes(result, used.tolist(), key_sets)


@dataclass(frozen=True, slots=True)
class _KeySetForCore:
    """A key set and the transform IDs of its algorithms."""

    key_set: KeySet
    encryption: int
    integrity: int  # 0: none


def _find_key_sets(
    state: AnalysisState,
    rows: Int64Array,
    size: Int64Array,
    starts: Sequence[int],
    suites: Sequence[IkeSuite | None],
    ring: KeyRing,
) -> dict[int, list[_KeySetForCore]]:
    """The key sets of each handshake that the core may decrypt, by position in `starts`."""
    spi_i, spi_r = state.datagrams.spi_i[rows], state.datagrams.spi_r[rows]
    heads = find_group_starts(spi_i, spi_r)
    heads[list(starts)] = True
    runs = np.flatnonzero(heads)
    # an IKE SA in two handshakes has one chain of keys, which remembers what it decrypted
    uses = Counter(zip(spi_i[runs].tolist(), spi_r[runs].tolist(), strict=True))
    runs_of = np.add.reduceat(heads.astype(np.int64), starts).tolist()
    whole = np.minimum.reduceat(size, starts).tolist()
    first_i, first_r = spi_i[list(starts)].tolist(), spi_r[list(starts)].tolist()
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


def _collect_handshakes(
    result: dict[str, Any], rows: list[int], key_sets: dict[int, list[_KeySetForCore]]
) -> dict[int, CoreHandshake]:
    """The handshakes that the core decrypted; `rows`: the datagrams that it got."""
    plaintext: bytes = result.pop("plaintext")
    columns: dict[str, list[int]] = {name: column.tolist() for name, column in result.items()}
    messages: list[CoreMessage] = []
    part_at = text_at = 0
    for last, position, first, part_end, text_end in zip(
        *(columns[name] for name in ("last", "position", "first", "part_ends", "plaintext_ends")), strict=True
    ):
        parts = tuple(rows[part] for part in columns["parts"][part_at:part_end])
        opened = DecryptedMessage(plaintext[text_at:text_end], first, True)
        messages.append(CoreMessage(rows[last], parts, opened, position))
        part_at, text_at = part_end, text_end
    handshakes: dict[int, CoreHandshake] = {}
    low = undecrypted_low = 0
    ends = (columns[name] for name in ("handled", "message_ends", "undecrypted_ends"))
    for (number, keys), handled, high, undecrypted_high in zip(key_sets.items(), *ends, strict=True):
        if handled:
            undecrypted = [rows[row] for row in columns["undecrypted"][undecrypted_low:undecrypted_high]]
            handshakes[number] = CoreHandshake(tuple(item.key_set for item in keys), messages[low:high], undecrypted)
        low, undecrypted_low = high, undecrypted_high
    return handshakes
