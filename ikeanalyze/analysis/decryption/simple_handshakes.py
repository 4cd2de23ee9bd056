"""Decrypts, in Python, the messages of many handshakes that have one key set each.

With one key set, the rules of `keys.key_ring` have nothing to decide: each message is decrypted from the first of its
transmissions that can be. Without the compiled core, this takes a third of the time of `decrypt`, which is the
definition. Handshakes with a truncated message, a payload before the encrypted one, or a missing fragment go back.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.arrays import (
    BoolArray,
    Int64Array,
    UInt8Array,
    read_uint8,
    read_uint16_be,
    read_uint32_be,
)
from ikeanalyze.crypto.sk_payload import DecryptedMessage, MessageCipher
from ikeanalyze.crypto.skf_fragments import SkfReassembler
from ikeanalyze.wire.header import HEADER, LENGTH_OFFSET, NEXT_PAYLOAD_OFFSET, VERSION_OFFSET
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER
from ikeanalyze.wire.registries.ikev2 import PayloadType

#: Offset of the IV: the encrypted payload is the first one. SKF begins with two numbers of two bytes.
_SK_START: Final = HEADER.size + PAYLOAD_HEADER.size
_SKF_START: Final = _SK_START + 4


def decrypt_simple_handshakes(
    heap: UInt8Array, columns: dict[str, npt.NDArray[Any]], ends: Int64Array, decryptors: Sequence[MessageCipher | None]
) -> dict[str, Any]:
    """Decrypt the messages of handshakes.

    Args:
        heap: bytes of the encrypted messages.
        columns: `begin`, `size`, `slot`, `body`, `number`, `total`, `from_initiator` of their datagrams.
        ends: where the datagrams of each handshake end.
        decryptors: of each handshake; None: it has several key sets.

    Returns:
        the columns of `_core.decrypt_handshakes`, and `heap`: IKE header and plaintext of each message.
    """
    starts = ends - np.diff(ends, prepend=0)
    simple = np.logical_and.reduceat(_find_simple_messages(heap, columns), starts).tolist()
    datagrams = _Datagrams(heap, columns)
    handled: list[bool] = []
    message_ends, undecrypted_ends = [0], [0]
    messages: list[_SimpleMessage] = []
    undecrypted: list[int] = []
    for decryptor, low, high, is_simple in zip(decryptors, starts.tolist(), ends.tolist(), simple, strict=True):
        decrypted = datagrams.decrypt(decryptor, low, high) if is_simple and decryptor is not None else None
        handled.append(decrypted is not None)
        if decrypted is not None:
            messages += decrypted[0]
            undecrypted += decrypted[1]
        message_ends.append(len(messages))
        undecrypted_ends.append(len(undecrypted))
    texts = [text for message in messages for text in (message.header, message.plaintext)]
    heap_ends = np.cumsum(list(map(len, texts)), dtype=np.int64)[1::2]
    sizes = np.diff(heap_ends, prepend=0)
    return {
        "handled": np.array(handled, np.bool_),
        "message_ends": np.array(message_ends[1:], np.int64),
        "undecrypted_ends": np.array(undecrypted_ends[1:], np.int64),
        "last": np.array([message.last for message in messages], np.int64),
        "position": np.zeros(len(messages), np.int64),
        "first": np.array([message.first for message in messages], np.uint8),
        "begin": heap_ends - sizes,
        "size": sizes,
        "heap": np.frombuffer(b"".join(texts), np.uint8),
        "part_ends": np.cumsum([len(message.parts) for message in messages], dtype=np.int64),
        "parts": np.array([part for message in messages for part in message.parts], np.int64),
        "undecrypted": np.array(undecrypted, np.int64),
    }


def _find_simple_messages(heap: UInt8Array, columns: dict[str, npt.NDArray[Any]]) -> BoolArray:
    """Which messages are complete and have only an SK or SKF payload. (datagrams,)"""
    begin, size, number, total = (columns[name] for name in ("begin", "size", "number", "total"))
    kind, is_fragment = read_uint8(heap, begin + NEXT_PAYLOAD_OFFSET), number > 0
    simple = size > np.where(is_fragment, _SKF_START, _SK_START)
    simple &= kind == np.where(is_fragment, np.uint8(PayloadType.SKF), np.uint8(PayloadType.SK))
    simple &= read_uint8(heap, begin + VERSION_OFFSET) >> 4 == 2
    simple &= read_uint32_be(heap, begin + LENGTH_OFFSET) == size
    simple &= read_uint16_be(heap, begin + HEADER.size + 2) == size - HEADER.size
    simple &= ~is_fragment | (number <= total)
    return simple


class _SimpleMessage(NamedTuple):
    """One decrypted message; a named tuple, because a capture has many."""

    last: int  # the last datagram that was used
    parts: Sequence[int]  # the datagrams that were used, by fragment number
    first: int  # type of the first payload
    header: bytes  # of the message or its first fragment
    plaintext: bytes


class _Datagrams:
    """The encrypted datagrams: plain lists, which a loop reads faster than arrays."""

    def __init__(self, heap: UInt8Array, columns: dict[str, npt.NDArray[Any]]) -> None:
        self._heap = heap.data
        self._begin: list[int] = columns["begin"].tolist()
        self._end: list[int] = (columns["begin"] + columns["size"]).tolist()
        self._slot: list[int] = columns["slot"].tolist()
        self._body: list[int] = columns["body"].tolist()
        self._number: list[int] = columns["number"].tolist()
        self._total: list[int] = columns["total"].tolist()
        self._from_initiator: list[bool] = columns["from_initiator"].tolist()

    def decrypt(self, decryptor: MessageCipher, low: int, high: int) -> tuple[list[_SimpleMessage], list[int]] | None:
        """Decrypt the messages of one handshake, whose datagrams have the numbers from `low` to `high`.

        Returns the messages, and the first datagram of each message that could not be decrypted; None: of a message
        only some fragments could be decrypted.
        """
        messages: list[_SimpleMessage] = []
        first_datagrams: dict[tuple[int, int], int] = {}  # of each message; -1: it is decrypted
        partial: dict[tuple[int, int], _FragmentedMessage] = {}
        uses_two_keys = decryptor.uses_two_keys
        for place in range(low, high):
            message = self._slot[place], self._body[place]
            if first_datagrams.setdefault(message, place) < 0:
                continue
            number = self._number[place]
            if number and message in partial and partial[message].has(number, self._total[place]):
                continue
            data = self._heap[self._begin[place] : self._end[place]].tobytes()
            start = _SKF_START if number else _SK_START
            plaintext = decryptor.decrypt_at(data, start, self._from_initiator[place])
            if plaintext is None:
                continue
            first = data[HEADER.size]
            fragment = (number, self._total[place]) if number else None
            if uses_two_keys and decryptor.is_garbage(plaintext, first, fragment):
                continue
            if not number:
                messages.append(_SimpleMessage(place, (place,), first, data[: HEADER.size], plaintext))
            else:
                fragments = partial.setdefault(message, _FragmentedMessage())
                complete = fragments.add(place, number, self._total[place], first, plaintext)
                if complete is None:
                    continue
                parts = fragments.list_parts()
                header = self._heap[self._begin[parts[0]] : self._begin[parts[0]] + HEADER.size].tobytes()
                messages.append(_SimpleMessage(place, parts, complete.first, header, complete.plaintext))
            first_datagrams[message] = -1
        if any(first_datagrams[message] >= 0 for message in partial):
            return None
        return messages, [place for place in first_datagrams.values() if place >= 0]


class _FragmentedMessage:
    """The decrypted fragments of one message."""

    def __init__(self) -> None:
        self._fragments = SkfReassembler()
        self._parts: dict[int, int] = {}  # fragment number to datagram

    def has(self, number: int, total: int) -> bool:
        """Whether a fragment is there."""
        return number in self._parts and self._fragments.total == total

    def add(self, place: int, number: int, total: int, first: int, plaintext: bytes) -> DecryptedMessage | None:
        """Add a fragment; returns the message if it is complete."""
        if total > self._fragments.total:
            self._parts.clear()  # fragmented again, into smaller fragments
        if self._fragments.add(number, total, first, plaintext):
            self._parts[number] = place
        return self._fragments.get_message()

    def list_parts(self) -> list[int]:
        """The datagrams of the fragments, by fragment number."""
        return [self._parts[number] for number in sorted(self._parts)]
