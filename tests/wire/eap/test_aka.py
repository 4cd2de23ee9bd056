import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.eap.aka import clear_mac, encode_sim_aka, parse_sim_aka, read_attributes


def attribute(kind, value):
    """`value`: behind type and length, a multiple of four with them."""
    return struct.pack(">BB", kind, (2 + len(value)) // 4) + value


def counted(text):
    return struct.pack(">H", len(text)) + text + bytes(-len(text) % 4)


def test_a_challenge_of_eap_aka_is_described_with_its_attributes():
    # RFC 4187, section 9.3
    data = b"\x01\0\0" + attribute(1, bytes(18)) + attribute(2, bytes(18)) + attribute(11, bytes(18))
    read = parse_sim_aka(Cursor(data))
    assert read.describe() == "Challenge (AT_RAND, AT_AUTN, AT_MAC)"
    assert [entry.value_bytes for entry in read.attributes] == [18, 18, 18]


@pytest.mark.parametrize(
    ("data", "text", "value"),
    [
        (b"\x05\0\0" + attribute(14, counted(b"0232010000000000@wlan")), "Identity (AT_IDENTITY)", "0232010000000000@wlan"),
        (b"\x0c\0\0" + attribute(12, b"\x80\0"), "Notification (AT_NOTIFICATION success)", 32768),
        (b"\x0c\0\0" + attribute(12, b"\x40\1"), "Notification (AT_NOTIFICATION 16385)", 16385),
        (b"\x0e\0\0" + attribute(22, b"\0\0"), "Client-Error (AT_CLIENT_ERROR_CODE unable to process packet)", 0),
        (b"\x01\0\0" + attribute(24, b"\0\x01"), "Challenge (AT_KDF 1)", 1),
        (b"\x01\0\0" + attribute(23, counted(b"WLAN")), "Challenge (AT_KDF_INPUT)", "WLAN"),
        (b"\x0a\0\0" + attribute(16, b"\0\x01"), "Start (AT_SELECTED_VERSION 1)", 1),
        (b"\x0b\0\0" + attribute(200, b"\0\x01"), "Challenge (200)", None),
        (b"\x63\0\0", "99", None),
    ],
)  # fmt: skip
def test_attributes_are_decoded_and_described(data, text, value):
    read = parse_sim_aka(Cursor(data))
    assert read.describe() == text
    assert [entry.value for entry in read.attributes] == ([value] if read.attributes else [])


def test_results_are_not_kept():
    result = b"\0\x40RESRESRE"
    read = parse_sim_aka(Cursor(b"\x01\0\0" + attribute(3, result)))
    assert "RESRES" not in repr(read)
    assert [(entry.name, entry.value) for entry in read.attributes] == [("AT_RES", None)]


def test_thousands_are_counted():
    read = parse_sim_aka(Cursor(b"\x01\0\0" + attribute(6, b"\0\0") * 5000))
    assert read.describe().endswith("AT_PADDING, 4988 more)")


@pytest.mark.parametrize(
    "data",
    [b"", b"\x01\0", b"\x01\0\0\x01", b"\x01\0\0\x01\0", b"\x01\0\0\x01\x02ab", b"\x05\0\0\x0e\x01\0\x09"],
)
def test_truncated_attributes_raise(data):
    with pytest.raises(WireError):
        parse_sim_aka(Cursor(data))


@given(st.binary(max_size=60))
def test_random_bytes_give_printable_text_or_a_wire_error(data):
    with suppress(WireError):
        assert parse_sim_aka(Cursor(data)).describe().isprintable()


def test_values_are_read_for_a_peer():
    """RFC 4187, section 8.1: a skippable attribute of an unknown type is kept."""
    data = b"\x01\0\0" + attribute(1, b"\0\0" + b"R" * 16) + attribute(200, b"ab")
    assert read_attributes(data) == (1, {1: b"\0\0" + b"R" * 16, 200: b"ab"})
    with pytest.raises(WireError, match="length of 0"):
        read_attributes(b"\x01\0\0\x01\0")


def test_encoded_attributes_are_padded_to_four_bytes():
    """RFC 4187, section 10.5: AT_IDENTITY has the actual length, then the identity and padding."""
    data = encode_sim_aka(5, [(14, b"\0\x0502321")])
    assert data == b"\x05\0\0" + b"\x0e\x03" + b"\0\x0502321" + bytes(3)


def test_only_the_mac_is_cleared():
    data = b"\x01\0\0" + attribute(1, b"\0\0" + b"R" * 16) + attribute(11, b"\0\0" + b"M" * 16)
    assert clear_mac(data) == data.replace(b"M", b"\0")
