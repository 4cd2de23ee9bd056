from random import Random

import numpy as np
import pytest

from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.formats.records import PADDING


def datagrams(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint32)


def add(clear: MessageBytes, **messages: bytes) -> None:
    """Keep messages by datagram, given as u7=b"..."."""
    data = b"".join(messages.values())
    size = np.array([len(message) for message in messages.values()])
    end = np.cumsum(size)
    numbers = datagrams(*(int(name[1:]) for name in messages))
    clear.add(numbers, np.frombuffer(data, np.uint8), end - size, end)


def test_message_bytes_are_a_mapping() -> None:
    clear = MessageBytes()
    assert len(clear) == 0
    assert clear.get(3) is None
    add(clear, u3=b"three", u5=b"five")
    add(clear, u4=b"four", u9=b"")
    assert dict(clear) == {3: b"three", 4: b"four", 5: b"five", 9: b""}
    assert clear[4] == b"four"
    assert clear.get(6, b"") == b""
    with pytest.raises(KeyError):
        clear[10]


def test_a_later_value_replaces_an_earlier_one() -> None:
    clear = MessageBytes()
    add(clear, u3=b"before")
    assert clear[3] == b"before"
    add(clear, u3=b"after")
    assert dict(clear) == {3: b"after"}


def test_offsets_and_sizes_of_values_are_given() -> None:
    clear = MessageBytes()
    begin, size = clear.places(datagrams(1, 2))
    assert size.tolist() == [0, 0]
    add(clear, u3=b"three", u5=b"five")
    begin, size = clear.places(datagrams(5, 4, 3, 3, 6))
    result = [clear.heap[low : low + count].tobytes() for low, count in zip(begin, size, strict=True)]
    assert result == [b"five", b"", b"three", b"three", b""]


def test_places_of_units_with_large_numbers_are_given() -> None:
    clear = MessageBytes()
    add(clear, u3=b"three", u4000000000=b"large")
    begin, size = clear.places(datagrams(4_000_000_000, 5, 3, 4_294_967_295))
    result = [clear.heap[low : low + count].tobytes() for low, count in zip(begin, size, strict=True)]
    assert result == [b"large", b"", b"three", b""]


def test_clearing_removes_all_values() -> None:
    clear = MessageBytes()
    add(clear, u3=b"three")
    clear.clear()
    assert dict(clear) == {}
    add(clear, u4=b"four")
    assert dict(clear) == {4: b"four"}


@pytest.mark.parametrize("share", [None, 0.01, 1.0])
def test_kept_messages_grow_with_any_share(share: float | None) -> None:
    rng = Random(1)
    clear, expected = MessageBytes(), {}
    for datagram in range(300):
        expected[datagram] = rng.randbytes(rng.randrange(2000))
        clear.share = share
        add(clear, **{f"u{datagram}": expected[datagram]})
    assert dict(clear) == expected


def test_a_heap_filled_from_two_sides() -> None:
    heap = np.zeros(100, np.uint8)
    first, second = MessageBytes(heap), MessageBytes(heap, 50)
    add(first, u0=b"zero")
    add(second, u0=b"one", u1=b"two")
    numbers, begin, size = second.entries()
    first.add_existing(numbers + np.uint32(1), begin, size)
    assert dict(first) == {0: b"zero", 1: b"one", 2: b"two"}


def test_values_can_be_selected() -> None:
    clear = MessageBytes()
    add(clear, u3=b"three", u5=b"five", u9=b"nine")
    clear.keep(datagrams(9, 3, 7))
    assert dict(clear) == {3: b"three", 9: b"nine"}
    add(clear, u4=b"four")
    assert dict(clear) == {3: b"three", 4: b"four", 9: b"nine"}
    clear.clear()
    assert dict(clear) == {}


def test_the_buffer_of_the_first_messages_can_be_taken() -> None:
    clear = MessageBytes()
    first = np.frombuffer(b"onetwo" + bytes(PADDING), np.uint8).copy()
    clear.take(datagrams(4, 7), first, np.array([0, 3]), np.array([3, 6]))
    assert clear.heap is first
    add(clear, u5=b"three")
    second = np.frombuffer(b"nine" * PADDING + bytes(PADDING), np.uint8).copy()
    clear.take(datagrams(9), second, np.array([0]), np.array([4 * PADDING]))
    assert dict(clear) == {4: b"one", 5: b"three", 7: b"two", 9: b"nine" * PADDING}


def test_nothing_is_taken_of_a_buffer_without_messages() -> None:
    clear = MessageBytes()
    none = np.zeros(0, np.int64)
    clear.take(datagrams(), np.zeros(PADDING, np.uint8), none, none)
    assert dict(clear) == {}
