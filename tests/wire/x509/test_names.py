from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.x509.names import format_distinguished_name, format_general_name

#: Parts that `cryptography` has short names for.
KINDS = [
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.DOMAIN_COMPONENT,
    NameOID.USER_ID,
    NameOID.STREET_ADDRESS,
    NameOID.STATE_OR_PROVINCE_NAME,
]
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.just(" "), min_size=1, max_size=20)


@given(st.lists(st.tuples(st.sampled_from(KINDS), TEXT), max_size=4))
def test_names_are_formatted_as_by_cryptography(parts):
    name = x509.Name([x509.NameAttribute(kind, text) for kind, text in parts])
    assert format_distinguished_name(name.public_bytes()) == name.rfc4514_string()


def test_several_values_in_one_part():
    pair = [x509.NameAttribute(NameOID.COMMON_NAME, "J. Smith"), x509.NameAttribute(NameOID.USER_ID, "js")]
    last = x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "net")])
    name = x509.Name([last, x509.RelativeDistinguishedName(pair)])
    # DER sorts the members of a set, the shorter first
    assert format_distinguished_name(name.public_bytes()) == "CN=J. Smith+UID=js,DC=net"


def test_kinds_without_a_short_name_there():
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "CH"),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.example"),
            x509.NameAttribute(x509.ObjectIdentifier("1.2.3.4"), "x"),
        ]
    )
    assert format_distinguished_name(name.public_bytes()) == "1.2.3.4=x,emailAddress=a@b.example,C=CH"


@pytest.mark.parametrize(
    ("der", "text"),
    [
        ("3000", ""),
        # RFC 4514, section 4: a value that is no string, a carriage return
        (
            "3014311230100608 2b060104018b3a00 0404 04024869".replace(" ", ""),
            "1.3.6.1.4.1.1466.0=#040404024869",
        ),
        ("3017311530130603550403 0c0c 4265666f72650d4166746572".replace(" ", ""), "CN=Before\\0dAfter"),
        ("300d310b3009060355040304020500", "CN=#04020500"),
        ("300e310c300a0603550403 1e03 d80000".replace(" ", ""), "CN=\ufffd"),
    ],
)
def test_unusual_values_are_formatted(der, text):
    data = bytes.fromhex(der)
    assert format_distinguished_name(data) == text


def test_terminals_are_safe():
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "\x1b[31m\u202egw")])
    assert format_distinguished_name(name.public_bytes()).isprintable()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (x509.DNSName("gw.example"), "gw.example"),
        (x509.RFC822Name("a@b.example"), "a@b.example"),
        (x509.UniformResourceIdentifier("spiffe://x/y"), "spiffe://x/y"),
        (x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gw")])), "CN=gw"),
        (x509.RegisteredID(x509.ObjectIdentifier("1.2.3")), "#2a03"),
    ],
)
def test_general_names(name, text):
    names = x509.SubjectAlternativeName([name]).public_bytes()
    # a sequence of one name; all are short
    assert format_general_name(names[2:]) == text


def test_addresses_in_general_names():
    assert format_general_name(b"\x87\x04\xc0\x00\x02\x01") == "192.0.2.1"
    assert format_general_name(b"\x87\x03\xc0\x00\x02") == "#c00002"


@given(st.binary(max_size=60))
def test_random_bytes_give_printable_text_or_a_wire_error(data):
    for read in (format_distinguished_name, format_general_name):
        with suppress(WireError):
            assert read(data).isprintable()
