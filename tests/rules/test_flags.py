"""Python, the compiled core and the Wireshark plugin find messages of IKEv2 with wrong flags (RFC 7296, 3.1)."""

from dataclasses import replace

import pytest

import ikeanalyze
from tests.craft import SECOND, Handshake, Trace, ike
from tests.dissectors.run_plugin import findings, run_plugin

WITHOUT_FLAG = "a message of the host that began the IKE SA lacks the Initiator flag: counted as the initiator's"
SEVERAL_WITHOUT_FLAG = "2 messages of hosts that began the IKE SA lack the Initiator flag: counted as the initiator's"
WITH_FLAG = "a message of the host that answered IKE_SA_INIT has the Initiator flag: counted as the responder's"
INIT = "an IKE_SA_INIT message has both the Initiator and the Response flag, or neither: counted by the latter"
#: The plugin's texts of these.
IN_PLUGIN = {
    WITHOUT_FLAG: "The host that began the IKE SA sent this message without the Initiator flag",
    SEVERAL_WITHOUT_FLAG: "The host that began the IKE SA sent this message without the Initiator flag",
    WITH_FLAG: "The host that answered IKE_SA_INIT sent this message with the Initiator flag",
    INIT: "IKE_SA_INIT with both the Initiator and the Response flag, or neither",
}


def change_flags(message, flags):
    """The same message with these flags inverted."""
    place = 19 + 4 * (4500 in (message.sport, message.dport))
    data = message.datagrams[0]
    return replace(message, datagrams=(data[:place] + bytes([data[place] ^ flags]) + data[place + 1 :],))


def set_up(*changed, flags=ike.INITIATOR, **options):
    """The four messages of a set-up, of which some have other flags."""
    messages = Handshake(1, **options).setup()
    return [change_flags(message, flags) if row in changed else message for row, message in enumerate(messages)]


def forget_the_flag():
    """The responder does not answer: it has no request of the initiator with this message ID."""
    return set_up(2)[:3], "unanswered", (2, 1), None, [(3, WITHOUT_FLAG)]


def forget_the_flag_again():
    handshake = Handshake(1)
    messages = [*handshake.setup(), *handshake.informational()]
    changed = [
        change_flags(message, ike.INITIATOR) if row in (2, 4) else message for row, message in enumerate(messages)
    ]
    return changed, "completed", (2, 2), 43, [(3, SEVERAL_WITHOUT_FLAG)]


def forget_the_flag_on_port_500():
    return set_up(2, switch=False), "completed", (2, 2), 43, [(3, WITHOUT_FLAG)]


def copy_the_flag_into_the_response():
    return set_up(3), "completed", (2, 2), 43, [(4, WITH_FLAG)]


def forget_the_flag_over_ipv6():
    return set_up(2, initiator="2001:db8::1", responder="2001:db8::2"), "completed", (2, 2), 43, [(3, WITHOUT_FLAG)]


def respond_in_the_request():
    """By its flag, IKE_SA_INIT has two responses, and no request."""
    return set_up(0, flags=ike.RESPONSE), "cut", (1, 2), None, [(1, INIT)]


def move_to_another_address():
    """With MOBIKE (RFC 4555), the initiator's new address is known by the flag alone."""
    handshake = Handshake(1)
    before = handshake.setup()
    handshake.initiator = "192.0.2.77"
    return [*before, *handshake.informational()], "completed", (2, 2), 43, []


def begin_two_ike_sas():
    """Both hosts are the initiator of one."""
    other = Handshake(2, initiator="192.0.2.2", responder="192.0.2.1")
    return [*set_up(), *other.setup()], "completed", (2, 2), 43, []


def report_an_esp_packet():
    """INVALID_SPI has the Initiator flag, whoever sends it (RFC 7296, section 1.5)."""
    handshake = Handshake(1)
    messages = handshake.setup()
    notify = handshake.clear(ike.INFORMATIONAL, [ike.notify(11, b"\1\2\3\4", protocol=3)], from_initiator=False)
    return [*messages, change_flags(notify, ike.INITIATOR)], "completed", (2, 2), 43, []


CASES = [
    forget_the_flag,
    forget_the_flag_again,
    forget_the_flag_on_port_500,
    forget_the_flag_over_ipv6,
    copy_the_flag_into_the_response,
    respond_in_the_request,
    move_to_another_address,
    begin_two_ike_sas,
    report_an_esp_packet,
]
each_case = pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)


def make_capture(messages):
    """A message every 5 ms; the capture goes on for a minute."""
    trace = Trace()
    trace.play(messages)
    trace.send(60 * SECOND, b"other traffic", sport=53, dport=53)
    return trace.pcap()


@pytest.mark.usefixtures("implementation")
@each_case
def test_reports_count_by_addresses_and_warn(make):
    messages, outcome, sent, setup, warnings = make()
    analysis = ikeanalyze.read(make_capture(messages))
    row = analysis.handshakes.row(0, named=True)
    assert (row["outcome"], (row["initiator_messages"], row["responder_messages"])) == (outcome, sent)
    assert row["setup_ns"] == (None if setup is None else setup * 1_000_000)
    assert [(warning.frame, warning.message) for warning in analysis.warnings] == [
        (frame, f"{text} (RFC 7296, section 3.1)") for frame, text in warnings
    ]


@each_case
def test_the_plugin_counts_by_addresses_and_has_an_expert_info(make, tshark):
    messages, outcome, sent, setup, warnings = make()
    capture = make_capture(messages)
    lines = run_plugin(tshark, capture, "-q", "-z", "ikex,handshakes").lines
    row = next(line.split() for line in lines if line.split()[:1] == ["1"])
    assert (row[13], (int(row[5]), int(row[8]))) == (outcome, sent)
    assert row[12] == ("-" if setup is None else f"{setup:.3f}")
    found = {text: frame for frame, text in reversed(findings(tshark, capture)) if "(RFC 7296, 3.1)" in text}
    assert found == {f"{IN_PLUGIN[text]} (RFC 7296, 3.1)": frame for frame, text in warnings}
