"""No flood costs more than in proportion to its size: each is read at one size and at four times that size.

Processor times are compared, not times by the clock, so that other tests may run meanwhile.
"""

import gc
import resource
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ikeanalyze.cli import GARBAGE_COLLECTION
from ikeanalyze.cli.app import app
from tests.floods.generate import FLOODS, GROWTH

#: Four times the packets may cost 4^1.25 times as much; a quadratic cost is 4^2 times as much.
EXPONENT = 1.25
#: Processor time in seconds that does not depend on the size, and varies.
CONSTANT = 0.15
#: Processor times vary where processes share a core and its caches: one of so many attempts must do.
ATTEMPTS = 6


def processor_time() -> float:
    """Of this process and of those that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def cost(capture: bytes, command: tuple[str, ...], folder: Path) -> float:
    """Processor time in seconds that a command with JSON as its output takes."""
    path = folder / "flood.pcapng"
    path.write_bytes(capture)
    gc.collect()
    gc.freeze()  # a collection while this is measured would scan the objects of all earlier tests
    gc.set_threshold(*GARBAGE_COLLECTION)
    before = processor_time()
    result = CliRunner().invoke(
        app,
        [*command, str(path), "--quiet", "--format", "json", "-o", str(folder / "out.json")],
        catch_exceptions=False,
    )
    assert result.exit_code == 0, result.stderr
    return processor_time() - before


@pytest.fixture(autouse=True)
def restore_garbage_collection():
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.mark.parametrize("name", FLOODS)
def test_cost_is_proportional_to_size(tmp_path, name):
    flood = FLOODS[name]
    cost(flood.generate(100), flood.command, tmp_path)  # loads what it needs
    for _ in range(ATTEMPTS):
        sizes = flood.size, GROWTH * flood.size
        small, large = (cost(flood.generate(n), flood.command, tmp_path) for n in sizes)
        if large <= GROWTH**EXPONENT * small + CONSTANT:
            return
    pytest.fail(f"{small:.2f} s of processor time for {sizes[0]:,} packets, {large:.2f} s for {sizes[1]:,}")
