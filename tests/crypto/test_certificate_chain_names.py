"""Names against DER written by hand (X.690), as strongSwan's `ipsec.conf` and `pki --print` have them."""

import pytest

from ikeanalyze.crypto.certificate_chain import encode_distinguished_name, format_distinguished_name, names_equal

UTF8, PRINTABLE = 0x0C, 0x13


def der(tag, content):
    return bytes((tag, len(content))) + content


def part(kind, value, string):
    """A relative distinguished name: SET of SEQUENCE of 2.5.4.`kind` and a string."""
    return der(0x31, der(0x30, der(0x06, bytes((0x55, 4, kind))) + der(string, value.encode())))


def name(*parts):
    return der(0x30, b"".join(part(*item) for item in parts))


#: Of 2.5.4.
COUNTRY, ORGANIZATION, COMMON = 6, 10, 3
LAB = name((COUNTRY, "CH", PRINTABLE), (ORGANIZATION, "Lab", UTF8), (COMMON, "resp", UTF8))


@pytest.mark.parametrize(
    "text", ["C=CH,O=Lab,CN=resp", "C=CH, O=Lab, CN=resp", "C=CH , O=Lab ,  CN=resp", " C=CH,O=Lab,CN=resp "]
)
def test_in_strongswans_order_with_spaces_or_without(text):
    assert encode_distinguished_name(text).public_bytes() == LAB


def test_the_other_order_is_another_name():
    assert encode_distinguished_name("CN=resp, O=Lab, C=CH").public_bytes() != LAB
    assert not names_equal(encode_distinguished_name("CN=resp, O=Lab, C=CH").public_bytes(), LAB)


def test_escaped_commas_and_spaces_are_of_the_value():
    assert encode_distinguished_name("O=Lab\\, Inc, CN=a\\ , C=CH").public_bytes() == name(
        (ORGANIZATION, "Lab, Inc", UTF8), (COMMON, "a ", UTF8), (COUNTRY, "CH", PRINTABLE)
    )


def test_attribute_names_of_strongswan_are_encoded():
    assert encode_distinguished_name("CN=a, SN=3").public_bytes() == name((COMMON, "a", UTF8), (5, "3", PRINTABLE))


@pytest.mark.parametrize("text", ["CN", "CN=a,,O=b", "CN=", "=a", "XX=a", "CN=a,"])
def test_malformed_names_raise(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the library's own have no words
        encode_distinguished_name(text)


def test_encoded_names_are_formatted_again():
    assert format_distinguished_name(LAB) == "C=CH, O=Lab, CN=resp"
    assert (
        format_distinguished_name(encode_distinguished_name("O=a\\, b, E=carol@lab").public_bytes())
        == "O=a\\, b, E=carol@lab"
    )
    assert format_distinguished_name(b"\x30\x05abc") is None


def test_string_types_do_not_matter():
    printable = name((COUNTRY, "CH", PRINTABLE), (ORGANIZATION, "Lab", PRINTABLE), (COMMON, "resp", PRINTABLE))
    assert printable != LAB
    assert names_equal(printable, LAB)
    assert not names_equal(name((COUNTRY, "CH", PRINTABLE), (ORGANIZATION, "Lab", UTF8), (COMMON, "Resp", UTF8)), LAB)
    assert not names_equal(name((COUNTRY, "CH", PRINTABLE), (COMMON, "resp", UTF8)), LAB)
    assert not names_equal(b"", LAB)
    assert not names_equal(LAB[:-1], LAB)
    assert names_equal(b"broken", b"broken")
