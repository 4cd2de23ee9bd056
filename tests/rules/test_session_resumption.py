"""Python, the compiled core and the plugin read the exchange of session resumption (RFC 5723, section 4.3)."""

import pytest

import ikeanalyze
from tests.craft import SECOND, Handshake, Trace, ike
from tests.dissectors.run_plugin import fields, run_plugin

TICKET_NACK, TICKET_OPAQUE = 16412, 16413


def resume(handshake):
    """IKE_SESSION_RESUME with a ticket, and its nonce."""
    payloads = [ike.nonce(bytes(range(32))), ike.notify(TICKET_OPAQUE, bytes(100))]
    return handshake.clear(ike.IKE_SESSION_RESUME, payloads, spi_r=bytes(8))


def respond(handshake, payload, spi_r=None):
    return handshake.clear(ike.IKE_SESSION_RESUME, [payload], from_initiator=False, response=True, spi_r=spi_r)


def accept():
    """The responder answers with its nonce, and IKE_AUTH follows."""
    handshake = Handshake(1)
    messages = [resume(handshake), respond(handshake, ike.nonce(bytes(32)))]
    handshake.message_id[True] = 1
    return messages + handshake.auth()


def refuse():
    """The initiator then sets up an IKE SA without the ticket."""
    handshake = Handshake(1)
    return [resume(handshake), respond(handshake, ike.notify(TICKET_NACK), bytes(8)), *Handshake(2).setup()]


CASES = [
    (accept, [("completed", None)]),
    (refuse, [("failed", "TICKET_NACK"), ("completed", None)]),
]
each_case = pytest.mark.parametrize(("messages", "expected"), CASES, ids=["accept", "refuse"])


def make_capture(messages):
    """The capture goes on for a minute."""
    trace = Trace()
    trace.play(messages())
    trace.send(60 * SECOND, b"other traffic", sport=53, dport=53)
    return trace.pcap()


@pytest.mark.usefixtures("implementation")
@each_case
def test_reports_have_the_outcome(messages, expected):
    handshakes = ikeanalyze.read(make_capture(messages)).handshakes
    assert handshakes.select("outcome", "reason").rows() == expected


def test_a_refused_ticket_has_a_diagnosis_of_its_own(tshark):
    """TICKET_NACK is a status notify: the initiator is expected to go on without the ticket."""
    capture = make_capture(refuse)
    [entry] = ikeanalyze.read(capture).handshakes["diagnosis"][0]
    assert (entry["code"], entry["frames"]) == ("ticket-refused", [2])
    names = [f"ikex.diagnosis.{name}" for name in ("code", "message")]
    rows = fields(tshark, capture, *names, only="ikex.handshake == 1")
    assert {tuple(row) for row in rows} == {(entry["code"], entry["message"])}


@each_case
def test_the_plugin_has_the_outcome(messages, expected, tshark):
    lines = run_plugin(tshark, make_capture(messages), "-q", "-z", "ikex,handshakes").lines
    rows = [line.split()[13:] for line in lines if line.split()[:1] and line.split()[0].isdigit()]
    assert [(row[0], None if row[-1] == "-" else row[-1]) for row in rows] == expected
