"""The driver with real sockets, injected faults and scripted conversations."""

from dataclasses import dataclass, field

import pytest

from ikeanalyze.replay.initiator.interface import DriverStep, OutgoingDatagram
from ikeanalyze.replay.session.driver import Driver, TrafficCounter
from ikeanalyze.replay.session.faults import FaultInjector, FaultKind, parse_fault
from ikeanalyze.replay.transport.target import Target
from ikeanalyze.replay.transport.udp import UdpTransport
from ikeanalyze.wire.header import HEADER
from tests.replay.peers import free_port, peer

MS = 1_000_000


def message(number, *, exchange_type=34, response=False, size=60):
    head = HEADER.pack(b"initiato", bytes(8), 0, 0x20, exchange_type, 0x20 if response else 8, number, size)
    return head + bytes(size - len(head))


def outgoing(number, transmission=1, port=500):
    return OutgoingDatagram(message(number), 34, number, False, None, None, transmission, port)


@dataclass
class Script:
    """Send messages 0 to `count` - 1, each after the response to the previous one, or again after `wait_ms`, twice."""

    count: int
    wait_ms: int = 3000  # longer than a response takes on a busy machine
    times: list[int] = field(default_factory=list)  # of each call, ns
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    number: int = 0
    transmission: int = 1
    wake_ns: int = 0

    def begin(self, now_ns):
        return self.send(now_ns)

    def send(self, now_ns):
        self.times.append(now_ns)
        self.wake_ns = now_ns + self.wait_ms * MS
        return DriverStep((outgoing(self.number, self.transmission, 4500 if self.number else 500),), self.wake_ns)

    def receive(self, data, now_ns, from_port):
        self.times.append(now_ns)
        self.answers.append((from_port, data))
        if int.from_bytes(data[20:24], "big") != self.number:
            return DriverStep((), self.wake_ns)
        self.number, self.transmission = self.number + 1, 1
        return DriverStep((), None, "done") if self.number == self.count else self.send(now_ns)

    def tick(self, now_ns):
        assert now_ns >= self.wake_ns
        if self.transmission == 3:
            return DriverStep((), None, "silence")
        self.transmission += 1
        return self.send(now_ns)


def answer(data, _):
    return [message(int.from_bytes(data[20:24], "big"), response=True, size=100)]


def run_driver(script, behave=answer, *, rules=(), seed=1, seconds=5.0):
    frames = []
    with peer(behave) as responder:
        transport = UdpTransport(responder.target, lambda at, frame: frames.append((at, frame)))
        try:
            faults = FaultInjector([parse_fault(FaultKind(value), text) for value, text in rules], seed)
            driver = Driver(transport, faults=faults)
            result = driver.run(script, script.begin, seconds)
        finally:
            transport.close()
    return result, driver.counter, frames, responder


def test_a_conversation_runs_to_its_end():
    script = Script(3)
    result, counter, frames, responder = run_driver(script)
    assert (result.finished, result.why, result.sent, result.received) == ("done", None, 3, 3)
    assert [role for role, *_ in responder.got] == [500, 4500, 4500]
    assert [port for port, _ in script.answers] == [500, 4500, 4500]
    assert script.times == sorted(script.times)
    # IPv4 and UDP are 28 bytes, the marker 4
    assert counter.total == {True: 3 * 88 + 2 * 4, False: 3 * 128 + 2 * 4}
    assert counter.blowup == 1
    assert sum(len(frame) for _, frame in frames) == counter.total.total()


def test_a_silent_target_ends_the_conversation():
    script = Script(1, wait_ms=20)
    result, counter, _, _ = run_driver(script, lambda *_: [])
    assert (result.finished, result.sent) == ("silence", 3)
    assert counter.blowup == 3


def test_a_dropped_request_is_recorded_and_counted_as_sent():
    script = Script(2, wait_ms=500)
    result, counter, frames, responder = run_driver(script, rules=[("drop", "IKE_SA_INIT:request")])
    assert result.finished == "done"
    assert len(responder.got) == result.sent == 2  # on the wire
    assert (counter.datagrams[True], len(frames)) == (4, 6)
    assert counter.blowup == pytest.approx((2 * 88 + 2 * 92 + 128 + 132) / (88 + 92 + 128 + 132))


def test_a_dropped_response_is_counted_but_not_delivered():
    script = Script(1, wait_ms=500)
    result, counter, frames, responder = run_driver(script, rules=[("drop", "any:response")])
    assert result.finished == "done"
    assert len(script.answers) == 1
    assert (len(responder.got), result.received, counter.datagrams[False], len(frames)) == (2, 2, 2, 4)


def test_a_duplicated_request_and_delayed_responses():
    script = Script(1)
    result, counter, _, responder = run_driver(
        script, rules=[("duplicate", "any:request"), ("delay", "any:response:x*:60ms")]
    )
    assert result.finished == "done"
    assert len(responder.got) == 2
    assert counter.datagrams[True] == 1
    assert script.times[-1] - script.times[0] >= 60 * MS


@pytest.mark.parametrize(
    ("kind", "response"), [(37, True), (37, False), (36, False), (44, False)]
)  # a responder for which the IKE SA is set up may rekey it
def test_only_messages_of_the_set_up_are_counted(kind, response):
    counter = TrafficCounter()
    assert counter.blowup is None
    script = Script(1)
    _, counter, _, _ = run_driver(
        script, lambda data, _: [message(9, exchange_type=kind, response=response), *answer(data, 0)]
    )
    assert counter.datagrams == {True: 1, False: 1}


def over_target(target, *, ignore_refusals=False):
    transport = UdpTransport(target, lambda *_: None)
    try:
        script = Script(1, wait_ms=150)
        return Driver(transport, ignore_refusals=ignore_refusals).run(script, script.begin, 5.0)
    finally:
        transport.close()


def test_an_unreachable_target_ends_the_conversation():
    target = Target("127.0.0.1", free_port(), free_port())
    result = over_target(target)
    assert (result.finished, result.why, result.sent) == (None, "network error: Connection refused", 1)
    assert over_target(target, ignore_refusals=True).finished == "silence"


def test_an_error_from_the_other_port_does_not_end_the_conversation():
    """Another run sent a datagram to port 4500; the ICMP error comes while port 500 is in use."""
    with peer(lambda *_: []) as responder:
        target = Target("127.0.0.1", responder.target.port, free_port())
        transport = UdpTransport(target, lambda *_: None)
        try:
            script = Script(1, wait_ms=50)
            driver = Driver(transport)

            def begin(now_ns):
                transport.send(transport.prepare(message(7), 4500)[0])
                return script.begin(now_ns)

            result = driver.run(script, begin, 5.0)
            assert transport.counts.refusals == {4500: 1}
        finally:
            transport.close()
    assert result.finished == "silence"


def test_a_conversation_ends_at_its_time_limit():
    result, _, _, _ = run_driver(Script(1, wait_ms=10_000), lambda *_: [], seconds=0.2)
    assert (result.finished, result.why) == (None, "timed out after 0.2 s")
