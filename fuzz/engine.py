"""Runs a harness with Atheris, which mutates inputs guided by the coverage of `ikeanalyze`.

Atheris passes the options of libFuzzer on: https://llvm.org/docs/LibFuzzer.html#options
"""

import sys
from collections.abc import Sequence
from random import Random
from typing import Final

import atheris

from fuzz.harness import load_harness

#: Share of the mutations that libFuzzer makes: it knows the constants that the program compared with.
_LIBFUZZER_SHARE: Final = 0.3


def fuzz(name: str, arguments: Sequence[str]) -> None:
    """Run a harness with libFuzzer's arguments: options, and directories with inputs. Does not return.

    Ends the process: with status 0 after the given number of executions or seconds, with another one after a finding.
    """
    with atheris.instrument_imports(include=["ikeanalyze"]):
        harness = load_harness(name)

        def mutate(data: bytes, max_size: int, seed: int) -> bytes:
            rng = Random(seed)
            if rng.random() >= _LIBFUZZER_SHARE:
                return harness.mutate(data, rng)[:max_size]
            mutated: bytes = atheris.Mutate(data, max_size)
            return mutated

        options = [f"-max_len={harness.max_bytes}", *arguments]
        atheris.Setup([sys.argv[0], *options], harness.run, custom_mutator=mutate)
        atheris.Fuzz()  # modules that are imported late are instrumented too
