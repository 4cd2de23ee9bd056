"""Diagnoses from ICMP errors: of the kernel's, which were recorded, and of forged, old and short ones."""

from dataclasses import replace

import pytest

from ikeanalyze.analysis.read import read_captures
from tests.analysis.analyse_captures import analyse, only
from tests.analysis.record_icmp import HANDSHAKES
from tests.craft import MS, SECOND, Handshake, Trace, ike, transport, udp_packet
from tests.craft.transport import NON_ESP_MARKER
from tests.paths import DATA

REQUEST, RESPONSE = (message.ike[0] for message in Handshake(1).init())
ROUTER = "198.51.100.7"


def add_error(trace, time, quoted, *, source="192.0.2.2", mtu=None, kept=548, kind=None):
    """An ICMP error about an IP packet, of which it quotes so many bytes; `kind`: other type and code."""
    packet = bytearray(transport.icmp_error(quoted[:kept], source, "192.0.2.1", mtu=mtu))
    packet[20:22] = bytes(kind or packet[20:22])
    [sent] = trace.ip(time, bytes(packet))
    return sent


def send_in_vain(trace, count=3, *, data=REQUEST, port=500, at=0):
    """Send a request several times; return the IP packet of the last one."""
    for number in range(count):
        sent = trace.send(at + number * SECOND, data, sport=port, dport=port)
    trace.ip(at + 20 * SECOND, udp_packet(b"something else", 53, 53))
    return sent[0].data[14:]


def get_codes(trace):
    return [entry["code"] for entry in only(analyse(trace))["diagnosis"] or ()]


@pytest.mark.parametrize("version", [4, 6])
def test_the_errors_of_the_kernel_explain_the_handshakes(tshark, version):
    """The oracle: tshark's reading of type, code, MTU, sender and quoted SPI."""
    path = DATA / f"icmp-ipv{version}.pcap"
    protocol = "icmp" if version == 4 else "icmpv6"
    address = "ip" if version == 4 else "ipv6"
    names = ("isakmp.ispi", "frame.number", f"{address}.src", f"{protocol}.mtu")
    fields = [argument for name in names for argument in ("-e", name)]
    shown = tshark.run("-n", "-Y", f"{protocol} && isakmp", "-T", "fields", *fields, capture=path)
    by_spi = {}
    for line in shown.lines:
        spi, number, source, mtu = line.split("\t")
        by_spi.setdefault(spi, []).append((int(number), source.split(",")[0], mtu))
    handshakes = read_captures(path).handshakes
    assert len(by_spi) >= 5
    for row, code in zip(handshakes.iter_rows(named=True), HANDSHAKES, strict=True):
        assert [entry["code"] for entry in row["diagnosis"] or ()] == ([code] if code else [])
        assert row["outcome"] == ("unanswered" if code else "completed")
        errors = by_spi.get(row["spi_i"])
        if code is None or errors is None:  # tshark reads no message in a quoted IP fragment
            continue
        [entry] = row["diagnosis"]
        first, sender, mtu = errors[0]
        assert f"answered, and {sender} " in entry["message"]
        assert f"{len(errors)} times (first in packet {first})" in entry["message"]
        assert entry["confidence"] == "consistent with"
        assert {number for number, _, _ in errors} <= set(entry["frames"])
        if code == "packet-too-big":
            assert (
                f"about an IP packet of 1,450 bytes: consistent with a path MTU of {int(mtu):,} bytes"
                in entry["message"]
            )


def test_an_error_of_the_destination_is_told_from_that_of_another_host():
    trace = Trace()
    packet = send_in_vain(trace)
    add_error(trace, MS, packet)
    [entry] = only(analyse(trace))["diagnosis"]
    assert '192.0.2.2 (the destination) returned the ICMP error "port unreachable" (packet 2)' in entry["message"]
    assert entry["frames"] == [1, 2, 3, 4]
    add_error(trace, 2 * MS, packet, source=ROUTER)
    [entry] = only(analyse(trace))["diagnosis"]
    assert "(the destination) and 1 other host returned" in entry["message"]


def test_eight_bytes_of_the_datagram_are_enough():
    trace = Trace()
    add_error(trace, MS, send_in_vain(trace), kept=28)
    assert get_codes(trace) == ["port-unreachable"]


@pytest.mark.parametrize("change", ["address", "port", "spi", "message id", "later"])
def test_an_error_about_something_else_is_no_evidence(change):
    trace = Trace()
    packet = send_in_vain(trace)
    time = MS
    match change:
        case "address":
            packet = udp_packet(REQUEST, 500, 500, destination="192.0.2.8")
        case "port":
            packet = udp_packet(REQUEST, 501, 500)
        case "spi":
            packet = udp_packet(bytes(7) + b"\1" + REQUEST[8:], 500, 500)
        case "message id":
            packet = udp_packet(REQUEST[:23] + b"\1" + REQUEST[24:], 500, 500)
        case "later":
            time = 200 * SECOND
    add_error(trace, time, packet)
    assert get_codes(trace) == ["responder-silent"]


def test_an_error_from_before_the_request_is_no_evidence():
    trace = Trace()
    packet = send_in_vain(trace, at=SECOND)
    add_error(trace, 0, packet)
    assert get_codes(trace) == ["responder-silent"]


def test_without_spi_an_error_is_about_the_latest_datagram_of_its_ports():
    trace = Trace()
    other = Handshake(2).init()[0].ike[0]
    packet = send_in_vain(trace)
    send_in_vain(trace, data=other, at=10 * SECOND)
    add_error(trace, 12 * SECOND + MS, packet, kept=28)
    codes = [[entry["code"] for entry in entries] for entries in analyse(trace).handshakes["diagnosis"]]
    assert codes == [["responder-silent"], ["port-unreachable"]]


def test_where_a_response_came_an_error_changes_nothing():
    trace = Trace()
    trace.play(Handshake(1).setup())
    expected = only(analyse(trace))
    request = trace.packets[0].data[14:]
    add_error(trace, MS // 2, request)
    row = only(analyse(trace))
    for name in ("outcome", "reason", "setup_ns", "diagnosis", "retransmitted_messages"):
        assert row[name] == expected[name], name


def test_an_error_about_the_first_exchange_does_not_explain_a_later_one():
    trace = Trace()
    trace.play(Handshake(1).init())
    add_error(trace, MS // 2, trace.packets[0].data[14:])
    data = ike.encrypted(Handshake(1).spi_i, Handshake(1).spi_r, ike.IKE_AUTH, ike.INITIATOR, 1, ike.ID_I, bytes(200))
    send_in_vain(trace, data=NON_ESP_MARKER + data, port=4500, at=SECOND)
    assert "port-unreachable" not in get_codes(trace)


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        ((3, 2), "port-unreachable", "protocol unreachable"),
        ((3, 0), "host-unreachable", "network unreachable"),
        ((3, 200), "host-unreachable", "type 3, code 200"),
        ((3, 10), "admin-prohibited", "host administratively prohibited"),
        ((11, 0), "host-unreachable", "time to live exceeded in transit"),
        ((11, 1), "reassembly-timeout", "fragment reassembly time exceeded"),
    ],
)
def test_types_and_codes(kind, code, words):
    trace = Trace()
    add_error(trace, MS, send_in_vain(trace), kind=kind)
    [entry] = only(analyse(trace))["diagnosis"]
    assert (entry["code"], f'"{words}"' in entry["message"]) == (code, True)


def test_the_most_frequent_problem_counts():
    trace = Trace()
    packet = send_in_vain(trace)
    add_error(trace, MS, packet)
    for number in (1, 2):
        add_error(trace, number * SECOND + MS, packet, source=ROUTER, kind=(3, 1))
    [entry] = only(analyse(trace))["diagnosis"]
    assert entry["code"] == "host-unreachable"
    assert f'{ROUTER} returned the ICMP error "host unreachable" 2 times' in entry["message"]


def test_copies_of_a_mirror_port_count_once():
    trace = Trace()
    sent = add_error(trace, MS, send_in_vain(trace))
    packets = sorted([*trace.packets, replace(sent, time_ns=sent.time_ns + 20_000)], key=lambda packet: packet.time_ns)
    [[entry]] = read_captures_of(packets)["diagnosis"].to_list()
    assert 'returned the ICMP error "port unreachable" (packet 2)' in entry["message"]


def read_captures_of(packets):
    from tests.analysis.analyse_captures import unsorted

    return analyse(unsorted(packets)).handshakes


def test_an_old_router_does_not_name_the_mtu():
    trace = Trace()
    add_error(trace, MS, send_in_vain(trace), source=ROUTER, mtu=0)
    [entry] = only(analyse(trace))["diagnosis"]
    assert entry["code"] == "packet-too-big"
    assert "consistent with a smaller path MTU (the error does not name it), which" in entry["message"]


def test_ip_fragments_after_a_too_large_packet_are_another_problem():
    """A host that has learned the path MTU sends IP fragments, which RFC 8900 describes the fate of."""
    trace = Trace(mtu=576)
    for number in range(3):
        trace.send(number * SECOND, REQUEST + bytes(800))
    packet = udp_packet(REQUEST + bytes(800), 500, 500)
    add_error(trace, MS, packet, source=ROUTER, mtu=576)
    trace.ip(20 * SECOND, udp_packet(b"something else", 53, 53))
    assert get_codes(trace) == ["path-drops-fragments"]


def test_a_response_that_is_too_large():
    """The capture is of the responder, whose response a router rejects."""
    sa, trace = Handshake(1), Trace()
    trace.play(sa.init())
    data = ike.encrypted(sa.spi_i, sa.spi_r, ike.IKE_AUTH, ike.INITIATOR, 1, ike.ID_I, bytes(200))
    large = ike.encrypted(sa.spi_i, sa.spi_r, ike.IKE_AUTH, ike.RESPONSE, 1, ike.ID_R, bytes(1300))
    for number in range(4):
        at = (1 + 4 * number) * SECOND
        trace.send(at, NON_ESP_MARKER + data, sport=4500, dport=4500)
        [sent] = trace.send(at + MS, NON_ESP_MARKER + large, sport=4500, dport=4500, from_initiator=False)
        packet = transport.icmp_error(sent.data[14:], ROUTER, "192.0.2.2", mtu=1280)
        trace.ip(at + 2 * MS, packet)
    trace.ip(40 * SECOND, udp_packet(b"something else", 53, 53))
    [entry] = only(analyse(trace))["diagnosis"]
    assert (entry["code"], entry["kind"], entry["sender"]) == ("packet-too-big", "response", "responder")
    assert f'{ROUTER} returned the ICMP error "fragmentation needed" 4 times (first in packet 5)' in entry["message"]
    assert "a path MTU of 1,280 bytes, which the responder's packets exceed" in entry["message"]


def test_captures_that_are_read_together_keep_their_errors(tmp_path):
    """Two captures of the same hosts and SPIs, of which only one has an error; with IPv6 in other orders."""
    paths = []
    for name, ends in (("one", ("2001:db8::1", "2001:db8::2")), ("two", ("2001:db8::2", "2001:db8::1"))):
        trace = Trace(initiator=ends[0], responder=ends[1])
        for number in range(3):
            [sent] = trace.send(number * SECOND, REQUEST)
        trace.send(20 * SECOND, b"something else", sport=53, dport=53)
        if name == "two":
            trace.ip(MS, transport.icmp_error(sent.data[14:], ends[1], ends[0]))
        paths.append(trace.write(tmp_path / f"{name}.pcap"))
    first, second = read_captures(paths).handshakes["diagnosis"].to_list()
    assert [first[0]["code"], second[0]["code"]] == ["responder-silent", "port-unreachable"]
    assert "2001:db8::1 (the destination) returned" in second[0]["message"]


def lose_peer(trace, count=4, *, nat=False, by_initiator=True, size=8):
    """Set up an IKE SA, and repeat a liveness check in vain a minute later; return the IP packets of the check."""
    sa = Handshake(1, nat=nat)
    trace.play(sa.setup())
    check = sa.informational(by_initiator=by_initiator, size=size)[0]
    return [trace.message(60 * SECOND + number * 4 * SECOND, check)[0].data[14:] for number in range(count)]


@pytest.mark.parametrize(
    ("kind", "mtu", "size", "code"),
    [
        ((3, 3), None, 8, "port-unreachable"),
        ((3, 1), None, 8, "host-unreachable"),
        ((11, 0), None, 8, "host-unreachable"),
        ((3, 13), None, 8, "admin-prohibited"),
        ((3, 4), 1200, 1300, "packet-too-big"),
        ((11, 1), None, 8, "peer-lost"),  # of packets that are no IP fragments, it tells nothing
    ],
)
def test_errors_about_a_request_after_the_set_up_tell_why_the_peer_is_lost(kind, mtu, size, code):
    trace = Trace()
    packets = lose_peer(trace, size=size)
    for number, packet in enumerate(packets[:3]):
        add_error(trace, 60 * SECOND + number * 4 * SECOND + MS, packet, source=ROUTER, kind=kind, mtu=mtu)
    row = only(analyse(trace))
    [entry] = row["diagnosis"]
    assert (row["outcome"], entry["code"], entry["effect"]) == ("completed", code, "disconnected")
    assert (entry["exchange"], entry["kind"], entry["sender"]) == ("INFORMATIONAL", "request", "initiator")
    if code == "peer-lost":
        assert (entry["confidence"], entry["frames"]) == ("certain", [5, 7, 9, 11])
        return
    assert entry["confidence"] == "consistent with"
    assert entry["frames"] == [5, 6, 7, 8, 9, 10, 11]
    assert f"was sent 4 times in 12.0 s and never answered, and {ROUTER} returned the ICMP error" in entry["message"]
    assert ("a path MTU of 1,200 bytes" in entry["message"]) == (mtu is not None)


def test_an_error_about_a_request_after_the_set_up_that_was_answered_changes_nothing():
    trace = Trace()
    sa = Handshake(1)
    trace.play(sa.setup())
    check = sa.informational()
    sent = [trace.message(60 * SECOND + number * 4 * SECOND, check[0])[0].data[14:] for number in range(3)]
    add_error(trace, 60 * SECOND + MS, sent[0], kind=(3, 1))
    trace.message(69 * SECOND, check[1])
    assert get_codes(trace) == []


def test_an_error_about_the_set_up_does_not_explain_a_request_after_it():
    trace = Trace()
    lose_peer(trace)
    add_error(trace, MS // 2, trace.packets[0].data[14:])
    assert get_codes(trace) == ["peer-lost"]


def test_a_nat_that_forgot_the_connection_is_likelier_than_a_daemon_that_stopped():
    """It may answer with port unreachable itself: the initiator behind it had sent nothing for a minute."""
    trace = Trace()
    packets = lose_peer(trace, nat=True, by_initiator=False)
    add_error(trace, 60 * SECOND + MS, packets[0], source="192.0.2.1")
    assert get_codes(trace) == ["nat-keepalive-missing"]
