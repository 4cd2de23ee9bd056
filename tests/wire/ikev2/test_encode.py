"""Encoders against recorded messages (what is read is written again bit by bit), craft, tshark and scapy."""

import pytest

from ikeanalyze.wire.header import parse_header
from ikeanalyze.wire.ikev2.encode import (
    encode_authentication,
    encode_certificate,
    encode_certificate_request,
    encode_chain,
    encode_delete,
    encode_eap,
    encode_identification,
    encode_key_exchange,
    encode_message,
    encode_notify,
    encode_sa,
    encode_traffic_selectors,
)
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads, parse_payloads
from ikeanalyze.wire.ikev2.payloads import (
    parse_authentication,
    parse_certificate,
    parse_delete,
    parse_identification,
    parse_key_exchange,
    parse_notify,
)
from ikeanalyze.wire.ikev2.proposals import parse_sa
from ikeanalyze.wire.ikev2.traffic_selectors import parse_traffic_selectors
from ikeanalyze.wire.registries.eap import EapCode
from ikeanalyze.wire.registries.ikev2 import PayloadType
from tests.craft import eap, ike
from tests.wire.dissected import SPI_I, SPI_R, dissected
from tests.wire.opened import opened
from tests.wire.recorded import NAMES, ike_messages

CLEAR = ("pq-mlkem768-psk", "invalid-ke", "psk-classic", "pq-followup-ke", "mobike")


def again(kind: int, body: bytes) -> tuple[int, bytes] | None:
    """A payload read and written; None: there is no encoder."""
    match kind:
        case PayloadType.SA:
            return encode_sa(parse_sa(body).proposals)
        case PayloadType.KE:
            value = parse_key_exchange(body)
            return encode_key_exchange(value.method, value.data)
        case PayloadType.NOTIFY:
            notify = parse_notify(body)
            return encode_notify(notify.type, notify.data, notify.protocol, notify.spi)
        case PayloadType.IDI | PayloadType.IDR:
            identity = parse_identification(body)
            return encode_identification(PayloadType(kind), identity.type, identity.data)
        case PayloadType.AUTH:
            authentication = parse_authentication(body)
            return encode_authentication(authentication.method, authentication.data)
        case PayloadType.CERT:
            certificate = parse_certificate(body)
            return encode_certificate(certificate.data, certificate.encoding)
        case PayloadType.TSI | PayloadType.TSR:
            return encode_traffic_selectors(PayloadType(kind), parse_traffic_selectors(body).selectors)
        case PayloadType.DELETE:
            delete = parse_delete(body)
            return encode_delete(delete.protocol, delete.spis)
    return None


@pytest.mark.parametrize("name", CLEAR)
def test_recorded_messages_are_written_bit_by_bit(name):
    whole = 0
    for data in ike_messages(name):
        header = parse_header(data)
        if header.exchange_type != ike.IKE_SA_INIT:
            continue
        listed = [
            again(payload.type, payload.body) or (payload.type, payload.body)
            for payload in parse_payloads(data).payloads
        ]
        written = encode_message(
            header.spi_i, header.spi_r, header.exchange_type, header.message_id, listed,
            from_initiator=header.initiator, response=header.response,
        )  # fmt: skip
        assert written == data
        whole += 1
    assert whole


def test_decrypted_payloads_are_written_bit_by_bit():
    kinds = set()
    for message in (item for name in NAMES for item in opened(name)):
        for payload in parse_decrypted_payloads(message.inside, message.first).payloads:
            written = again(payload.type, payload.body)
            if written is not None:
                assert written == (payload.type, payload.body)
                kinds.add(payload.type)
    assert kinds >= {PayloadType.SA, PayloadType.IDI, PayloadType.AUTH, PayloadType.CERT, PayloadType.TSI}


def test_a_chain_and_nothing():
    listed = [ike.notify(1), ike.delete(), ike.nonce(b"n" * 16)]
    assert encode_chain(listed) == ike.chain(listed)
    assert encode_chain([]) == (0, b"")
    assert [payload.type for payload in parse_decrypted_payloads(encode_chain(listed)[1], 41).payloads] == [41, 42, 40]


def test_eap_packets():
    assert encode_eap(EapCode.RESPONSE, 7, 4, b"abc") == eap.eap(2, 7, 4, b"abc")
    assert encode_eap(EapCode.SUCCESS, 9) == eap.eap(3, 9)


@pytest.mark.tshark
def test_tshark_decodes_encoded_payloads():
    message = encode_message(
        SPI_I, SPI_R, 35, 1,
        [
            encode_identification(PayloadType.IDI, 2, b"initiator.lab"),
            encode_certificate_request([b"a" * 20, b"b" * 20]),
            encode_authentication(2, b"0123456789"),
            encode_notify(16384),
            encode_delete(3, [b"\1\2\3\4", b"\5\6\7\x08"]),
        ],
        response=True, from_initiator=False,
    )  # fmt: skip
    fields = (
        "isakmp.typepayload", "isakmp.id.data.fqdn", "isakmp.certreq.type", "isakmp.auth.method",
        "isakmp.notify.msgtype", "isakmp.spinum", "isakmp.flags", "isakmp.messageid",
        "isakmp.delete.spi", "_ws.malformed",
    )  # fmt: skip
    (result,) = dissected([message], *fields)
    assert result["isakmp.typepayload"] == ["35", "38", "39", "41", "42"]
    assert result["isakmp.id.data.fqdn"] == ["initiator.lab"]
    assert result["isakmp.auth.method"] == ["2"]
    assert result["isakmp.notify.msgtype"] == ["16384"]
    assert result["isakmp.spinum"] == ["2"]
    assert result["isakmp.delete.spi"] == ["01020304", "05060708"]
    assert result["isakmp.flags"] == ["0x20"]
    assert result["isakmp.messageid"] == ["0x00000001"]
    assert result["_ws.malformed"] == []


def test_scapy_decodes_encoded_payloads():
    from scapy.contrib.ikev2 import IKEv2

    message = encode_message(
        SPI_I, bytes(8), 34, 0,
        [encode_key_exchange(31, b"k" * 32), (PayloadType.NONCE, b"n" * 32), encode_notify(16390, b"cookie")],
    )  # fmt: skip
    read = IKEv2(message)
    assert (read.init_SPI, read.exch_type, read.id, read.length) == (SPI_I, 34, 0, len(message))
    assert bytes(read) == message
    layers = {layer.__name__ for layer in read.layers()}
    assert {"IKEv2_KE", "IKEv2_Nonce", "IKEv2_Notify"} <= layers
