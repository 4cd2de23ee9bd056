"""Live responders are the lab's: what it needs, and what happens where that is missing, is said there."""

from tests.lab.conftest import lab  # noqa: F401 - a fixture
