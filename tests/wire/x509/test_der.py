import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.x509.der import DerElement, parse_element, read_element, read_oid


def der(tag, content):
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


@pytest.mark.parametrize("size", [0, 1, 127, 128, 255, 256, 70000])
def test_lengths_of_all_forms_are_decoded(size):
    data = der(0x04, bytes(size))
    assert parse_element(data) == DerElement(0x04, bytes(size), 0)


@pytest.mark.parametrize(
    ("data", "oid"),
    [
        # X.690, section 8.19.5
        ("0603883703", "2.999.3"),
        # RFC 8410, section 9
        ("06032b6570", "1.3.101.112"),
        ("06082a8648ce3d030107", "1.2.840.10045.3.1.7"),
        ("0609608648016503040312", "2.16.840.1.101.3.4.3.18"),
        ("060100", "0.0"),
        ("06012a", "1.2"),
        ("060178", "2.40"),
    ],
)
def test_object_identifiers(data, oid):
    assert read_oid(Cursor(bytes.fromhex(data))) == oid


@given(st.integers(0, 2), st.integers(0, 39), st.lists(st.integers(0, 2**40), max_size=4))
def test_object_identifiers_against_cryptography(first, second, more):
    dotted = ".".join(map(str, (first, second, *more)))
    name = x509.Name([x509.NameAttribute(x509.ObjectIdentifier(dotted), "x")])
    # a name: a sequence of sets of sequences, each with the identifier first
    pair = parse_element(parse_element(parse_element(name.public_bytes()).content).content).content
    assert read_oid(Cursor(pair)) == dotted


@pytest.mark.parametrize(
    "data",
    [
        "0600",  # nothing in it
        "060188",  # its last byte goes on
        "0641" + "81" * 64 + "01",  # a number without bound
        "0402aaaa",  # another tag
        "06",
        "0605aa",
        "0680",  # of indefinite length
        "06850000000001aa",
        "1f0101",
    ],
)
def test_malformed_object_identifiers_raise(data):
    with pytest.raises(WireError):
        read_oid(Cursor(bytes.fromhex(data)))


def test_trailing_bytes_raise():
    with pytest.raises(WireError, match="1 bytes follow"):
        parse_element(b"\x04\x01\xaa\xbb")


@given(st.binary(max_size=40))
def test_random_bytes_give_an_element_within_them_or_a_wire_error(data):
    cursor = Cursor(data)
    try:
        element = read_element(cursor)
    except WireError:
        return
    assert 2 + len(element.content) <= cursor.position <= len(data)
