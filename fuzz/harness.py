"""What a harness is, and the table of all harnesses."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from random import Random
from typing import Final

Mutator = Callable[[bytes, Random], bytes]


@dataclass(frozen=True, slots=True)
class Harness:
    """One way into the program."""

    run: Callable[[bytes], None]  # raises an exception for a finding; returns for every other input
    mutate: Mutator  # returns a changed copy of an input
    max_bytes: int  # of an input
    share: float  # of the executions of the fastest harness that this one gets when all of them run


#: The modules in `fuzz.harnesses`. Each defines `HARNESS`.
NAMES: Final = ("wire", "crypto", "keys", "readers", "toml", "plaintexts", "pipeline", "core", "commands")


def load_harness(name: str) -> Harness:
    """Import a harness and what it tests, and nothing of the others."""
    harness: Harness = import_module(f"fuzz.harnesses.{name}").HARNESS
    return harness
