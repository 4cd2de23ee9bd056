"""Python, the compiled core and the Wireshark plugin read refusals of an IKE version (RFC 7296, section 2.5)."""

from dataclasses import replace

import pytest

import ikeanalyze
from tests.craft import SECOND, Handshake, Trace, ike
from tests.dissectors.run_plugin import run_plugin

INVALID_MAJOR_VERSION = 5


def refuse(handshake):
    """A response in the clear, with the SPIs and the message ID of the request."""
    handshake.moved = False
    notify = ike.notify(INVALID_MAJOR_VERSION, b"\x20")
    return handshake.clear(ike.INFORMATIONAL, [notify], from_initiator=False, response=True, spi_r=bytes(8))


def refuse_version_3():
    """A header of an unknown version is not read, so that the response is alone."""
    handshake = Handshake(1)
    request = handshake.init()[0]
    data = request.datagrams[0]
    request = replace(request, datagrams=(data[:17] + b"\x30" + data[18:],))
    return [request, refuse(handshake)], [("IKEv2", "192.0.2.1", "failed", "INVALID_MAJOR_VERSION")]


CASES = [refuse_version_3]
each_case = pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)


def make_capture(messages):
    """The capture goes on for a minute."""
    trace = Trace()
    trace.play(messages)
    trace.send(60 * SECOND, b"other traffic", sport=53, dport=53)
    return trace.pcap()


@pytest.mark.usefixtures("implementation")
@each_case
def test_reports_have_the_refusal(make):
    messages, expected = make()
    handshakes = ikeanalyze.read(make_capture(messages)).handshakes
    assert handshakes.select("protocol", "initiator_address", "outcome", "reason").rows() == expected


@each_case
def test_the_plugin_has_the_refusal(make, tshark):
    messages, expected = make()
    lines = run_plugin(tshark, make_capture(messages), "-q", "-z", "ikex,handshakes").lines
    rows = [line.split() for line in lines if line.split()[:1] and line.split()[0].isdigit()]
    assert [(row[3], row[13], row[-1] if row[-1] != "-" else None) for row in rows] == [row[1:] for row in expected]
