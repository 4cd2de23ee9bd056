import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.live.ended_sas import EndedSas


def keys(*numbers: int):
    return np.array(numbers, np.uint64)


def test_recognises_what_was_added():
    ended = EndedSas(100)
    ended.add(keys(5, 3, 5))
    assert ended.recognise(keys(3, 4, 5, 5)).tolist() == [True, False, True, True]
    assert len(ended) == 2


def test_a_discarded_ike_sa_is_no_longer_recognised():
    ended = EndedSas(100)
    ended.add(keys(1, 2, 3))
    ended.discard(keys(2))
    assert ended.recognise(keys(1, 2, 3)).tolist() == [True, False, True]


def test_forgets_those_that_were_silent_for_longest():
    ended = EndedSas(8)
    ended.add(keys(1, 2))
    for number in range(10, 100):
        ended.add(keys(number))
        ended.recognise(keys(1))
    assert ended.recognise(keys(1, 2, 99)).tolist() == [True, False, True]


@given(st.lists(st.lists(st.integers(0, 50), max_size=9), max_size=30))
def test_size_is_bounded(batches):
    ended = EndedSas(10)
    for batch in batches:
        ended.add(keys(*batch))
        ended.recognise(keys(*batch))
        assert len(ended) <= 5 + 50
    if batches:
        assert ended.recognise(keys(*batches[-1])).all()
