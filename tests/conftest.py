"""Nothing is skipped for want of a tool where everything is meant to run."""

import os
import shutil
import signal
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from ikeanalyze import core
from tests.tsharks import NAMES, TREES, Tshark, find

# Examples read captures, and the machine may be busy: no test fails because an example was slow.
settings.register_profile(
    "default",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
)
settings.register_profile("thorough", settings.get_profile("default"), derandomize=False, max_examples=2000)
# Golden files are 80 columns wide, and so is the output of programs in tests.
os.environ.pop("COLUMNS", None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure() -> None:
    missing = [tool for tool in ("tshark", "editcap", "mergecap") if not shutil.which(tool)]
    if os.environ.get("CI") and missing:
        raise pytest.UsageError(f"{', '.join(missing)} missing: `make test` installs Debian's tshark")
    # A background job of a shell script ignores SIGINT, and so would each process that a test starts and interrupts.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and "tshark" in item.fixturenames:
            item.add_marker(pytest.mark.tshark)
            if hasattr(item, "callspec") and item.callspec.params.get("tshark") in TREES:
                item.add_marker(pytest.mark.tree)


_found = cache(find)


@pytest.fixture(params=NAMES)
def tshark(request: pytest.FixtureRequest) -> Tshark:
    """One tshark after another: see tests/tsharks.py."""
    result = _found(request.param)
    if isinstance(result, str):
        if os.environ.get("CI"):
            pytest.fail(result)
        pytest.skip(result)
    return result


@pytest.fixture
def compiled_core() -> None:
    """Skip tests where the compiled core is not in use; with CI set, fail."""
    if core.compiled is None:
        if os.environ.get("CI"):
            pytest.fail(f"the compiled core is {core.problem}")
        pytest.skip(f"the compiled core is {core.problem}; make core builds it")
