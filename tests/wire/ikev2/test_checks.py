import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.ikev2.checks import check_payload, check_payload_chain
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads, parse_payloads
from ikeanalyze.wire.payload_chain import Payload
from tests.craft import eap, ike
from tests.wire.opened import opened
from tests.wire.recorded import NAMES, ike_messages
from tests.wire.x509.test_certificates import MADE


def findings_of(payload, critical=False, **known):
    kind, data = payload
    return list(check_payload(Payload(kind, critical, data, 28), **known).findings)


def message(*payloads_):
    return ike.message(bytes(8), bytes(8), ike.IKE_AUTH, ike.INITIATOR, 1, payloads_)


@pytest.mark.parametrize("name", NAMES)
def test_daemons_give_no_finding(name):
    for data in ike_messages(name):
        assert check_payload_chain(parse_payloads(data), response=bool(data[19] & 0x20)).findings == ()
    for result in opened(name):
        chain = parse_decrypted_payloads(result.inside, result.first)
        method = 36 if result.exchange_type == 43 else None
        assert check_payload_chain(chain, response=result.response, method=method).findings == ()


SELECTOR = b"\x07\0\0\x10\0\0\xff\xff\x0a\0\0\0\x0a\0\0\xff"
REVERSED = b"\x07\0\0\x10\0\0\xff\xff\x0a\0\0\x09\x0a\0\0\x01"


@pytest.mark.parametrize(
    ("payload", "findings"),
    [
        ((ike.SA, b""), ["SA: no proposal"]),
        ((ike.SA, b"\0\0\0\x08\1\1\0\0"), ["SA: 1 of 1 proposals have no transforms"]),
        ((ike.SA, b"\0\0\0\x09\1\1\0\0"), ["SA: 1 bytes are needed, 0 are left (at byte 8)"]),
        ((ike.KE, b"\0\x24"), ["KE: 4 bytes are needed, 2 are left (at byte 0)"]),
        (ike.ke(31, bytes(31)), ["KE: X25519 public value of 31 bytes instead of 32"]),
        (ike.identification(ike.ID_I, b"\xc0\0\2", 1), ["IDi: 3 bytes are not a valid ID_IPV4_ADDR"]),
        (ike.identification(ike.ID_R, b"gw", 9), ["IDr: 2 bytes are not a valid ID_DER_ASN1_DN"]),
        (ike.identification(ike.ID_R, b"gw", 200), ["IDr: unknown identification type 200"]),
        ((ike.CERT, b"\x04"), ["CERT: 1 bytes are needed, 0 are left (at byte 0)"]),
        ((ike.CERT, b"\x0c" + bytes(19)), ["CERT: 20 bytes are needed, 19 are left (at byte 0)"]),
        ((ike.CERTREQ, b"\x04" + bytes(21)), ["CERTREQ: 21 bytes are not hashes of 20 bytes each"]),
        (ike.auth(2, b""), ["AUTH: no authentication data"]),
        (ike.auth(14, b"\x05\x30\x03\x06\x01\x2a"), ["AUTH: no signature after the algorithm identifier"]),
        (ike.auth(14, b"\x02\x05\x00sig"),
         ["AUTH: algorithm identifier: ASN.1 tag 0x05 instead of 0x30 (at byte 0)"]),
        (ike.nonce(bytes(15)), ["No: a nonce of 15 bytes instead of 16 to 256"]),
        (ike.nonce(bytes(257)), ["No: a nonce of 257 bytes instead of 16 to 256"]),
        (ike.notify(16388, bytes(19)), ["N: NAT_DETECTION_SOURCE_IP: invalid size of 19 bytes (at byte 0)"]),
        (ike.notify(16393, b"", 3, b"12345"), ["N: REKEY_SA: an SPI of 5 bytes instead of 4"]),
        ((ike.DELETE, b"\x03\x00\xff\xff"), ["D: 65535 SPIs of ESP announced, 0 present"]),
        (ike.delete(3, [b"12345678"]), ["D: SPIs of ESP with 8 bytes instead of 4"]),
        ((ike.TS_I, b"\x02\0\0\0" + SELECTOR), ["TSi: 2 traffic selectors announced, 1 present"]),
        ((ike.TS_R, b"\x01\0\0\0" + REVERSED), ["TSr: the range 10.0.0.9-10.0.0.1 ends before its start"]),
        ((ike.TS_I, b"\x01\0\0\0" + SELECTOR[:8]), ["TSi: 12 bytes are needed, 4 are left (at byte 8)"]),
        ((ike.CONFIGURATION, b"\x02\0\0\0\0\x01\0\x03abc"), ["CP: INTERNAL_IP4_ADDRESS of 3 bytes"]),
        ((ike.EAP, eap.eap(1, 0, 1) + b"x"), ["EAP: 1 bytes follow the EAP packet"]),
        ((ike.EAP, b"\x01"), ["EAP: 1 bytes are not an EAP packet"]),
        ((ike.SKF, b"\0\x04\0\x03"), ["SKF: fragment 4 of 3"]),
        ((ike.SKF, b"\0\0\0\0"), ["SKF: fragment 0 of 0"]),
        ((51, b""), []),
        ((201, b""), []),
    ],
)  # fmt: skip
def test_malformed_payloads_have_findings(payload, findings):
    assert findings_of(payload) == findings


def test_a_certificate_that_a_library_refuses():
    data = (MADE / "mldsa44.der").read_bytes()
    assert findings_of((ike.CERT, b"\x04" + data)) == []
    (finding,) = findings_of((ike.CERT, b"\x04" + data.replace(b"\x02\x01\x02", b"\x02\x01\x07", 1)))
    assert finding.startswith("CERT: InvalidVersion: ")
    assert findings_of((ike.CERT, b"\x04" + data[:-1])) != []


def test_ml_kem_is_checked_by_direction_and_slot():
    key, ciphertext = opened("pq-mlkem768-psk")[:2]
    request, response = (ike.KE, key.inside[4:]), (ike.KE, ciphertext.inside[4:])
    assert findings_of(request, response=False, method=36) == []
    assert findings_of(response, response=True, method=36) == []
    assert findings_of(request, response=True) == [
        "KE: ML-KEM-768 ciphertext of 1184 bytes instead of 1088, the size of an ML-KEM-768 encapsulation key"
    ]
    assert findings_of(request, response=False, method=37) == [
        "KE: key exchange with ML-KEM-768, but ML-KEM-1024 was negotiated"
    ]
    spoilt = ike.ke(36, b"\xff\xff\xff" + key.inside[11:])
    assert findings_of(spoilt, response=False) == [
        "KE: 2 of 768 coefficients of the ML-KEM-768 encapsulation key are not below 3329"
        " (modulus check of FIPS 203, section 7.2)"
    ]


def test_unknown_critical_payload():
    assert findings_of((201, b""), critical=True) == [
        "payload of unknown type 201 is critical: the receiver must reject the message"
    ]
    assert findings_of(ike.nonce(bytes(16)), critical=True) == []


def test_payloads_that_are_there_twice():
    twice = message(ike.nonce(bytes(16)), ike.nonce(bytes(16)), ike.notify(16384), ike.notify(16384))
    assert check_payload_chain(parse_payloads(twice)).findings == ("No: 2 times instead of once",)


def test_a_length_past_the_end():
    data = message(ike.nonce(bytes(16)))[:-1]
    assert check_payload_chain(parse_payloads(data)).findings == (
        "payloads: 16 bytes are needed, 15 are left (at byte 32)",
    )


def test_thousands_of_findings_are_counted():
    many = check_payload_chain(parse_payloads(message(*[ike.notify(17, b"")] * 8000)))
    assert len(many.payloads) == 8000
    assert len(many.findings) == 50
    assert many.findings[-1] == "7951 more findings"


@given(st.integers(0, 255), st.booleans(), st.binary(max_size=80))
def test_random_bytes_give_printable_findings(kind, critical, data):
    for finding in findings_of((kind, data), critical):
        assert finding.isprintable()
