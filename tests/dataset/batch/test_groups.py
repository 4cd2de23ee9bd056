import random

import pytest

from ikeanalyze.dataset.batch.groups import group_captures
from ikeanalyze.dataset.batch.task import TaskCapture

MIB = 1 << 20


def wanted(sizes):
    return [(TaskCapture(str(number), f"/{number}", {}, ()), size) for number, size in enumerate(sizes)]


def grouped(sizes):
    return [([int(one.capture) for one in found.captures], found.bytes) for found in group_captures(wanted(sizes))]


def test_small_captures_by_number():
    assert [len(captures) for captures, _ in grouped([10] * 600)] == [256, 256, 88]


def test_a_group_has_a_limit_of_bytes():
    assert grouped([6 * MIB] * 4) == [([0, 1, 2], 18 * MIB), ([3], 6 * MIB)]


def test_large_captures_alone():
    assert grouped([1, 16 * MIB, 2, 20 * MIB, 3]) == [([1], 16 * MIB), ([3], 20 * MIB), ([0, 2, 4], 6)]


def test_no_captures_make_no_groups():
    assert grouped([]) == []


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_the_same_when_some_are_done(seed):
    rng = random.Random(seed)
    captures = wanted([rng.choice([1, 50_000, 3 * MIB, 30 * MIB]) for _ in range(rng.randrange(1, 900))])
    whole = list(group_captures(captures))
    left = rng.sample(whole, rng.randrange(len(whole) + 1))
    names = {capture.capture for item in left for capture in item.captures}
    again = list(group_captures([capture for capture in captures if capture[0].capture in names]))
    assert sorted(again, key=repr) == sorted(left, key=repr)
    assert sum(len(item.captures) for item in whole) == len(captures)
