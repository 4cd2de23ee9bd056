import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads, parse_fragment_header, parse_payloads
from tests.craft import ike
from tests.wire.recorded import ike_messages

SPI_I, SPI_R = bytes(range(8)), bytes(range(8, 16))


def test_recorded_fragments():
    result = [parse_fragment_header(message) for message in ike_messages("pq-mlkem768-psk")]
    # the daemon's log: EF(1/2) and EF(2/2) of the initiator's IKE_INTERMEDIATE
    assert [item for item in result if item is not None] == [(1, 2), (2, 2)]


def test_a_fragment_behind_other_payloads():
    data = ike.message(SPI_I, SPI_R, 35, 0x08, 1, [(41, bytes(4)), (53, b"\x00\x03\x00\x0bsecret")])
    assert parse_fragment_header(data) == (3, 11)
    assert [payload.type for payload in parse_payloads(data).payloads] == [41, 53]


def test_a_fragment_whose_end_is_not_captured():
    (data,) = ike.skf(SPI_I, SPI_R, 35, 0x08, 1, 35, [bytes(1200)], total=2)
    for size in range(28 + 8):
        assert parse_fragment_header(data[:size]) is None
    for size in (28 + 8, 96):
        assert parse_fragment_header(data[:size]) == (1, 2)


@pytest.mark.parametrize("kind", [0, 40, 46])
def test_other_messages_have_no_fragment_header(kind):
    assert parse_fragment_header(ike.message(SPI_I, SPI_R, 34, 0x08, 0, [(kind, b"123456")] if kind else [])) is None


@pytest.mark.parametrize("size", range(8))
def test_an_skf_payload_without_room_for_its_numbers(size):
    message = bytearray(ike.message(SPI_I, SPI_R, 35, 0x08, 1, [(53, b"\x00\x03\x00\x0bsecret")]))
    message[30:32] = size.to_bytes(2)  # the length in the generic payload header
    assert parse_fragment_header(bytes(message)) is None


def test_payloads_from_inside_an_encrypted_one():
    first, data = ike.chain([(35, b"id"), (39, b"auth")])
    assert [payload.type for payload in parse_decrypted_payloads(data, first).payloads] == [35, 39]


@given(st.binary(max_size=100))
def test_random_bytes_raise_nothing(data):
    parse_fragment_header(data)
    parse_payloads(data)
    parse_decrypted_payloads(data, 41)
    parse_fragment_header(ike.ike_header(SPI_I, SPI_R, 41, 34, 8, 0, 28 + len(data)) + data)
