import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from ikeanalyze.model.retransmission_policy import RetransmissionPolicy
from ikeanalyze.replay.session import run as module
from ikeanalyze.replay.session.faults import FaultKind, parse_fault
from ikeanalyze.replay.session.run import ReplayRunner
from ikeanalyze.replay.transport.udp import UdpTransport
from tests.replay import driving
from tests.replay.peers import free_port, peer
from tests.replay.recorded_messages import hybrid
from tests.replay.responder import Responder

pytestmark = pytest.mark.alone

#: The answer that was recorded to the first message; the SPIi of the request takes the place of its own.
RECORDED = hybrid().messages[1].data


def accepting(data, _):
    return [data[:8] + RECORDED[8:]] if len(data) > 28 and data[18] == 34 else []


def over(behave, do, *, rate=100.0, seconds=5):
    with peer(behave) as one:
        transport = UdpTransport(one.target, lambda *_: None)
        heard = []
        try:
            runs = ReplayRunner(
                one.target, transport, rate=rate, seconds=seconds, randomness=os.urandom, on_run=heard.append
            )  # fmt: skip
            return do(runs), heard, one.got
        finally:
            transport.close()


def first_alone():
    one = hybrid()
    return replace(one, messages=one.messages[:2])


def test_each_run_has_spis_of_its_own():
    result, heard, got = over(accepting, lambda runs: runs.run_verbatim(first_alone(), 5, speed=1, wait_s=1))
    assert result == heard
    assert [run.number for run in result] == [1, 2, 3, 4, 5]
    assert len({run.spi_i for run in result}) == 5
    assert [data[:8] for _, data, _ in got] == [run.spi_i for run in result]
    for run in result:
        (sent,) = run.verbatim.sent
        assert sent.answers[0].answer.kind == "accepted"
        assert sent.answers[0].differs == ()
        assert 0 < sent.answers[0].round_trip_ns < 1e9
        assert run.traffic.blowup == 1


def test_what_comes_late_is_counted_where_it_belongs():
    """An answer comes once more when the next run is under way, as that to a duplicate does."""
    answers = []

    def behave(data, role):
        before = answers[-1:]
        answers.extend(accepting(data, role))
        return [*before, answers[-1]]

    result, heard, got = over(behave, lambda runs: runs.run_verbatim(first_alone(), 3, speed=1, wait_s=1))
    request, answer = len(got[0][1]) + 28, len(answers[0]) + 28
    assert [run.traffic.received for run in result] == [2, 2, 1]
    assert [run.traffic.blowup for run in result] == [
        *[pytest.approx((request + 2 * answer) / (request + answer))] * 2,
        1,
    ]
    assert [run.traffic.received for run in heard] == [1, 1, 1]  # when each was over
    assert [len(run.verbatim.sent[0].answers) for run in result] == [1, 1, 1]


def test_not_faster_than_allowed():
    began = time.monotonic()
    over(accepting, lambda runs: runs.run_verbatim(first_alone(), 4, speed=1, wait_s=1), rate=4)
    assert 0.75 <= time.monotonic() - began < 3


def test_mutated_messages_between_ordinary_ones():
    mutated, _, got = over(accepting, lambda runs: runs.run_fuzz([first_alone()], 50, 1), rate=1000)
    assert mutated.up
    assert (mutated.before.attempts, mutated.after.attempts, mutated.barrage.sent) == (1, 1, 50)
    assert len(got) == 52
    assert mutated.barrage.answered["accepted"] > 5
    assert mutated.broken_off is None


def test_a_target_that_is_not_up_gets_no_mutated_messages():
    mutated, _, got = over(lambda *_: [], lambda runs: runs.run_fuzz([first_alone()], 50, 1))
    assert (mutated.up, mutated.barrage, mutated.after) == (False, None, None)
    assert len(got) == 1


def test_a_target_that_ends_is_reported(monkeypatch):
    monkeypatch.setattr(module, "RECOVERY_S", 0.5)
    monkeypatch.setattr(module, "_CHECK_WAIT_S", 0.2)
    monkeypatch.setattr(module, "_CHECK_GAP_S", 0.1)
    served = []

    def mortal(data, role):
        served.append(data)
        return accepting(data, role) if len(served) < 10 else []

    mutated, _, _ = over(mortal, lambda runs: runs.run_fuzz([first_alone()], 20, 1), rate=1000)
    assert not mutated.up
    assert mutated.before.answer is not None
    assert mutated.after.attempts >= 2
    assert mutated.barrage.sent == 20


def interrupting(after):
    """A target that answers so often, and then has the user press Ctrl-C."""
    served = []

    def behave(data, role):
        served.append(data)
        if len(served) > after:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            return []
        return accepting(data, role)

    return behave


@pytest.mark.parametrize("over_before", [0, 3])
def test_whoever_interrupts_gets_the_runs_that_were_begun(over_before):
    def do(runs):
        return runs.run_verbatim(first_alone(), 9, speed=1, wait_s=5), runs.interrupted

    (result, interrupted), heard, _ = over(interrupting(over_before), do)
    assert interrupted
    assert result == heard
    assert [run.broken_off for run in result] == [None] * over_before + ["interrupted"]
    assert len(result[-1].spi_i) == 8
    assert result[-1].verbatim.sent[0].datagrams == 1


def test_whoever_interrupts_mutated_messages_gets_what_was_answered():
    def do(runs):
        return runs.run_fuzz([first_alone()], 50, 1), runs.interrupted

    (mutated, interrupted), _, got = over(interrupting(10), do, rate=100)
    assert interrupted
    assert (mutated.broken_off, mutated.after) == ("interrupted", None)
    assert 10 <= mutated.barrage.sent < 50
    assert mutated.barrage.sent + 1 == len(got)
    assert mutated.barrage.answered["accepted"] > 1


def test_what_is_broken_off_has_its_answers():
    (run,), _, got = over(accepting, lambda runs: runs.run_verbatim(hybrid(), 1, speed=0.2, wait_s=5), seconds=1.5)
    assert run.broken_off == "timed out after 1.5 s"
    assert run.spi_i == got[0][1][:8]
    init, middle = run.verbatim.sent
    assert init.answers[0].answer.kind == "accepted"
    assert (middle.datagrams, middle.answers) == (2, [])


def test_one_port_that_refuses_does_not_silence_the_other():
    """Nobody listens where the recorded initiator floats to; the answer to its first message comes late."""

    def slow(data, role):
        time.sleep(0.15)
        return accepting(data, role)

    with peer(slow) as one:
        target = replace(one.target, nat_port=free_port())
        transport = UdpTransport(target, lambda *_: None)
        try:
            runs = ReplayRunner(target, transport, rate=100, seconds=5, randomness=os.urandom)
            (run,) = runs.run_verbatim(hybrid(), 1, speed=10, wait_s=2)
        finally:
            transport.close()
    assert transport.counts.refusals[4500]
    assert run.broken_off is None
    assert [len(sent.answers) for sent in run.verbatim.sent] == [1, 0, 0]


def test_the_same_seed_makes_the_same_mutants():
    def mutants(seed):
        got = over(accepting, lambda runs: runs.run_fuzz([first_alone()], 30, seed), rate=1000)[2]
        # the hashes for NAT detection, further behind, are of the ports
        return got[0][1][:8], [data[:28] for _, data, _ in got[1:-1]]

    (before, first), (before_again, again), (_, other) = map(mutants, (5, 5, 6))
    assert first == again != other
    # the ordinary requests around them are new ones each time
    assert before != before_again


class Gateway:
    """The responder of the RFCs, which takes no message ID beyond the next one."""

    def __init__(self):
        self.one = Responder(addresses=("127.0.0.1", "127.0.0.1"))

    def __call__(self, data, _):
        if data[18] == 37 and not self.one.established:
            return []
        return self.one.answer(data)


def live(*rules):
    behave = Gateway()

    def do(runs):
        def make():
            return driving.initiator(policy=RetransmissionPolicy("test", (0.5, 0.5)))

        return runs.run_live(make, 1, faults=[parse_fault(FaultKind.DROP, rule) for rule in rules], seed=1)

    (run,), _, _ = over(behave, do)
    return run, behave.one


def test_our_own_faults_do_not_keep_the_ike_sa_at_the_target():
    run, responder = live("any:id2:x*")
    assert run.result.established
    assert (responder.deleted, run.result.deleted) == (True, True)


def test_an_ike_sa_that_the_target_alone_believes_in_is_deleted():
    run, responder = live("IKE_AUTH:response:x*")
    assert (run.result.established, run.result.reason) == (False, "no answer")
    assert responder.established
    assert (responder.deleted, run.result.deleted) == (True, True)


def test_a_delete_that_is_not_answered_is_told():
    run, responder = live("IKE_AUTH:request:x*")
    assert (run.result.established, run.result.reason) == (False, "no answer")
    assert not responder.established
    assert run.result.deleted is False
    # nothing was agreed upon, so there is nothing to delete
    assert live("IKE_SA_INIT:x*")[0].result.deleted is None
