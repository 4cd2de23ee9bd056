import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.ikev1.proposals import parse_ikev1_sa
from tests.craft import ikev1
from tests.wire.dissected import dissected


def attribute(kind, value):
    return struct.pack(">HH", 0x8000 | kind, value)


def transform(number, ident, attributes=b""):
    return struct.pack(">BxHBBxx", 0, 8 + len(attributes), number, ident) + attributes


def proposal(protocol, spi, *transforms, number=1):
    body = spi + b"".join(transforms)
    return struct.pack(">BxHBBBB", 0, 8 + len(body), number, protocol, len(spi), len(transforms)) + body


def association(*proposals, situation=1):
    return struct.pack(">II", 1, situation) + b"".join(proposals)


AES = transform(1, 12, attribute(6, 128) + attribute(5, 2) + attribute(3, 14) + attribute(4, 1))
TRIPLE_DES = transform(2, 3, attribute(5, 1))


def test_proposals_of_esp_and_ah_are_described():
    read = parse_ikev1_sa(association(proposal(3, b"\1\2\3\4", AES, TRIPLE_DES), proposal(2, b"5678", transform(1, 5))))
    assert read.error is None
    esp, ah = read.proposals
    assert (esp.spi, esp.describe()) == (b"\1\2\3\4", "ESP:AES-CBC-128/HMAC-SHA1/MODP-2048+3DES/HMAC-MD5")
    assert ah.describe() == "AH:SHA2-256"


@pytest.mark.parametrize(
    ("protocol", "ident", "text"),
    [(4, 2, "IPCOMP:DEFLATE"), (3, 99, "ESP:99"), (9, 1, "9:1"), (3, 20, "ESP:AES-GCM-16")],
)
def test_transforms_are_named_by_protocol(protocol, ident, text):
    read = parse_ikev1_sa(association(proposal(protocol, b"", transform(1, ident))))
    assert [found.describe() for found in read.proposals] == [text]


@pytest.mark.tshark
def test_against_tshark():
    body = association(proposal(3, b"\1\2\3\4", AES))
    message = ikev1.message(bytes(range(1, 9)), bytes(range(9, 17)), ikev1.QUICK_MODE, [(ikev1.SA, body)], 7)
    names = (
        "prop.protoid",
        "spi",
        "ipsec.attr.key_length",
        "ipsec.attr.auth_algorithm",
        "ipsec.attr.group_description",
    )
    (row,) = dissected([message], *(f"isakmp.{name}" for name in names))
    ((esp,),) = (parse_ikev1_sa(body).proposals,)
    (found,) = esp.transforms
    told = [esp.protocol, found.value(6), found.value(5), found.value(3)]
    assert row.pop("isakmp.spi") == [esp.spi.hex()]
    assert list(row.values()) == [[str(value)] for value in told]


def test_cut_anywhere():
    body = association(proposal(3, b"\1\2\3\4", AES))
    for size in range(len(body)):
        read = parse_ikev1_sa(body[:size])
        assert (read.error is None) == (size == 8)
        assert read.proposals == ()


@given(st.binary(max_size=80))
def test_any_bytes(data):
    for found in parse_ikev1_sa(b"\0\0\0\1\0\0\0\1" + data).proposals:
        assert found.describe().isprintable()
