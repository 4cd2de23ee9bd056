import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.ikev2.proposals import TransformAttributeValue, parse_sa
from tests.craft import ike
from tests.craft.ike import Proposal, Transform


def body(*proposals):
    return ike.sa(proposals)[1]


def described(*transforms, protocol=1):
    read = parse_sa(body(Proposal(transforms, protocol)))
    assert read.error is None
    return read.proposals[0].describe()


def test_proposals_in_order():
    read = parse_sa(body(ike.CLASSIC, ike.HYBRID))
    assert read.error is None
    assert [proposal.describe() for proposal in read.proposals] == [
        "AES-CBC-128/HMAC-SHA2-256-128/HMAC-SHA2-256/ECP-256",
        "AES-GCM-16-256/HMAC-SHA2-256/X25519/ADDKE1:ML-KEM-768",
    ]
    assert [(proposal.number, proposal.protocol, proposal.spi) for proposal in read.proposals] == [
        (1, 1, b""),
        (2, 1, b""),
    ]


def test_alternatives_in_the_senders_order_each_once():
    assert (
        described(Transform(4, 31), Transform(4, 14), Transform(1, 12, 256), Transform(1, 12, 128), Transform(4, 31))
        == "AES-CBC-256+AES-CBC-128/X25519+MODP-2048"
    )


def test_additional_key_exchanges_by_slot():
    assert (
        described(Transform(8, 37), Transform(6, 36), Transform(6, 0), Transform(7, 0), Transform(4, 20))
        == "ECP-384/ADDKE1:ML-KEM-768+NONE/ADDKE3:ML-KEM-1024"
    )


def test_none_alone_is_the_same_as_nothing():
    assert described(Transform(1, 20, 128), Transform(3, 0), Transform(4, 0)) == "AES-GCM-16-128"


@pytest.mark.parametrize(
    ("protocol", "text"), [(1, "AES-GCM-16-128"), (3, "AES-GCM-16-128/NO-ESN"), (2, "AES-GCM-16-128/NO-ESN")]
)
def test_sequence_numbers_for_esp_and_ah_only(protocol, text):
    assert described(Transform(5, 0), Transform(1, 20, 128), protocol=protocol) == text


def test_unknown_numbers_are_shown_as_numbers():
    assert described(Transform(1, 999, 192), Transform(4, 38), Transform(200, 7), Transform(13, 1)) == (
        "999-192/38/KWA:KW-5649-128/200:7"
    )


def test_attributes_of_both_formats():
    long = b"\x00\x0e\x00\x04\x00\x00\x01\x00" + b"\x80\x63\x12\x34"
    (proposal,) = parse_sa(body(Proposal([Transform(1, 12, attributes=long)]))).proposals
    (transform,) = proposal.transforms
    assert transform.attributes == (
        TransformAttributeValue(14, b"\x00\x00\x01\x00"),
        TransformAttributeValue(99, 0x1234),
    )
    assert transform.key_bits == 256
    assert transform.name == "AES-CBC-256"


def test_spi_of_a_rekeying():
    (proposal,) = parse_sa(body(Proposal([Transform(1, 12, 128)], spi=b"12345678"))).proposals
    assert proposal.spi == b"12345678"
    assert proposal.describe() == "AES-CBC-128"


def test_what_precedes_an_error_is_kept():
    data = body(ike.CLASSIC, ike.HYBRID)
    for size in range(len(data)):
        read = parse_sa(data[:size])
        whole = parse_sa(data)
        for mine, complete in zip(read.proposals, whole.proposals, strict=False):
            assert mine.transforms == complete.transforms[: len(mine.transforms)]
        if read.error is None:
            assert size in (0, len(body(ike.CLASSIC)))


@pytest.mark.parametrize("length", [0, 7])
def test_a_transform_shorter_than_its_header(length):
    data = bytearray(body(ike.CLASSIC))
    data[8 + 2 : 8 + 4] = length.to_bytes(2, "big")
    read = parse_sa(bytes(data))
    assert read.error is not None
    assert read.proposals[0].transforms == ()


def test_large_payloads_are_read_as_small_ones():
    many = parse_sa(body(*[ike.CLASSIC] * 200))
    assert many.error is None
    assert len(many.proposals) == 200


@given(st.binary(max_size=80))
def test_random_bytes_raise_nothing(data):
    for proposal in parse_sa(data).proposals:
        proposal.describe()
    for proposal in parse_sa(body(ike.CLASSIC)[:8] + data).proposals:
        proposal.describe()
