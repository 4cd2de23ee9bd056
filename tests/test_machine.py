import ctypes
from collections.abc import Iterator

import pytest

from ikeanalyze import machine

pytestmark = pytest.mark.alone


@pytest.fixture(autouse=True)
def again() -> Iterator[None]:
    machine.tune_malloc.cache_clear()
    yield
    machine.tune_malloc.cache_clear()


def test_the_allocator_is_configured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[tuple[int, int]] = []

    class Library:
        @staticmethod
        def mallopt(option: int, value: int) -> int:
            requested.append((option, value))
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    machine.tune_malloc()
    assert {option for option, _ in requested} == {
        -1,
        -2,
        -3,
        -8,
    }  # malloc.h: M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD
    count = len(requested)
    machine.tune_malloc()
    assert len(requested) == count


@pytest.mark.parametrize("error", [OSError, AttributeError])
def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def refuse(name: object) -> None:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    machine.tune_malloc()
