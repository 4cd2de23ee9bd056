from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fuzz.equality import without_core
from ikeanalyze import core
from ikeanalyze.analysis.grouping import (
    RowGroups,
    argsort_stable,
    find_distinct,
    find_distinct_bodies,
    find_group_starts,
    group_order,
    number_pairs,
    number_within_captures,
)
from ikeanalyze.capture.decode.ip import CAPTURE_BIT

small = st.lists(st.integers(0, 5), max_size=40)
large = st.lists(st.sampled_from((0, 1, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15)), max_size=40)


@given(small | st.lists(st.integers(0, 2**62), max_size=20))
def test_sorting_is_stable(keys):
    key = np.array(keys, np.int64)
    assert argsort_stable(key).tolist() == np.argsort(key, kind="stable").tolist()


bodies = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 1)), max_size=30)


@given(bodies)
def test_bodies_are_equal_if_their_numbers_and_bytes_are(places):
    heap = np.frombuffer(b"abcabc", np.uint8)
    begin, end = (np.array([pick(low, high) for low, high, _ in places], np.int64) for pick in (min, max))
    number = np.array([value for _, _, value in places], np.uint64)
    expected = [(value, bytes(heap[min(low, high) : max(low, high)])) for low, high, value in places]
    compiled = find_distinct_bodies(heap, begin, end, number)
    with without_core():
        python = find_distinct_bodies(heap, begin, end, number)
    for first, equal in (compiled, python):
        assert [expected[row] for row in first[equal].tolist()] == expected
        assert len({expected[row] for row in first.tolist()}) == len(first)
        assert first.tolist() == sorted(first.tolist())


def same_together(values, order):
    ordered = values[order]
    assert sorted(order.tolist()) == list(range(len(values)))
    runs = [*np.flatnonzero(find_group_starts(ordered)).tolist(), len(values)]
    assert len(runs) - 1 == len(set(values.tolist()))
    for begin, end in pairwise(runs):
        assert (np.diff(order[begin:end]) > 0).all()


@given(small | large)
def test_equal_values_are_brought_together(values):
    values = np.array(values, np.uint64)
    same_together(values, group_order(values))


def test_values_that_look_alike():
    """Multiplied and cut to the bits that are left beside the row number, these are all equal."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    alike = np.array([number * inverse % 2**64 for number in (3, 1, 2, 3, 1, 9, 2**40, 2, 3)], np.uint64)
    same_together(alike, group_order(alike))


@given(small | large)
def test_distinct_values_are_numbered(values):
    values = np.array(values, np.uint64)
    different, place = find_distinct(values)
    assert len(set(different.tolist())) == len(different)
    assert different[place].tolist() == values.tolist()


@given(st.lists(st.tuples(*[st.sampled_from((0, 1, 2**32, 2**64 - 1))] * 2), max_size=40))
def test_pairs_have_equal_numbers_if_both_values_are_equal(pairs):
    columns = np.array(pairs, np.uint64).reshape(-1, 2)
    numbers = number_pairs(columns[:, 0], columns[:, 1]).tolist()
    assert len(set(zip(numbers, pairs, strict=True))) == len(set(numbers)) == len(set(pairs))


def test_values_with_equal_hashes_are_distinct(monkeypatch):
    """As in a capture that is made to be slow: the hashes of all values have the same high bits."""
    monkeypatch.setattr(core, "compiled", None)
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    values = np.array([number * inverse % 2**64 for number in [*range(500), *range(300)]], np.uint64)
    different, place = find_distinct(values)
    assert len(different) == len(set(different.tolist())) == 500
    assert different[place].tolist() == values.tolist()


def test_starts_of_runs_are_found():
    one, two = np.array([1, 1, 2, 2, 2]), np.array([0, 0, 0, 0, 1])
    assert find_group_starts(one).tolist() == [True, False, True, False, False]
    assert find_group_starts(one, two).tolist() == [True, False, True, False, True]
    assert find_group_starts(one[:0]).tolist() == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=30), st.booleans())
def test_runs_are_numbered(rows, rising):
    new = np.array([first or row == 0 for row, (first, _) in enumerate(rows)], np.bool_)
    values = np.array([value for _, value in rows], np.int64)
    runs = RowGroups(new)
    if rising:
        values = np.sort(values)
    pieces = [piece.tolist() for piece in np.split(values, runs.start[1:])] if len(rows) else []
    assert runs.size.tolist() == [len(piece) for piece in pieces]
    assert runs.sum(values).tolist() == [sum(piece) for piece in pieces]
    assert runs.min(values).tolist() == [min(piece) for piece in pieces]
    assert runs.max(values).tolist() == [max(piece) for piece in pieces]


def test_totals_beyond_the_range_of_the_type():
    values = np.array([2**64 - 1, 5, 2**64 - 1], np.uint64)
    assert RowGroups(np.array([True, False, True])).sum(values).tolist() == [4, 2**64 - 1]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from((0, 5, 2**64 - 1)), st.integers(0, 2)), max_size=30))
def test_values_are_grouped_within_captures(rows):
    rows.sort(key=lambda row: row[0])
    values = np.array([value for _, value, _ in rows], np.uint64)
    codes = np.array([capture << CAPTURE_BIT | address for capture, _, address in rows], np.uint64)
    result = number_within_captures(values, codes).tolist()
    of = [(capture, value) for capture, value, _ in rows]
    for place, one in enumerate(result):
        assert [one == other for other in result] == [of[place] == other for other in of]
