"""Python, the compiled core and the Wireshark plugin read refusals of an IKE version (RFC 7296, section 2.5)."""

import struct
from dataclasses import replace

import pytest

import ikeanalyze
from tests.craft import SECOND, Handshake, Trace, ike, ikev1
from tests.dissectors.run_plugin import fields, run_plugin

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


def make_ikev1_refusal(handshake):
    """IKEv1's INVALID-MAJOR-VERSION has the same number (RFC 2408, section 3.14.1)."""
    notify = struct.pack(">IBBH", 1, 1, 0, INVALID_MAJOR_VERSION)
    data = ikev1.message(handshake.spi_i, bytes(8), ikev1.INFORMATIONAL, [(ikev1.NOTIFY, notify)], 0x1234)
    return replace(refuse(handshake), datagrams=(data,))


def refuse_version_2():
    """The responder speaks IKEv1 alone."""
    handshake = Handshake(1)
    request = handshake.init()[0]
    return [request, make_ikev1_refusal(handshake)], [("IKEv2", "192.0.2.1", "failed", "INVALID_MAJOR_VERSION")]


def refuse_version_1():
    """The responder speaks IKEv2 alone."""
    handshake = Handshake(1)
    request = ikev1.message(handshake.spi_i, bytes(8), ikev1.MAIN_MODE, [ikev1.sa()])
    messages = [replace(handshake.init()[0], datagrams=(request,)), refuse(handshake)]
    return messages, [("IKEv1", "192.0.2.1", "failed", "INVALID_MAJOR_VERSION")]


def refuse_version_1_with_the_flag_of_the_initiator():
    """strongSwan 6.1 sets the Initiator and the Response flag; the request may be repeated, and refused each time."""
    messages, expected = refuse_version_1()
    request, refusal = messages
    data = refusal.datagrams[0]
    refusal = replace(refusal, datagrams=(data[:19] + bytes([ike.INITIATOR | ike.RESPONSE]) + data[20:],))
    return [request, refusal, request, refusal], expected


def forge_a_refusal():
    """Anyone can send it. The responder speaks IKEv2, as its own response shows."""
    handshake = Handshake(1)
    request, *others = handshake.setup()
    forged = make_ikev1_refusal(handshake)
    return [request, forged, *others], [("IKEv2", "192.0.2.1", "completed", None)]


def refuse_another_message():
    """Without a request, the message is a handshake of its own."""
    other = make_ikev1_refusal(Handshake(2))
    return [*Handshake(1).setup(), other], [
        ("IKEv2", "192.0.2.1", "completed", None),
        ("IKEv1", "192.0.2.2", "failed", "INVALID-MAJOR-VERSION"),
    ]


CASES = [
    refuse_version_3,
    refuse_version_2,
    refuse_version_1,
    refuse_version_1_with_the_flag_of_the_initiator,
    forge_a_refusal,
    refuse_another_message,
]
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


@pytest.mark.parametrize(
    "make",
    [refuse_version_2, refuse_version_1, refuse_version_1_with_the_flag_of_the_initiator],
    ids=lambda make: make.__name__,
)
def test_a_refused_version_has_a_diagnosis_with_the_refusal_as_evidence(make, tshark):
    messages = make()[0]
    capture = make_capture(messages)
    [entry] = ikeanalyze.read(capture).handshakes["diagnosis"][0]
    assert (entry["code"], entry["frames"]) == ("version-refused", list(range(2, len(messages) + 1, 2)))
    names = [f"ikex.diagnosis.{name}" for name in ("code", "message")]
    rows = fields(tshark, capture, *names, only="ikex.handshake == 1")
    assert {tuple(row) for row in rows} == {(entry["code"], entry["message"])}
