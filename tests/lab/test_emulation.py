"""The error of the relay, measured between two hosts."""

import subprocess
import sys

import pytest

from ikeanalyze.lab import emulation, network
from ikeanalyze.lab.emulation import Conditions, netem_command
from ikeanalyze.lab.scenario import cases
from ikeanalyze.lab.space import Space

_ECHO = """
import sys, time
from ikeanalyze.lab.echo import echo
for n in range(21):
    began = time.monotonic()
    assert echo(sys.argv[1], sys.argv[2])
    print((time.monotonic() - began) * 1e3)
"""


@pytest.mark.lab
def test_the_delay_is_right_within_a_millisecond(lab):
    with Space() as space:
        net = network.build(space, cases({}, "x", "x")[0])
        conditions = Conditions(rtt_ms=50)
        emulator = emulation.start(space, net.path, conditions, netem=False, drops_elsewhere=True)
        command = [sys.executable, "-c", _ECHO, net.initiator_address, net.responder_address]
        done = subprocess.run(net.initiator.inside(*command), capture_output=True, text=True, check=True)
        times = sorted(map(float, done.stdout.split()))
        assert emulator.kind == "relay"
        assert emulator.stop()["there"]["received"] >= 21
    assert times[0] >= 50
    assert times[len(times) // 2] < 52  # a millisecond each way


def test_what_netem_is_told():
    said = " ".join(netem_command("far", Conditions(600, 5, 20, 2000), 20))
    assert said.endswith("dev far root netem limit 20000 delay 300ms 5ms loss 20% rate 2000kbit")
