"""ICMP errors about IKE: recorded ones as tshark reads them, and those that quote little."""

import struct

import pytest

from ikeanalyze.capture.frames import read_frames
from tests.capture.laws import read_packets
from tests.craft import Handshake, ip, ipv4, link, transport, udp_packet
from tests.craft.transport import NON_ESP_MARKER
from tests.paths import DATA

REQUEST = Handshake(1).init()[0].ike[0]
SPI = int.from_bytes(REQUEST[:8], "big")
ADDRESSES = {4: ("192.0.2.1", "192.0.2.2", "192.0.2.9"), 6: ("2001:db8::1", "2001:db8::2", "2001:db8::9")}


def quote(packet: bytes, version: int = 4, mtu: int | None = None) -> bytes:
    """A frame with an ICMP error of a router about an IP packet."""
    initiator, _, router = ADDRESSES[version]
    return link.ethernet(transport.icmp_error(packet, router, initiator, mtu=mtu))


def make_packet(payload: bytes, port: int = 500, version: int = 4) -> bytes:
    initiator, responder, _ = ADDRESSES[version]
    return udp_packet(payload, port, port, initiator, responder)


def read(*frames: bytes, ports=()):
    capture = read_packets(*frames, ports=ports)
    assert capture.accounting["icmp"] == capture.packets == len(frames)
    return {name: column.tolist() for name, column in capture.icmp_errors.items()}


@pytest.mark.parametrize("version", [4, 6])
def test_recorded_errors_are_those_that_tshark_reads(tshark, version):
    path = DATA / f"icmp-ipv{version}.pcap"
    icmp, address = ("icmp", "ip") if version == 4 else ("icmpv6", "ipv6")
    names = (
        "frame.number", f"{icmp}.type", f"{icmp}.code", f"{icmp}.mtu", f"{address}.src", f"{address}.dst",
        "udp.srcport", "udp.dstport", "isakmp.ispi", "isakmp.messageid", "ip.len", "ipv6.plen",
    )  # fmt: skip
    fields = [argument for name in names for argument in ("-e", name)]
    shown = tshark.run("-n", "-Y", f"{icmp} && udp.port in {{500, 4500}}", "-T", "fields", *fields, capture=path)
    capture = read_frames(str(path))
    errors = capture.icmp_errors
    ours = [
        [
            str(number), str(kind), str(code), str(mtu or ""), f"{capture.address(sender)},{capture.address(source)}",
            capture.address(destination), str(source_port), str(destination_port), size,
        ]
        for number, kind, code, mtu, sender, source, destination, source_port, destination_port, size in zip(
            *(
                errors[name].tolist()
                for name in ("number", "type", "code", "mtu", "sender", "source", "destination", "source_port",
                             "destination_port", "size")
            ),
            strict=True,
        )
    ]  # fmt: skip
    theirs = []
    for line in shown.lines:
        number, kind, code, mtu, sources, destinations, sport, dport, spi, message_id, length, payload = line.split(
            "\t"
        )
        size = int(length.split(",")[-1]) if version == 4 else int(payload.split(",")[-1]) + 40
        mtu = "" if mtu == "0" else mtu
        theirs.append([number, kind, code, mtu, sources, destinations.split(",")[-1], sport, dport, size])
        # of a quote in IP fragments, tshark reads no message
        if spi:
            place = errors["number"].tolist().index(int(number))
            assert int(errors["spi_i"][place]) == int(spi, 16)
            assert int(errors["message_id"][place]) == int(message_id, 16)
    reassembly = [row for row in ours if row[1:3] in (["11", "1"], ["3", "1"]) and row[0] in ("30", "31", "32")]
    assert len(reassembly) == 3
    assert [row for row in ours if row not in reassembly] == [row for row in theirs if row[0] not in ("30", "31", "32")]
    assert len(theirs) >= 12


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(("port", "marker"), [(500, b""), (4500, NON_ESP_MARKER)])
def test_as_much_is_read_as_is_quoted(version, port, marker):
    """RFC 792 quotes 8 bytes of the payload at least: the UDP header."""
    packet = make_packet(marker + REQUEST, port, version)
    header = len(packet) - len(marker + REQUEST)
    frames = [quote(packet[:size], version) for size in range(header - 8, header + 40)]
    errors = read(*frames)
    assert errors["number"] == [*range(9, 49)]
    quoted = [max(0, size - len(marker)) for size in range(40)]
    assert errors["spi_i"] == [SPI if size >= 8 else 0 for size in quoted]
    assert errors["message_id"] == [0 if size >= 24 else -1 for size in quoted]
    assert set(errors["source_port"]) == set(errors["destination_port"]) == {port}
    assert set(errors["size"]) == {len(packet)}


def test_the_mtu_of_ipv6_has_32_bits():
    errors = read(
        quote(make_packet(REQUEST), mtu=1400),
        quote(make_packet(REQUEST), mtu=0),
        quote(make_packet(REQUEST, version=6), 6, mtu=70_000),
        quote(make_packet(REQUEST)),
    )
    assert (errors["mtu"], errors["ipv6"]) == ([1400, 0, 70_000, 0], [False, False, True, False])


def test_errors_about_other_packets_are_left_out():
    fragment = ip.ip_fragments(make_packet(REQUEST), 200, 7)[1]
    assert read(
        quote(make_packet(transport.esp(1, 1, bytes(90)), 4500)),
        quote(make_packet(b"\xff", 4500)),
        quote(make_packet(REQUEST, 53)),
        quote(fragment),
        quote(ipv4(bytes(40), protocol=ip.TCP)),
        link.ethernet(ipv4(struct.pack(">BBHI", 8, 0, 0, 0) + make_packet(REQUEST), protocol=ip.ICMP)),
    )["number"] == []  # fmt: skip


def test_quotes_of_first_fragments_are_read():
    first4 = ip.ip_fragments(make_packet(REQUEST), 200, 7)[0]
    first6 = ip.ip_fragments(make_packet(REQUEST, version=6), 200, 7)[0]
    assert read(quote(first4), quote(first6, 6))["spi_i"] == [SPI, SPI]


def test_a_further_port_has_messages_with_and_without_marker():
    frames = [quote(make_packet(data, 7500)) for data in (REQUEST, NON_ESP_MARKER + REQUEST)]
    assert read(*frames)["number"] == []
    assert read(*frames, ports=[7500])["spi_i"] == [SPI, SPI]


def test_damaged_quotes_are_no_errors_about_ike():
    whole = quote(make_packet(REQUEST))
    for size in range(14 + 20, 14 + 20 + 8 + 28):
        capture = read_packets(whole[:size])
        assert capture.icmp_errors["number"].tolist() == []
    packet = bytearray(make_packet(REQUEST))
    packet[0] = 0x4F  # the header has 60 bytes, and what follows is the datagram's content
    assert read(quote(bytes(packet)))["number"] == []
