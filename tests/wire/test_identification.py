from ipaddress import IPv4Address, IPv4Network, IPv6Network

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.identification import format_identity, format_subnet
from tests.craft import ike
from tests.wire.dissected import clear, dissected

DN = x509.Name([x509.NameAttribute(NameOID.COUNTRY_NAME, "CH"), x509.NameAttribute(NameOID.COMMON_NAME, "gw")])


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (1, b"\xc0\x00\x02\x01", "192.0.2.1"),
        (1, b"\xc0\x00\x02", None),
        (2, b"gw.example", "gw.example"),
        (2, b"gw\x1b[2J", "gw\\x1b[2J"),
        (3, b"a@b.example", "a@b.example"),
        (4, b"\x0a\0\0\0\xff\0\0\0", "10.0.0.0/8"),
        (4, b"\x0a\0\0\0\xff\0\xff\0", "10.0.0.0/255.0.255.0"),
        (4, b"\x0a\0\0\0", None),
        (5, b"\x20\x01\x0d\xb8" + bytes(11) + b"\x01", "2001:db8::1"),
        (6, b"\x20\x01\x0d\xb8" + bytes(12) + b"\xff" * 4 + bytes(12), "2001:db8::/32"),
        (7, b"\x0a\0\0\x01\x0a\0\0\x09", "10.0.0.1-10.0.0.9"),
        (8, bytes(15) + b"\x01" + bytes(15) + b"\x02", "::1-::2"),
        (9, DN.public_bytes(), "CN=gw,C=CH"),
        (9, b"gw", None),
        (10, b"\x82\x02gw", "gw"),
        (10, b"", None),
        (11, b"\x00\xff", "00ff"),
        (12, bytes(range(8)), "00:01:02:03:04:05:06:07"),
        (13, b"", "NULL"),
        (13, b"x", None),
        (201, b"\xab", "ab"),
    ],
)
def test_identities_are_formatted(kind, data, text):
    assert format_identity(kind, data) == text


@pytest.mark.tshark
def test_identities_are_formatted_as_by_tshark():
    identities = [
        (1, b"\xc6\x33\x64\x07", "ipv4_addr"),
        (2, b"vpn.example.org", "fqdn"),
        (3, b"user@example.org", "user_fqdn"),
        (5, b"\x20\x01\x0d\xb8" + bytes(11) + b"\x2a", "ipv6_addr"),
    ]
    fields = [f"isakmp.id.data.{name}" for _, _, name in identities]
    messages = [clear([ike.identification(ike.ID_I, data, kind)]) for kind, data, _ in identities]
    for (kind, data, _), field, row in zip(identities, fields, dissected(messages, *fields), strict=True):
        assert row[field] == [format_identity(kind, data)]


@given(st.integers(0, 32))
def test_a_netmask_is_shown_as_the_length_of_the_prefix(bits):
    v4, v6 = IPv4Network((0, bits)), IPv6Network((0, 4 * bits))
    assert format_subnet(v4.network_address.packed, v4.netmask.packed) == str(v4)
    assert format_subnet(v6.network_address.packed, v6.netmask.packed) == str(v6)


@given(st.lists(st.sampled_from([0, 1, 0x80, 0xF0, 0xFF]), min_size=4, max_size=4).map(bytes))
def test_netmasks_that_are_not_prefixes_are_shown_as_addresses(mask):
    binary = "".join(f"{byte:08b}" for byte in mask)
    expected = IPv4Address(mask) if "01" in binary else binary.count("1")
    assert format_subnet(bytes([10, 0, 0, 0]), mask) == f"10.0.0.0/{expected}"


@given(st.integers(0, 255), st.binary(max_size=40))
def test_random_bytes_give_printable_text(kind, data):
    text = format_identity(kind, data)
    assert text is None or text.isprintable()
