"""What the plugin costs: of a hundred thousand packets at most as much again as tshark takes without it."""

import resource
import subprocess

import pytest

from benchmarks.generate import generate
from tests.dissectors.asked import PLUGIN

pytestmark = pytest.mark.alone

#: Files of a little more than a hundred thousand packets.
SIZES = {"ike-heavy": 90 << 20, "esp-heavy": 145 << 20}


def seconds(room, *words):
    """Processor time of a run of tshark."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(room.command("tshark", *words), stdout=subprocess.DEVNULL, check=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.large
@pytest.mark.parametrize("tshark", ["host", "forky"], indirect=True)
@pytest.mark.parametrize("kind", SIZES)
def test_a_hundred_thousand_packets(tshark, tmp_path, kind):
    """Nothing but IKE is the worst case; a busy gateway's capture is nearly all ESP."""
    truth = generate(kind, SIZES[kind], tmp_path / "capture", 1)
    assert truth["packets"] >= 100_000
    with tshark.room() as room:
        capture = str(room.put("capture", tmp_path / "capture"))
        room.put("plugin", PLUGIN)
        with_plugin = ("-X", "lua_script:plugin/ikex.lua")
        # side by side, since other work on the machine slows both down
        runs = [(seconds(room, "-r", capture), seconds(room, *with_plugin, "-r", capture)) for _ in range(3)]
    without, with_it = map(min, zip(*runs, strict=True))
    starting = 0.2  # of Lua, whatever the capture
    assert with_it <= 2 * without + starting, runs
