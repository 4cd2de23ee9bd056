import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.cursor import Cursor
from ikeanalyze.wire.payload_chain import Payload, parse_chain, parse_message_chain
from tests.craft import ike
from tests.wire.recorded import NAMES, ike_messages

SPI_I, SPI_R = bytes(range(8)), bytes(range(8, 16))


def message(*payloads):
    return ike.message(SPI_I, SPI_R, 34, 0x08, 0, payloads)


def test_payloads_with_their_places():
    chain = parse_message_chain(message((40, b"nonce"), (99, b""), (43, b"id")))
    assert chain.error is None
    assert chain.payloads == (
        Payload(40, False, b"nonce", 28),
        Payload(99, False, b"", 37),
        Payload(43, False, b"id", 41),
    )


def test_critical_bit():
    data = bytearray(message((40, b"nonce")))
    data[29] = 0x80
    assert parse_message_chain(bytes(data)).payloads[0].critical


@pytest.mark.parametrize("encrypted", [46, 53])
def test_stops_at_an_encrypted_payload(encrypted):
    # its next payload field is of what is inside
    data = ike.message(SPI_I, SPI_R, 35, 0x08, 1, [(41, bytes(4)), (encrypted, b"secret")])
    data = data[: 28 + 8] + b"\x29" + data[28 + 9 :]
    chain = parse_message_chain(data + b"behind")
    assert [payload.type for payload in chain.payloads] == [41, encrypted]
    assert chain.error is None


def test_bytes_behind_the_message_are_no_part_of_it():
    data = bytearray(message((40, b"nonce")))
    data[28] = 41
    chain = parse_message_chain(bytes(data) + bytes(8))
    assert len(chain.payloads) == 1
    assert chain.error == "4 bytes are needed, 0 are left (at byte 37)"


@pytest.mark.parametrize("length", [0, 3])
def test_a_length_below_the_header_is_an_error(length):
    data = bytearray(message((40, b"nonce"), (43, b"id")))
    data[37 + 2 : 37 + 4] = length.to_bytes(2, "big")
    chain = parse_message_chain(bytes(data))
    assert [payload.type for payload in chain.payloads] == [40]
    assert chain.error == f"payload 43 has a length of {length}, less than its 4-byte header (at byte 37)"


def test_header_without_payloads():
    assert parse_message_chain(ike.message(SPI_I, SPI_R, 37, 0x08, 3, [])) == parse_message_chain(
        ike.message(SPI_I, SPI_R, 37, 0x08, 3, []) + b"x"
    )
    assert parse_message_chain(b"").error is not None


def test_payloads_without_a_message():
    first, data = ike.chain([(35, b"id"), (39, b"auth")])
    chain = parse_chain(Cursor(data), first)
    assert [(payload.type, payload.body, payload.offset) for payload in chain.payloads] == [
        (35, b"id", 0),
        (39, b"auth", 6),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_recorded_messages_cut_anywhere(name):
    for whole in ike_messages(name)[:6]:
        complete = parse_message_chain(whole)
        assert complete.error is None
        for size in range(len(whole)):
            chain = parse_message_chain(whole[:size])
            assert chain.error is not None
            assert chain.payloads == complete.payloads[: len(chain.payloads)]


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing(data):
    parse_message_chain(data)
    parse_message_chain(message((40, b"nonce"))[:28] + data)
