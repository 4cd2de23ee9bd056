"""Python, the compiled core and the plugin follow the redirects of several initiators (RFC 5685, section 3)."""

import pytest

import ikeanalyze
from tests.craft import MS, SECOND, Handshake, Trace, ike, redirected
from tests.dissectors.run_plugin import fields, run_plugin

PORTS, OTHER_PORTS, NEW_PORTS = (40001, 41001), (40002, 41002), (40003, 41003)


def behind_one_nat():
    """The second initiator sends each message 0.5 ms after the first one."""
    trace = Trace()
    trace.play(redirected(1, nat_ports=PORTS)[2])
    trace.play(redirected(2, nat_ports=OTHER_PORTS)[2], at=MS // 2)
    return trace, [1, 2] * 6


def behind_one_nat_with_equal_ports():
    trace = Trace()
    trace.play(redirected(1)[2])
    trace.play(redirected(2)[2], at=MS // 2)
    return trace, [1, 2] * 6


def behind_one_nat_with_one_spi():
    """The first initiator keeps its SPI."""
    trace = Trace()
    trace.play(redirected(1, nat_ports=PORTS, same_spi=True)[2])
    trace.play(redirected(2, nat_ports=OTHER_PORTS)[2], at=MS // 2)
    return trace, [1, 2] * 6


def first_of_two_gives_up():
    trace = Trace()
    trace.play(redirected(1, nat_ports=PORTS)[2][:2])
    trace.play(redirected(2, nat_ports=OTHER_PORTS)[2], at=MS // 2)
    return trace, [1, 2, 1, *[2] * 5]


def first_of_two_follows_later_from_another_port():
    _, _, messages = redirected(1, nat_ports=PORTS, next_nat_ports=NEW_PORTS)
    trace = Trace()
    trace.play(messages[:2])
    trace.play(redirected(2, nat_ports=OTHER_PORTS)[2], at=MS // 2)
    trace.play(messages[2:], at=SECOND)
    return trace, [1, 2, 1, *[2] * 5, *[1] * 4]


def second_of_two_follows_from_another_port_after_a_minute():
    """The first one was redirected more than a minute before, so it is not the one that follows."""
    _, _, messages = redirected(2, nat_ports=OTHER_PORTS, next_nat_ports=NEW_PORTS)
    trace = Trace()
    trace.play(redirected(1, nat_ports=PORTS)[2][:2])
    trace.play(messages[:2], at=50 * SECOND)
    trace.play(messages[2:], at=61 * SECOND)
    return trace, [1, 1, *[2] * 6]


def second_response_after_the_next_request():
    """The request was repeated, and each transmission has a response. The redirection of another initiator is missing
    in the capture.
    """
    _, _, messages = redirected(1, nat_ports=PORTS)
    trace = Trace()
    trace.play(messages)
    trace.message(10 * MS, messages[0])
    trace.message(31 * MS, messages[1])
    trace.play(redirected(2, nat_ports=OTHER_PORTS)[2][2:], at=SECOND)
    return trace, [*[1] * 8, *[2] * 4]


def repeated_request_between_two_responses():
    """The first response was lost after the capture point."""
    _, _, messages = redirected(1)
    trace = Trace()
    trace.play(messages[:2])
    trace.play(messages, at=SECOND)
    return trace, [1] * 8


def redirected_twice():
    """The initiator keeps its SPI at the second gateway, but not at the third one."""
    _, second, messages = redirected(1, same_spi=True)
    second.moved = False
    redirect = ike.notify(ike.REDIRECT, bytes([1, 4, 192, 0, 2, 10]) + bytes(32))
    refusal = second.clear(ike.IKE_SA_INIT, [redirect], from_initiator=False, response=True, spi_r=bytes(8))
    come_from = ike.notify(ike.REDIRECTED_FROM, bytes([1, 4, 192, 0, 2, 9]))
    third = Handshake(3, responder="192.0.2.10", notifies=[come_from])
    trace = Trace()
    trace.play([*messages[:3], refusal, *third.setup()])
    return trace, [1] * 8


CASES = (
    behind_one_nat,
    behind_one_nat_with_equal_ports,
    behind_one_nat_with_one_spi,
    first_of_two_gives_up,
    first_of_two_follows_later_from_another_port,
    second_of_two_follows_from_another_port_after_a_minute,
    second_response_after_the_next_request,
    repeated_request_between_two_responses,
    redirected_twice,
)
each_case = pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
both_follow = pytest.mark.parametrize("make", CASES[:3], ids=lambda make: make.__name__)
#: Of each handshake: requests and responses of the set-up, set-up time in ms (three exchanges of 21 ms, with 1 ms
#: between them), and outcome.
EXPECTED = (3, 3, 65.0, "completed")


@pytest.mark.usefixtures("implementation")
@each_case
def test_reports_follow_each_initiator(make):
    trace, expected = make()
    assert ikeanalyze.read(trace.pcap()).frames["handshake"].to_list() == expected


@pytest.mark.turns
@each_case
def test_the_plugin_follows_each_initiator(make, tshark):
    trace, expected = make()
    assert [int(number) for (number,) in fields(tshark, trace.pcap(), "ikex.handshake")] == expected


@pytest.mark.usefixtures("implementation")
@both_follow
def test_reports_have_the_extra_round_trip_of_each_initiator(make):
    handshakes = ikeanalyze.read(make()[0].pcap()).handshakes
    columns = ("initiator_messages", "responder_messages", "setup_ns", "outcome")
    rows = [(sent, received, time / 1e6, text) for sent, received, time, text in handshakes.select(columns).rows()]
    assert rows == [EXPECTED] * 2
    assert handshakes["extra_round_trips"].to_list() == [["REDIRECT"]] * 2


@both_follow
def test_the_plugin_has_the_extra_round_trip_of_each_initiator(make, tshark):
    lines = run_plugin(tshark, make()[0].pcap(), "-q", "-z", "ikex,handshakes").lines
    rows = [line.split() for line in lines if line.split()[:1] and line.split()[0].isdigit()]
    found = [(int(row[-10]), int(row[-7]), float(row[-4]), row[-3]) for row in rows]
    assert (found, [row[-1] for row in rows]) == ([EXPECTED] * 2, ["+REDIRECT"] * 2)
