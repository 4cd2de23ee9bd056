"""Settings with which polars takes little memory, in processes started from a shell and from Python with polars."""

import os
import subprocess
import sys

import pytest

from ikeanalyze.dataset.buckets.polars_memory import OPTIONS_OF_POLARS, limit_polars_memory

OPTIONS = "_RJEM_MALLOC_CONF"
LITTLE = "narenas:1,dirty_decay_ms:100,muzzy_decay_ms:0"


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        (None, LITTLE),
        ("", LITTLE),
        ("narenas:4", f"{LITTLE},narenas:4"),  # the user's own
        (OPTIONS_OF_POLARS, LITTLE),  # from a notebook
        (f"{OPTIONS_OF_POLARS},dirty_decay_ms:0", f"{LITTLE},dirty_decay_ms:0"),
    ],
)
def test_options_of_the_user_come_last_and_those_of_polars_go(monkeypatch, inherited, expected):
    monkeypatch.delenv(OPTIONS, raising=False)
    monkeypatch.setenv("POLARS_MAX_THREADS", "3")
    if inherited is not None:
        monkeypatch.setenv(OPTIONS, inherited)
    limit_polars_memory()
    assert os.environ[OPTIONS] == expected
    assert os.environ["POLARS_MAX_THREADS"] == "3"


def test_polars_passes_its_own_options_on_to_the_processes_that_it_starts():
    environment = {name: value for name, value in os.environ.items() if name != OPTIONS}
    program = f"import os, polars; print(os.environ['{OPTIONS}'])"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == OPTIONS_OF_POLARS
