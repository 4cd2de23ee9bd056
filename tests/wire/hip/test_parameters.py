import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.hip.parameters import (
    DiffieHellman,
    EspInfo,
    HipAddresses,
    HipAlgorithmList,
    HipCertificate,
    HipNotification,
    HipNumber,
    HipSignature,
    HipSolution,
    HostId,
    Locator,
    Locators,
    UnparsedParameter,
    describe_value,
    parse_parameter,
)
from ikeanalyze.wire.registries.hip_parameters import HipParameterType
from tests.craft import hip

RELAYED = struct.pack(">HBx", 10500, 17) + bytes(10) + b"\xff\xff\xc0\0\2\1"

#: Layouts by hand from the figures of RFC 7401, 7402, 8002 to 8004, 8046 and 5770.
CASES = [
    (65, bytes.fromhex("0000 0010 00000001 c0ffee00"), EspInfo(16, 1, 0xC0FFEE00), "00000001 to c0ffee00"),
    (65, bytes.fromhex("0000 0000 00000000 c0ffee00"), EspInfo(0, 0, 0xC0FFEE00), "c0ffee00"),
    (129, bytes.fromhex("00000000 0000000000000102"), HipNumber(258), "258"),
    (385, bytes.fromhex("00000009"), HipNumber(9), "9"),
    (321, bytes.fromhex("0a00 beef 0102 0304"), HipSolution(10, b"\xbe\xef", b"\1\2", b"\3\4"), "K 10"),
    (449, bytes.fromhex("00000001 00000002"), HipAlgorithmList((1, 2), ("1", "2")), "1, 2"),
    (511, b"\7\4\x63", HipAlgorithmList((7, 4, 99), ("ECP-256", "MODP-3072", "99")), "ECP-256, MODP-3072, 99"),
    (513, b"\7\0\2ab" + b"later", DiffieHellman(7, b"ab"), "ECP-256"),
    (579, b"\0\4\0\2", HipAlgorithmList((4, 2), ("AES-CBC-256", "AES-CBC-128")), "AES-CBC-256, AES-CBC-128"),
    (608, b"\0\0\0\1", HipAlgorithmList((1,), ("UDP-ENCAPSULATION",)), "UDP-ENCAPSULATION"),
    (715, b"\x10\x30", HipAlgorithmList((1, 3), ("RSA,DSA/SHA-256", "ECDSA_LOW/SHA-1")), "RSA,DSA/SHA-256, ECDSA_LOW/SHA-1"),
    (2049, b"\x0f\xff", HipAlgorithmList((4095,), ("ESP_TRANSFORM",)), "ESP_TRANSFORM"),
    (4095, b"\0\0\0\x0d", HipAlgorithmList((13,), ("AES-GCM-16",)), "AES-GCM-16"),
    (705, bytes.fromhex("0004 2005 0005") + b"keyz" + b"a@b.c", HostId(5, b"keyz", None, "a@b.c"), "RSA, a@b.c"),
    (705, bytes.fromhex("0004 0000 0007 0001") + b"xy", HostId(7, b"\0\1xy", "P-256", None), "ECDSA P-256"),
    (832, bytes.fromhex("0000 0028") + b"hit", HipNotification(40, 3), "INVALID_HIT"),
    (61697, b"\0\7sign", HipSignature(7, b"sign"), "ECDSA"),
    (768, b"\1\2\1\1DER", HipCertificate(1, 2, 1, 1, b"DER"), "1/2"),
    (930, b"\1\xff\1\2", HipAlgorithmList((1, 2), ("RENDEZVOUS", "RELAY_UDP_HIP")), "RENDEZVOUS, RELAY_UDP_HIP"),
    (932, b"\xff\x09", HipAlgorithmList((9,), ("9",)), "9"),
    (950, RELAYED, HipAddresses(("192.0.2.1",), 10500, 17), "192.0.2.1 port 10500"),
    (65502, bytes.fromhex("20010db8") + bytes(11) + b"\1", HipAddresses(("2001:db8::1",), None, None), "2001:db8::1"),
    (61505, b"mac", UnparsedParameter(3), ""),
    (4242, b"", UnparsedParameter(0), ""),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "content", "value", "text"), CASES)
def test_parameters_are_decoded_and_described(kind, content, value, text):
    assert parse_parameter(kind, content, 2) == value
    assert describe_value(value) == text


def test_locators_of_all_types_are_decoded():
    kind, content = hip.locators("192.0.2.9", "2001:db8::9")
    # type 2 of RFC 5770, section 5.7: port, protocol, kind, priority and SPI stand before the address
    third = struct.pack(">BBBBI", 2, 2, 7, 0, 60) + bytes(12) + bytes.fromhex("20010db8") + bytes(11) + b"\7"
    odd = struct.pack(">BBBBI", 0, 9, 1, 0, 5) + bytes(4)
    assert parse_parameter(kind, content + third + odd, 2) == Locators(
        (
            Locator(0, 0, True, 120, "192.0.2.9"),
            Locator(0, 0, True, 120, "2001:db8::9"),
            Locator(2, 2, False, 60, "2001:db8::7"),
            Locator(0, 9, False, 5, None),
        )
    )


def test_parameters_of_version_1_are_decoded():
    # RFC 5201: one byte of algorithm before the signature, suites in HIP_TRANSFORM, others in ESP_TRANSFORM
    assert parse_parameter(61697, b"\5sign", 1) == HipSignature(5, b"sign")
    assert describe_value(parse_parameter(577, b"\0\1", 1)) == "AES-CBC-128/HMAC-SHA1"
    assert describe_value(parse_parameter(4095, b"\0\0\0\2", 1)) == "3DES/HMAC-SHA1"
    assert parse_parameter(705, bytes.fromhex("0006 0000 0202 ff 03 7879"), 1) == HostId(3, b"xy", None, None)


def test_long_lists_are_shortened():
    assert describe_value(parse_parameter(511, bytes(range(1, 12)), 2)).endswith("ECP-384, 3 more")


@pytest.mark.parametrize(("kind", "content", "value", "text"), CASES)
def test_truncated_parameters_have_another_value_or_raise(kind, content, value, text):
    for size in range(len(content)):
        with suppress(WireError):
            assert parse_parameter(kind, content[:size], 2) != value or kind == 513


@given(st.sampled_from([*HipParameterType]), st.binary(max_size=64), st.sampled_from([1, 2]))
def test_random_bytes_give_text_or_a_wire_error(kind, content, version):
    with suppress(WireError):
        assert isinstance(describe_value(parse_parameter(kind, content, version)), str)
