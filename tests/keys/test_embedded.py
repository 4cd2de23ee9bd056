"""Keys in a decryption secrets block of pcapng, whose blocks are made by hand."""

import io
import struct

import pytest

from ikeanalyze.keys.embedded import find_embedded_keys
from tests.craft import Interface, Packet
from tests.craft.pcapng_file import block, interface_description, packet_block, section_header

KEYS = b'{"schema": "ikeanalyze.keys/1"}'


def secrets(kind, data, order):
    return block(10, struct.pack(f"{order}II", kind, len(data)) + data + bytes(-len(data) % 4), order)


def packet(order):
    return packet_block(Packet(1, b"frame"), Interface(), byteorder=order)


@pytest.mark.parametrize("order", ["<", ">"])
def test_keys_before_the_first_packet(order):
    start = section_header(order) + interface_description(Interface(), order)
    other = secrets(0x544C534B, b"CLIENT_RANDOM", order)  # of TLS
    ours = secrets(0x494B454B, KEYS, order)
    assert find_embedded_keys(io.BytesIO(start + other + ours + packet(order))) == KEYS
    assert find_embedded_keys(io.BytesIO(start + other + packet(order) + ours)) is None
    assert find_embedded_keys(io.BytesIO(start + other)) is None


def test_damaged_files_have_no_keys():
    data = section_header() + secrets(0x494B454B, KEYS, "<")
    for size in range(len(data)):
        assert find_embedded_keys(io.BytesIO(data[:size])) is None
    assert find_embedded_keys(io.BytesIO(section_header() + struct.pack("<II", 10, 1 << 31) + bytes(100))) is None
