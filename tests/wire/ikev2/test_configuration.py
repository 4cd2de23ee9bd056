import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.ikev2 import ConfigurationAttribute, IKEv2_CP

from ikeanalyze.wire.ikev2.configuration import parse_configuration
from tests.craft import ike
from tests.wire.dissected import clear, dissected


def entry(kind, data=b""):
    return struct.pack(">HH", kind, len(data)) + data


def payload(kind, *entries):
    return bytes([kind, 0, 0, 0]) + b"".join(entries)


@pytest.mark.parametrize(
    ("kind", "data", "name", "value"),
    [
        (1, b"\x0a\0\0\x05", "INTERNAL_IP4_ADDRESS", "10.0.0.5"),
        (1, b"", "INTERNAL_IP4_ADDRESS", None),
        (1, b"\x0a", "INTERNAL_IP4_ADDRESS", None),
        (2, b"\xff\xff\0\0", "INTERNAL_IP4_NETMASK", "255.255.0.0"),
        (7, b"strongSwan \x1b", "APPLICATION_VERSION", "strongSwan \\x1b"),
        (8, bytes(15) + b"\x01\x40", "INTERNAL_IP6_ADDRESS", "::1/64"),
        (8, bytes(16), "INTERNAL_IP6_ADDRESS", None),
        (10, bytes(15) + b"\x02", "INTERNAL_IP6_DNS", "::2"),
        (13, b"\x0a\x01\0\0\xff\xff\0\0", "INTERNAL_IP4_SUBNET", "10.1.0.0/16"),
        (14, b"\0\x01\0\x03", "SUPPORTED_ATTRIBUTES", "INTERNAL_IP4_ADDRESS+INTERNAL_IP4_DNS"),
        (15, bytes(16) + b"\0", "INTERNAL_IP6_SUBNET", "::/0"),
        (21, bytes(15) + b"\x03", "P_CSCF_IP6_ADDRESS", "::3"),
        (24, b"\0\0\0\x3c", "TIMEOUT_PERIOD_FOR_LIVENESS_CHECK", "60 s"),
        (25, b"corp.example", "INTERNAL_DNS_DOMAIN", "corp.example"),
        (26, b"\xab", "INTERNAL_DNSSEC_TA", "ab"),
        (28672, b"\xab", "28672", "ab"),
        (0x8001, b"\x0a\0\0\x05", "INTERNAL_IP4_ADDRESS", "10.0.0.5"),  # the reserved bit means nothing
    ],
)
def test_attributes_are_decoded(kind, data, name, value):
    read = parse_configuration(payload(2, entry(kind, data)))
    (result,) = read.entries
    assert (read.name, read.error, result.name, result.value) == ("REPLY", None, name, value)
    assert result.fits == (value is not None or not data)


@pytest.mark.parametrize(("kind", "name"), [(1, "REQUEST"), (2, "REPLY"), (3, "SET"), (4, "ACK"), (9, "9")])
def test_configuration_types_have_names(kind, name):
    assert parse_configuration(payload(kind)).name == name


def test_payloads_built_by_scapy_are_decoded():
    attributes = [
        ConfigurationAttribute(type="INTERNAL_IP4_ADDRESS", length=4, value="192.0.2.7"),
        ConfigurationAttribute(type="INTERNAL_IP4_DNS", length=0),
    ]
    read = parse_configuration(bytes(IKEv2_CP(CFGType="CFG_REQUEST", attributes=attributes))[4:])
    entries = [(item.name, item.value) for item in read.entries]
    assert (read.name, entries) == (
        "REQUEST",
        [("INTERNAL_IP4_ADDRESS", "192.0.2.7"), ("INTERNAL_IP4_DNS", None)],
    )


@pytest.mark.tshark
def test_attributes_are_decoded_as_by_tshark():
    body = payload(
        2,
        entry(1, b"\xc6\x33\x64\x01"),
        entry(2, b"\xff\xff\xff\0"),
        entry(3, b"\xc6\x33\x64\x35"),
        entry(7, b"version 1"),
    )
    names = ("internal_ip4_address", "internal_ip4_netmask", "internal_ip4_dns", "application_version")
    (row,) = dissected([clear([(ike.CONFIGURATION, body)])], *(f"isakmp.cfg.attr.{name}" for name in names))
    assert [*row.values()] == [[item.value] for item in parse_configuration(body).entries]


def test_truncated_payloads_have_an_error():
    body = payload(2, entry(1, b"\x0a\0\0\x05"), entry(3))
    for size in range(len(body)):
        read = parse_configuration(body[:size])
        assert (read.error is None) == (size in (4, 12))
        assert len(read.entries) == (size >= 12)


@given(st.binary(max_size=80))
def test_random_bytes_give_printable_values(data):
    for result in parse_configuration(data).entries:
        assert result.value is None or result.value.isprintable()
