import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.header import parse_header
from ikeanalyze.wire.ikev2.message import parse_init
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from tests.craft import ike
from tests.wire.recorded import NAMES, ike_messages, truth

SPI_I, SPI_R = bytes(range(8)), bytes(range(8, 16))

#: charon's short names.
CHARON = {
    "NATD_S_IP": "NAT_DETECTION_SOURCE_IP",
    "NATD_D_IP": "NAT_DETECTION_DESTINATION_IP",
    "FRAG_SUP": "IKEV2_FRAGMENTATION_SUPPORTED",
    "HASH_ALG": "SIGNATURE_HASH_ALGORITHMS",
    "REDIR_SUP": "REDIRECT_SUPPORTED",
    "CHDLESS_SUP": "CHILDLESS_IKEV2_SUPPORTED",
    "MULT_AUTH": "MULTIPLE_AUTH_SUPPORTED",
    "IKE_INT_SUP": "INTERMEDIATE_EXCHANGE_SUPPORTED",
    "INVAL_KE": "INVALID_KE_PAYLOAD",
}


def inits(name, response):
    return [
        message
        for message in ike_messages(name)
        if (header := parse_header(message)).exchange_type == 34 and header.response == response
    ]


@pytest.mark.parametrize("response", [False, True])
def test_hybrid_proposal(response):
    # the daemon's log: IKE:AES_GCM_16_256/PRF_HMAC_SHA2_384/ECP_384/KE1_ML_KEM_768
    view = parse_init(inits("pq-mlkem768-psk", response)[0])
    assert [proposal.describe() for proposal in view.proposals] == [
        "AES-GCM-16-256/HMAC-SHA2-384/ECP-384/ADDKE1:ML-KEM-768"
    ]
    assert view.chosen is view.proposals[0]
    assert view.ke_method == 20
    assert view.nonce is not None
    assert len(view.nonce) == 32
    assert view.error is None


def test_invalid_ke_payload():
    first, second = inits("invalid-ke", False)
    refusal, answer = inits("invalid-ke", True)
    assert [parse_init(message).ke_method for message in (first, refusal, second, answer)] == [
        31,
        None,
        20,
        20,
    ]
    assert parse_init(refusal).notifies == ((NotifyType.INVALID_KE_PAYLOAD, b"\x00\x14"),)
    assert parse_init(refusal).chosen is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("side", "response"), [("ini", False), ("res", True)])
def test_notifies_are_those_of_the_daemons_log(name, side, response):
    texts = [entry[4] for entry in truth(name)[side] if entry[:2] == ["gen", "IKE_SA_INIT"]]
    expected = {tuple(CHARON[word[2:-1]] for word in text.split() if word.startswith("N(")) for text in texts}
    views = [parse_init(message) for message in inits(name, response)]
    result = {tuple(get_name(NotifyType, kind) for kind, _ in view.notifies) for view in views}
    assert result == expected


def test_vendor_ids_and_certificate_requests():
    view = parse_init(ike.message(SPI_I, bytes(8), 34, 8, 0, [(43, b"one"), (38, b"\x04" + bytes(20)), (43, b"two")]))
    assert view.vendor_ids == (b"one", b"two")
    assert view.has_certreq


def test_a_broken_payload_does_not_hide_the_others():
    payloads = [
        (41, b"\x00"),
        (34, b"\x00"),
        (33, b"\x00"),
        ike.nonce(bytes(32)),
        ike.notify(16390, b"cookie"),
    ]
    view = parse_init(ike.message(SPI_I, bytes(8), 34, 8, 0, payloads))
    assert view.nonce == bytes(32)
    assert view.notifies == ((16390, b"cookie"),)
    assert view.ke_method is None
    assert view.error is not None
    assert view.error.startswith("payload 41 at byte 28: ")


def test_notify_with_an_spi():
    view = parse_init(ike.message(SPI_I, SPI_R, 36, 8, 0, [ike.notify(16393, b"", 3, b"\x01\x02\x03\x04")]))
    assert view.notifies == ((16393, b""),)


@pytest.mark.parametrize("name", NAMES)
def test_recorded_messages_cut_anywhere(name):
    for message in [*inits(name, False)[:1], *inits(name, True)[:1]]:
        whole = parse_init(message)
        for size in range(len(message)):
            view = parse_init(message[:size])
            assert view.error is not None
            assert view.notifies == whole.notifies[: len(view.notifies)]
            assert view.notify_types == whole.notify_types[: len(view.notify_types)]


def test_a_notify_whose_data_are_cut_keeps_its_type():
    # RFC 7296, sections 3.2 and 3.10: the type is in bytes 6 and 7 of the payload, before the data
    refusal = ike.message(SPI_I, bytes(8), 34, 32, 0, [ike.notify(NotifyType.COOKIE, bytes(32))])
    types = [parse_init(refusal[:size]).notify_types for size in range(28, 28 + 40)]
    assert types == [()] * 8 + [(NotifyType.COOKIE,)] * 32
    assert parse_init(refusal[:-1]).notifies == ()  # its data are incomplete


def test_a_notify_longer_than_its_message_is_not_a_truncated_one():
    header = ike.ike_header(SPI_I, bytes(8), ike.NOTIFY, 34, 32, 0, 28 + 12)
    malformed = header + bytes.fromhex("0000 0020 0000 4006") + bytes(4)  # 32 bytes in a message with room for 12
    assert parse_init(malformed).notify_types == ()


@given(st.binary(max_size=200), st.integers(0, 255))
def test_random_bytes_raise_nothing(data, kind):
    parse_init(data)
    parse_init(ike.ike_header(SPI_I, SPI_R, kind, 34, 8, 0, 28 + len(data)) + data)
