"""Inputs that once found something find nothing, without Atheris: `docs/fuzzing.md` describes how to add one."""

from pathlib import Path

import pytest

from fuzz.harness import NAMES, load_harness

REPRODUCERS = sorted(path for path in (Path(__file__).parent / "reproducers").glob("*/*"))


@pytest.mark.parametrize("path", REPRODUCERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_reproducer_finds_nothing(path):
    load_harness(path.parent.name).run(path.read_bytes())


def test_each_folder_is_a_harness():
    assert {path.parent.name for path in REPRODUCERS} <= set(NAMES)
