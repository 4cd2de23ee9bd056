import random
from collections import Counter

import pytest

from ikeanalyze.replay.fuzz import _ERRORS, MAX_BYTES, MAX_ERRORS, mutate_message
from tests.replay.recorded_messages import hybrid

FIRST = hybrid().first.data


def mutants(count=2000, message=FIRST, seed=1):
    chance = random.Random(seed)
    return [mutate_message(message, chance) for _ in range(count)]


def test_bounded_and_never_the_message_itself():
    for mutant in mutants():
        assert 1 <= len(mutant.data) <= MAX_BYTES
        assert mutant.data != FIRST
        assert len(mutant.errors) <= MAX_ERRORS


def test_the_same_seed_gives_the_same():
    assert mutants(50, seed=3) == mutants(50, seed=3) != mutants(50, seed=4)


def test_every_kind_of_error_happens():
    assert Counter(name for mutant in mutants() for name in mutant.errors).keys() == _ERRORS.keys()


def test_most_lengths_are_right_so_that_what_is_inside_is_reached():
    whole = [mutant.data for mutant in mutants() if len(mutant.data) >= 28]
    right = sum(int.from_bytes(data[24:28], "big") == len(data) for data in whole)
    assert 0.7 < right / len(whole) < 1


@pytest.mark.parametrize("message", [FIRST[:28], bytes(70_000)])
def test_any_message_can_be_mutated(message):
    assert all(0 < len(mutant.data) <= MAX_BYTES for mutant in mutants(200, message))
