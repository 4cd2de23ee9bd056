"""Python, the compiled core and the plugin name messages that end before their datagram (RFC 7296, section 3.1)."""

from dataclasses import replace

import pytest

import ikeanalyze
from tests.craft import MS, Handshake, Trace
from tests.craft.transport import TCP_PREFIX, tcp_framed, tcp_packet
from tests.dissectors.run_plugin import findings

SURPLUS = bytes(7)
IN_PLUGIN = "7 bytes follow the message, which ends by its length field (RFC 7296, 3.1)"


def in_udp(row, **options):
    """A set-up in which the message in this row has bytes behind it, and the warning."""
    trace = Trace(**options)
    messages = Handshake(1).setup()
    length = len(messages[row].ike[0])
    (datagram,) = messages[row].datagrams
    messages[row] = replace(messages[row], datagrams=(datagram + SURPLUS,))
    trace.play(messages)
    text = f"IKE length field is {length}, but the datagram has {length + 7} bytes: those after the message are ignored"
    return trace, text


def in_an_unanswered_request_of_a_known_spi():
    """The plugin decides at the end of the capture to which IKE SA the last message belongs."""
    handshake, trace = Handshake(1), Trace()
    request = handshake.setup()[0]
    trace.play(handshake.informational())
    (datagram,) = request.datagrams
    trace.message(100 * MS, replace(request, datagrams=(datagram + SURPLUS,)))
    return trace


def in_tcp():
    trace, sequence = Trace(), 1
    request, _, auth, _ = (message.ike[0] for message in Handshake(1).setup())
    for time, part in enumerate((TCP_PREFIX + tcp_framed(request), tcp_framed(auth + SURPLUS))):
        trace.ip(time * MS, tcp_packet(part, 40000, 4500, sequence))
        sequence += len(part)
    size = len(auth)
    text = f"IKE length field is {size}, but the message in the TCP stream has {size + 7} bytes: those after it are ignored"
    return trace, text


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("row", range(4))
def test_a_warning_names_the_packet_which_counts_with_all_bytes(row):
    trace, text = in_udp(row)
    analysis = ikeanalyze.read(trace.pcap())
    assert [(warning.frame, warning.message) for warning in analysis.warnings] == [(row + 1, text)]
    assert analysis.handshakes["outcome"].to_list() == ["completed"]
    assert analysis.frames["bytes"].to_list() == [len(packet.data) for packet in trace.packets]
    assert analysis.captures[0].accounting["ike"] == 4


@pytest.mark.usefixtures("implementation")
def test_a_message_in_ip_fragments_has_the_warning():
    trace, text = in_udp(0, mtu=200)
    assert [(warning.frame, warning.message) for warning in ikeanalyze.read(trace.pcap()).warnings] == [(1, text)]


@pytest.mark.usefixtures("implementation")
def test_a_message_in_tcp_has_the_warning():
    trace, text = in_tcp()
    analysis = ikeanalyze.read(trace.pcap())
    assert [(warning.frame, warning.message) for warning in analysis.warnings] == [(2, text)]
    assert analysis.frames["handshake"].to_list() == [1, 1]


@pytest.mark.parametrize("row", range(4))
def test_the_plugin_has_an_expert_info(row, tshark):
    texts = [(frame, text) for frame, text in findings(tshark, in_udp(row)[0].pcap()) if text == IN_PLUGIN]
    assert texts == [(row + 1, IN_PLUGIN)]


def test_the_plugin_has_an_expert_info_in_a_message_whose_ike_sa_is_decided_later(tshark):
    found = findings(tshark, in_an_unanswered_request_of_a_known_spi().pcap())
    assert (3, IN_PLUGIN) in found


def test_the_plugin_has_an_expert_info_in_tcp_and_in_ip_fragments(tshark):
    assert (2, IN_PLUGIN) in findings(tshark, in_tcp()[0].pcap())
    found = findings(tshark, in_udp(0, mtu=200)[0].pcap())
    assert [text for _, text in found].count(IN_PLUGIN) == 1
