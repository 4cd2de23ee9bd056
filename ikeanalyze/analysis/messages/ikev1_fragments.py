"""Reassembles IKEv1 messages from their fragments (payload 132), which contain the message with its own header.

The header of a fragment does not show whether the message is encrypted: that of the complete message does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.capture.arrays import BoolArray, Int32Array
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.header import HEADER, parse_header
from ikeanalyze.wire.registries.ikev1 import Ikev1PayloadType

if TYPE_CHECKING:
    from ikeanalyze.wire.ikev1.message import Ikev1Fragment

#: Bytes before the data of a fragment: IKE header, generic payload header, fragment ID, number and flags.
_OVERHEAD = HEADER.size + 8


@dataclass(frozen=True, slots=True)
class ReassembledMessage:
    """A message from its fragments."""

    data: bytes = field(repr=False)  # begins with the message's own header
    datagrams: tuple[int, ...]  # rows of the datagrams, each fragment once, by fragment number


class Ikev1Reassembler:
    """Reassembles one message from fragments in any order and with repetitions; of repetitions the last counts."""

    __slots__ = ("_last", "_parts")

    def __init__(self) -> None:
        self._parts: dict[int, tuple[bytes, int]] = {}  # number: data, row
        self._last: int | None = None  # number of the last fragment; None: not seen yet

    @property
    def first_row(self) -> int:
        """The lowest row of the fragments so far; raises `ValueError` if there are none."""
        return min(row for _, row in self._parts.values())

    def add(self, fragment: "Ikev1Fragment", data: bytes, row: int) -> ReassembledMessage | None:
        """Add a fragment, `data` with its IKE header, from this row of the datagrams; return the complete message."""
        self._parts[fragment.number] = data[_OVERHEAD : int.from_bytes(data[24:28], "big")], row
        if fragment.last:
            self._last = fragment.number
        if self._last is None or any(number not in self._parts for number in range(1, self._last + 1)):
            return None
        ordered = [self._parts[number] for number in range(1, self._last + 1)]
        return ReassembledMessage(b"".join(data for data, _ in ordered), tuple(row for _, row in ordered))


def find_ikev1_fragments(datagrams: Datagrams) -> BoolArray:
    """Which datagrams are fragments of IKEv1 messages. (n,)"""
    fragments: BoolArray = datagrams.is_ikev1 & (datagrams.next_payload == int(Ikev1PayloadType.FRAGMENT))
    return fragments


def reassemble_clear_messages(
    datagrams: Datagrams, messages: MessageColumns, message_of_datagram: Int32Array, clear: Mapping[int, bytes]
) -> dict[int, ReassembledMessage]:
    """Reassemble the clear messages in fragments; by the row of the datagram that completed each of them.

    `clear` has the bytes of the fragments of phase 1, by datagram. A message is left out if one of its fragments is not
    in the capture or truncated by it.
    """
    rows = np.flatnonzero(find_ikev1_fragments(datagrams)).tolist()
    if not rows:
        return {}
    from ikeanalyze.wire.ikev1.message import parse_ikev1_fragment  # here, because few captures have IKEv1

    result: dict[int, ReassembledMessage] = {}
    reassemblers: dict[tuple[int, int], Ikev1Reassembler] = {}
    finished: set[tuple[int, int]] = set()  # complete or encrypted, by slot and body
    for row in rows:
        message = int(message_of_datagram[row])
        identity = int(messages.slot[message]), int(messages.body[message])
        if identity in finished:
            continue
        data = clear.get(int(datagrams.datagram[row]), b"")
        fragment = parse_ikev1_fragment(data)
        if fragment is None or len(data) < int.from_bytes(data[24:28], "big"):
            continue
        # most fragmented messages are encrypted: these need not wait for their other fragments
        if fragment.number == 1 and not is_clear_message(data[_OVERHEAD:]):
            finished.add(identity)
            reassemblers.pop(identity, None)
            continue
        complete = reassemblers.setdefault(identity, Ikev1Reassembler()).add(fragment, data, row)
        if complete is not None:
            finished.add(identity)
            del reassemblers[identity]
            result[row] = complete
    return result


def is_clear_message(data: bytes) -> bool:
    """Whether these bytes begin with the header of a clear message."""
    try:
        return not parse_header(data).encrypted
    except WireError:
        return False
