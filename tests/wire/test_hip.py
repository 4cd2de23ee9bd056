import struct

from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.hip import read_hip

SPI_I, SPI_R = bytes(range(16)), bytes(range(16, 32))


def packet(*parameters):
    body = b""
    for kind, content in parameters:
        body += struct.pack(">HH", kind, len(content)) + content
        body += bytes(-len(body) % 8)
    return struct.pack(">BBBBHH", 59, (40 + len(body)) // 8 - 1, 2, 0x21, 0xABCD, 1) + SPI_I + SPI_R + body


def test_fields():
    data = packet((257, bytes(12)), (513, bytes(99)), (64000, b""))
    view = read_hip(data)
    assert view is not None
    assert (view.next_header, view.packet_type, view.version, view.checksum, view.controls) == (
        59,
        2,
        2,
        0xABCD,
        1,
    )
    assert (view.sender_hit, view.receiver_hit) == (SPI_I, SPI_R)
    assert view.parameters == ((257, 12), (513, 99), (64000, 0))
    assert view.length == len(data)
    assert view.error is None


def test_cut_anywhere():
    data = packet((257, bytes(12)), (513, bytes(99)))
    for size in range(len(data)):
        view = read_hip(data[:size])
        assert (view is None) == (size < 40)
        assert view is None or view.error is not None


@given(st.binary(max_size=100))
def test_any_bytes(data):
    read_hip(data)
    read_hip(packet()[:40] + data)
