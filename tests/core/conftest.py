"""The tests of the compiled core: `make test` builds it."""

import os

import pytest

from ikeanalyze import core


@pytest.fixture(autouse=True)
def built():
    """Skip tests where the core is not in use; with CI set, fail."""
    if core.compiled is None:
        if os.environ.get("CI"):
            pytest.fail(f"the compiled core is {core.problem}")
        pytest.skip(f"the compiled core is {core.problem}; make core builds it")
