import pytest

from tests.capture.laws import counted, read_packets, rows
from tests.craft import Handshake, link, udp_packet
from tests.craft.tunnel import ALL

MESSAGE = Handshake(1).init()[0].datagrams[0]
V4 = udp_packet(MESSAGE, 500, 501)
V6 = udp_packet(MESSAGE, 500, 501, "2001:db8::1", "2001:db8::2")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("packet", [V4, V6], ids=["ipv4", "ipv6"])
def test_ike_is_read_in_every_encapsulation(name: str, packet: bytes) -> None:
    encapsulation = ALL[name]
    frame = encapsulation.wrap(link.ethernet(packet))
    capture = read_packets(frame, frame, linktype=encapsulation.linktype)
    assert capture.warnings == []
    assert counted(capture) == {"ike": 2}
    ends = (500, 501, len(frame), 34)
    assert rows(capture, "source_port", "destination_port", "bytes", "exchange_type") == [ends, ends]
    addresses = ("192.0.2.1", "192.0.2.2") if packet is V4 else ("2001:db8::1", "2001:db8::2")
    assert tuple(map(capture.address, rows(capture, "source", "destination")[1])) == addresses
    assert [capture.clear[datagram] for (datagram,) in rows(capture, "datagram")] == [MESSAGE, MESSAGE]
