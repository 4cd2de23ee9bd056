"""The tests of the compiled core: `make test` builds it."""

import pytest


@pytest.fixture(autouse=True)
def built(compiled_core):
    """Each test needs the core."""
