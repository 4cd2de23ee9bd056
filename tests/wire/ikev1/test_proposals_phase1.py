import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.ikev1.proposals import parse_ikev1_sa
from tests.craft import ikev1 as craft


def only(attributes):
    read = parse_ikev1_sa(craft.sa(attributes)[1])
    assert read.error is None
    (transform,) = read.transforms
    return transform


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ([(1, 7), (14, 256), (2, 4), (4, 14), (3, 1)], "AES-CBC-256/SHA2-256/MODP-2048/PSK"),
        ([(1, 5), (2, 2), (4, 2), (3, 65001)], "3DES-CBC/SHA1/MODP-1024/XAuthInitPSK"),
        ([(1, 1), (2, 1), (4, 1), (3, 3)], "DES-CBC/MD5/MODP-768/RSA-SIG"),
        ([(1, 99), (14, 128), (2, 98), (4, 97), (3, 96)], "99-128/98/97/96"),
        ([(3, 64221)], "HybridInitRSA"),
        ([(14, 128)], ""),
    ],
)
def test_transforms_are_described(attributes, text):
    assert only(attributes).describe() == text


def test_what_is_not_said_is_none():
    transform = only([(1, 7)])
    assert (transform.encryption, transform.hash, transform.group, transform.auth) == (
        "AES-CBC",
        None,
        None,
        None,
    )


def test_long_attributes():
    # life duration of 86,400 seconds, as Windows sends it
    attributes = struct.pack(">HHI", 12, 4, 86400)
    transform = struct.pack(">BxHBBxx", 0, 8 + len(attributes), 1, 1) + attributes
    proposal = struct.pack(">BxHBBBB", 0, 8 + len(transform), 1, 1, 0, 1) + transform
    read = parse_ikev1_sa(struct.pack(">II", 1, 1) + proposal)
    assert read.transforms[0].value(12) == 86400
    assert read.doi == 1


def test_situation_with_labels():
    _, body = craft.sa()
    secrecy = struct.pack(">IHxxBxxxHxx", 7, 1, 0xAA, 0)
    read = parse_ikev1_sa(struct.pack(">II", 1, 3) + secrecy + body[8:])
    assert read.error is None
    assert len(read.transforms) == 1


def test_lengths_of_levels_are_in_bytes_and_of_category_bitmaps_in_bits():
    """RFC 2407, section 4.6.1: all are padded with zeros to a multiple of 32 bits."""
    secrecy = struct.pack(">Hxx", 5) + b"level\0\0\0" + struct.pack(">Hxx", 33) + b"\xff\xff\xff\xff\x80\0\0\0"
    integrity = struct.pack(">Hxx", 1) + b"\xaa\0\0\0" + struct.pack(">Hxx", 32) + b"\xff\xff\xff\xff"
    sit_secrecy_and_integrity, labelled_domain = 2 | 4, 7
    situation = struct.pack(">III", 1, sit_secrecy_and_integrity, labelled_domain) + secrecy + integrity
    read = parse_ikev1_sa(situation + craft.sa()[1][8:])
    assert read.error is None
    assert len(read.transforms) == 1


def test_truncated_sa_payloads_have_an_error():
    _, body = craft.sa()
    for size in range(8):
        assert parse_ikev1_sa(body[:size]).error is not None
    for size in range(9, len(body)):
        assert parse_ikev1_sa(body[:size]).error is not None


@given(st.binary(max_size=100))
def test_any_bytes(data):
    parse_ikev1_sa(data)
    parse_ikev1_sa(craft.sa()[1][:16] + data)
