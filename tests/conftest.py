"""Nothing is skipped for want of a tool where everything is meant to run."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
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


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run each case of tests marked `turns` with every tshark, instead of with one of them"
    parser.addoption("--all-tsharks", action="store_true", help=text)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Without garbage collection, which would look at the growing number of items again and again.

    The items stay until the end: no collection of a test looks at them, which would take half a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and "tshark" in item.fixturenames:
            item.add_marker(pytest.mark.tshark)
            if hasattr(item, "callspec") and item.callspec.params.get("tshark") in TREES:
                item.add_marker(pytest.mark.tree)
    if not config.getoption("all_tsharks"):
        waiting = _find_waiting(items, config.args)
        config.hook.pytest_deselected(items=waiting)
        left_out = set(waiting)
        items[:] = [item for item in items if item not in left_out]


def _find_waiting(items: list[pytest.Item], arguments: list[str]) -> list[pytest.Item]:
    """The items of tests marked `turns` where another tshark has the turn."""
    functions: dict[tuple[pytest.Item, str], dict[str, list[pytest.Item]]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("turns") and "tshark" in item.fixturenames:
            of_function = functions.setdefault((item.parent, item.originalname), {})
            of_function.setdefault(item.callspec.params["tshark"], []).append(item)
    waiting = []
    for of_function in functions.values():
        versions = sorted(of_function, key=NAMES.index)
        # each version has the same cases, in the same order
        for turn, version in enumerate(versions):
            waiting += [item for case, item in enumerate(of_function[version]) if case % len(versions) != turn]
    # who names a single item wants this one
    return [item for item in waiting if not any(argument.endswith(f"::{item.name}") for argument in arguments)]


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
