"""Fragments of IKEv1 messages, in any order."""

import pytest

from ikeanalyze.analysis.messages.ikev1_fragments import Ikev1Reassembler, is_clear_message
from ikeanalyze.wire.ikev1.message import parse_ikev1_fragment
from tests.craft import ikev1

WHOLE = ikev1.message(b"initiatr", b"responde", ikev1.AGGRESSIVE_MODE, [(ikev1.CERT, bytes(range(250)))])
PARTS = ikev1.fragments(WHOLE, 100)


def reassemble(*numbers):
    """The complete message and the rows of its fragments, after each of these fragments (from 1) in rows 0, 1, ..."""
    reassembler = Ikev1Reassembler()
    results = []
    for row, number in enumerate(numbers):
        data = PARTS[number - 1]
        complete = reassembler.add(parse_ikev1_fragment(data), data, row)
        results.append(None if complete is None else (complete.data, complete.datagrams))
    return results


@pytest.mark.parametrize(
    ("numbers", "rows"),
    [((1, 2, 3), (0, 1, 2)), ((3, 2, 1), (2, 1, 0)), ((2, 3, 2, 1), (3, 2, 1))],
)
def test_fragments_in_any_order_and_with_repetitions(numbers, rows):
    assert len(PARTS) == 3
    assert reassemble(*numbers) == [*[None] * (len(numbers) - 1), (WHOLE, rows)]


@pytest.mark.parametrize("numbers", [(1, 2), (1, 3), (2, 3), (1, 1, 2)])
def test_a_message_without_a_fragment_is_not_complete(numbers):
    assert reassemble(*numbers)[-1] is None


def test_bytes_after_the_fragment_are_not_part_of_the_message():
    reassembler = Ikev1Reassembler()
    for row, data in enumerate(PARTS):
        complete = reassembler.add(parse_ikev1_fragment(data), data + b"trailer", row)
    assert complete is not None
    assert complete.data == WHOLE


def test_the_header_of_the_message_shows_whether_it_is_clear():
    encrypted = ikev1.encrypted(b"initiatr", b"responde", ikev1.AGGRESSIVE_MODE, ikev1.CERT, bytes(64))
    assert is_clear_message(WHOLE)
    assert not is_clear_message(encrypted)
    assert not is_clear_message(WHOLE[:27])
