"""Reading the relevant lines of a log gives what reading each line gives."""

import random

import pytest

from ikeanalyze import core
from tests.keys.mutated_logs import LAB_PATHS, MUTATIONS, PATHS, cut, load, read


@pytest.fixture(autouse=True)
def without_core(monkeypatch):
    """tests/core compares with the compiled core."""
    monkeypatch.setattr(core, "compiled", None)


def compare(lines: list[bytes], chance: random.Random) -> None:
    """The first line of a block is always read, so that blocks of one line are the definition."""
    assert read(cut(lines, chance)) == read([[line] for line in lines])


@pytest.mark.exhaustive
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name.removesuffix(".log.gz"))
def test_relevant_lines_of_logs_suffice(path, mutation):
    chance = random.Random(f"{path.name} {mutation}")
    compare(MUTATIONS[mutation](load(path), chance), chance)


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", LAB_PATHS, ids=lambda path: path.name.removesuffix(".log.gz"))
def test_relevant_lines_of_logs_of_the_lab_suffice(path):
    chance = random.Random(path.name)
    lines = load(path)
    compare(lines, chance)
    compare(chance.choice(list(MUTATIONS.values()))(lines, chance), chance)
