import os
import time
from dataclasses import replace

import pytest

from ikeanalyze.replay import runs as module
from ikeanalyze.replay.runs import Runs
from ikeanalyze.replay.udp import UdpTransport
from replay.peers import peer
from replay.recorded_messages import hybrid

#: The answer that was recorded to the first message; the SPIi of the request takes the place of its own.
RECORDED = hybrid().messages[1].data


def accepting(data, _):
    return [data[:8] + RECORDED[8:]] if len(data) > 28 and data[18] == 34 else []


def over(behave, do, *, rate=100.0):
    with peer(behave) as one:
        transport = UdpTransport(one.target, lambda *_: None)
        heard = []
        try:
            runs = Runs(
                one.target, transport, rate=rate, seconds=5, randomness=os.urandom, tell=heard.append
            )  # fmt: skip
            return do(runs), heard, one.got
        finally:
            transport.close()


def first_alone():
    one = hybrid()
    return replace(one, messages=one.messages[:2])


def test_each_run_has_spis_of_its_own():
    found, heard, got = over(accepting, lambda runs: runs.verbatim(first_alone(), 5, speed=1, wait_s=1))
    assert found == heard
    assert [run.number for run in found] == [1, 2, 3, 4, 5]
    assert len({run.spi_i for run in found}) == 5
    assert [data[:8] for _, data, _ in got] == [run.spi_i for run in found]
    for run in found:
        (sent,) = run.verbatim.sent
        assert sent.answers[0].answer.kind == "accepted"
        assert sent.answers[0].differs == ()
        assert 0 < sent.answers[0].round_trip_ns < 1e9
        assert run.traffic.blowup == 1


def test_not_faster_than_allowed():
    began = time.monotonic()
    over(accepting, lambda runs: runs.verbatim(first_alone(), 4, speed=1, wait_s=1), rate=4)
    assert 0.75 <= time.monotonic() - began < 3


def test_mutated_messages_between_ordinary_ones():
    mutated, _, got = over(accepting, lambda runs: runs.mutated([first_alone()], 50, 1), rate=1000)
    assert mutated.up
    assert (mutated.before.attempts, mutated.after.attempts, mutated.barrage.sent) == (1, 1, 50)
    assert len(got) == 52
    assert mutated.barrage.answered["accepted"] > 5
    assert mutated.broken_off is None


def test_a_target_that_is_not_up_gets_no_mutated_messages():
    mutated, _, got = over(lambda *_: [], lambda runs: runs.mutated([first_alone()], 50, 1))
    assert (mutated.up, mutated.barrage, mutated.after) == (False, None, None)
    assert len(got) == 1


def test_a_target_that_dies(monkeypatch):
    monkeypatch.setattr(module, "RECOVERY_S", 0.5)
    monkeypatch.setattr(module, "_CHECK_WAIT_S", 0.2)
    monkeypatch.setattr(module, "_CHECK_GAP_S", 0.1)
    served = []

    def mortal(data, role):
        served.append(data)
        return accepting(data, role) if len(served) < 10 else []

    mutated, _, _ = over(mortal, lambda runs: runs.mutated([first_alone()], 20, 1), rate=1000)
    assert not mutated.up
    assert mutated.before.answer is not None
    assert mutated.after.attempts >= 2
    assert mutated.barrage.sent == 20


def test_whoever_interrupts_gets_the_runs_that_were_over(monkeypatch):
    def drive(*arguments, original=module.Driver.drive):
        if len(got) == 3:
            raise KeyboardInterrupt
        got.append(1)
        return original(*arguments)

    got = []
    monkeypatch.setattr(module.Driver, "drive", drive)
    found, heard, _ = over(accepting, lambda runs: runs.verbatim(first_alone(), 9, speed=1, wait_s=1))
    assert [run.number for run in found] == [1, 2, 3]
    assert found == heard
    with pytest.raises(KeyboardInterrupt):
        over(accepting, lambda runs: runs.verbatim(first_alone(), 9, speed=1, wait_s=1))
