import tracemalloc
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.crypto.skf_fragments import SkfReassembler
from tests.craft import ike

FIRST, CHAIN = ike.chain([ike.notify(16384, bytes(50)), ike.delete()])
PARTS = CHAIN[:20], CHAIN[20:41], CHAIN[41:]


def add(fragments: SkfReassembler, number: int, **other) -> bool:
    return fragments.add(number, 3, FIRST if number == 1 else 0, PARTS[number - 1], **other)


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_fragments_are_reassembled_in_any_order(order):
    fragments = SkfReassembler()
    for count, number in enumerate(order):
        assert fragments.get_message() is None
        assert sum(map(len, fragments.get_missing_ranges())) == (3 - count if count else 0)
        assert add(fragments, number)
    whole = fragments.get_message()
    assert (whole.plaintext, whole.first, whole.verified) == (CHAIN, FIRST, True)
    assert fragments.get_missing_ranges() == ()
    assert fragments.total == 3


def test_repeated_fragments_are_ignored():
    fragments = SkfReassembler()
    assert add(fragments, 2)
    assert not add(fragments, 2)
    assert not fragments.add(2, 3, 0, b"another")  # the first stays
    add(fragments, 1)
    add(fragments, 3)
    assert not add(fragments, 1)
    assert fragments.get_message().plaintext == CHAIN


def test_missing_ranges_are_listed():
    fragments = SkfReassembler()
    for number in (3, 4, 8):
        fragments.add(number, 10, 0, b"x")
    assert fragments.get_missing_ranges() == (range(1, 3), range(5, 8), range(9, 11))


def test_a_higher_total_replaces_and_a_lower_one_is_old():
    # RFC 7383, section 2.6: after path MTU discovery, the sender cuts the same message into more fragments
    fragments = SkfReassembler()
    fragments.add(1, 2, FIRST, CHAIN[:30])
    assert add(fragments, 1)
    assert not fragments.add(2, 2, 0, CHAIN[30:])
    assert fragments.get_missing_ranges() == (range(2, 4),)
    add(fragments, 2)
    add(fragments, 3)
    assert fragments.get_message().plaintext == CHAIN


@pytest.mark.parametrize(("number", "total"), [(0, 3), (4, 3), (0, 0), (1, 0), (-1, 3), (1, 65536)])
def test_impossible_fragment_numbers_are_rejected(number, total):
    fragments = SkfReassembler()
    assert not fragments.add(number, total, FIRST, CHAIN)
    assert fragments.total == 0


def test_fragments_without_a_check_must_be_a_chain():
    fragments, wrong = SkfReassembler(), SkfReassembler()
    for number in (1, 2, 3):
        add(fragments, number, verified=number != 2)
        wrong.add(number, 3, FIRST, b"\xff" * 20, verified=False)
    whole = fragments.get_message()
    assert (whole.plaintext, whole.verified) == (CHAIN, False)
    assert wrong.get_missing_ranges() == ()
    assert wrong.get_message() is None


def test_what_is_announced_costs_nothing():
    tracemalloc.start()
    kept = []
    for _ in range(100):
        fragments = SkfReassembler()
        fragments.add(40_000, 65_535, 0, b"part")
        assert fragments.get_missing_ranges() == (range(1, 40_000), range(40_001, 65_536))
        kept.append(fragments)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.binary(max_size=3))))
def test_whole_when_nothing_is_missing(events):
    fragments, best = SkfReassembler(), 0
    for number, total, part in events:
        fragments.add(number, total, 41, part)
        if 1 <= number <= total:
            best = max(best, total)
        assert fragments.total == best
        assert (fragments.get_message() is not None) == (best > 0 and not fragments.get_missing_ranges())
