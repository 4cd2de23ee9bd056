from ikeanalyze.replay.fuzz import FuzzedMessage, FuzzRun
from tests.craft import ike

MS = 1_000_000
NOW = 10**18


def test_at_a_rate_whatever_is_answered():
    mutants = [FuzzedMessage(bytes([number]) * 40, ("bit", "cut")[: number + 1]) for number in range(3)]
    core = FuzzRun(mutants, 50)
    step = core.begin(NOW)
    assert [item.data for item in step.send] == [mutants[0].data]
    assert step.wake_ns == NOW + 20 * MS
    refusal = ike.message(b"initiato", bytes(8), 34, ike.RESPONSE, 0, [ike.notify(ike.INVALID_SYNTAX)])
    step = core.receive(refusal, NOW + MS, 500)
    assert step.send == ()
    step = core.receive(b"?", NOW + 41 * MS, 500)
    assert [item.data for item in step.send] == [mutant.data for mutant in mutants[1:]]
    assert step.wake_ns == NOW + 560 * MS
    finished = core.tick(step.wake_ns).finished
    assert (finished.sent, finished.garbage) == (3, 1)
    assert finished.answered == {"INVALID_SYNTAX": 1}
    assert finished.errors == {"bit": 3, "cut": 2}
