from itertools import pairwise

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from ikeanalyze.wire.ikev2.describe import describe_payload, describe_payloads
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads, parse_payloads
from ikeanalyze.wire.payload_chain import Payload, PayloadChain
from tests.craft import eap, ike
from tests.wire.opened import logged, opened
from tests.wire.recorded import NAMES, ike_messages
from tests.wire.x509.test_certificates import MADE

EXCHANGES = {34: "IKE_SA_INIT", 35: "IKE_AUTH", 37: "INFORMATIONAL", 43: "IKE_INTERMEDIATE"}
#: charon's short names.
SHORT = {
    "N(NATD_S_IP)": "N(NAT_DETECTION_SOURCE_IP)",
    "N(NATD_D_IP)": "N(NAT_DETECTION_DESTINATION_IP)",
    "N(FRAG_SUP)": "N(IKEV2_FRAGMENTATION_SUPPORTED)",
    "N(HASH_ALG)": "N(SIGNATURE_HASH_ALGORITHMS)",
    "N(REDIR_SUP)": "N(REDIRECT_SUPPORTED)",
    "N(CHDLESS_SUP)": "N(CHILDLESS_IKEV2_SUPPORTED)",
    "N(MULT_AUTH)": "N(MULTIPLE_AUTH_SUPPORTED)",
    "N(IKE_INT_SUP)": "N(INTERMEDIATE_EXCHANGE_SUPPORTED)",
    "N(INIT_CONTACT)": "N(INITIAL_CONTACT)",
    "N(MOBIKE_SUP)": "N(MOBIKE_SUPPORTED)",
    "N(NO_ADD_ADDR)": "N(NO_ADDITIONAL_ADDRESSES)",
    "N(ADD_4_ADDR)": "N(ADDITIONAL_IP4_ADDRESS)",
    "N(EAP_ONLY)": "N(EAP_ONLY_AUTHENTICATION)",
    "N(MSG_ID_SYN_SUP)": "N(IKEV2_MESSAGE_ID_SYNC_SUPPORTED)",
    "N(INVAL_KE)": "N(INVALID_KE_PAYLOAD)",
    "EAP/REQ/ID": "EAP(Request Identity)",
    "EAP/RES/ID": "EAP(Response Identity carol)",
    "EAP/REQ/MD5": "EAP(Request MD5-Challenge)",
    "EAP/RES/MD5": "EAP(Response MD5-Challenge)",
    "EAP/SUCC": "EAP(Success)",
}


def in_charons_words(text):
    if text.startswith("EAP("):
        return text
    name, _, reported = text.partition("(")
    # of notifies the type, of others the name alone
    return f"N({reported.rstrip(')').split(' ')[0]})" if name == "N" else name


@pytest.mark.parametrize("name", NAMES)
def test_against_the_daemons_list(name):
    log = logged(name)
    requested = 0
    for message in ike_messages(name):
        described = describe_payloads(parse_payloads(message))
        if message[18] == 34 and "N(INVALID_KE_PAYLOAD ECP-384)" not in described:
            listed = log["IKE_SA_INIT", bool(message[19] & 0x20), 0]
            assert [in_charons_words(text) for text in described] == [SHORT.get(part, part) for part in listed]
            requested += 1
    for message in opened(name):
        listed = log[EXCHANGES[message.exchange_type], message.response, message.message_id]
        described = describe_payloads(parse_decrypted_payloads(message.inside, message.first))
        assert [in_charons_words(text) for text in described] == [SHORT.get(part, part) for part in listed]
        requested += 1
    assert requested >= 4


def test_recorded_handshake():
    request, response, auth, _ = opened("pq-mlkem768-psk")
    assert describe_payloads(parse_decrypted_payloads(request.inside, request.first)) == ["KE(ML-KEM-768)"]
    assert describe_payloads(parse_decrypted_payloads(response.inside, response.first)) == ["KE(ML-KEM-768)"]
    assert describe_payloads(parse_decrypted_payloads(auth.inside, auth.first))[:7] == [
        "IDi(ini)", "N(INITIAL_CONTACT)", "IDr(res)", "AUTH(PSK)", "SA", "TSi(10.1.0.1/32)", "TSr(10.2.0.1/32)",
    ]  # fmt: skip


DN = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gw"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "x" * 64)])
SELECTOR = b"\x07\0\0\x10\0\0\xff\xff\x0a\0\0\0\x0a\0\0\xff"


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (ike.sa([ike.CLASSIC]), "SA"),
        (ike.ke(36, b""), "KE(ML-KEM-768)"),
        (ike.ke(1024, b""), "KE(1024)"),
        ((ike.KE, b"\0"), "KE(?)"),
        (ike.nonce(bytes(32)), "No"),
        (ike.identification(ike.ID_I, b"ike-1"), "IDi(ike-1)"),
        (ike.identification(ike.ID_R, DN.public_bytes(), 9), "IDr(O=" + "x" * 61 + "…)"),
        (ike.identification(ike.ID_R, b"\xc0\0\2", 1), "IDr(?)"),
        ((ike.CERT, b"\x04" + (MADE / "mldsa65.der").read_bytes()),
         "CERT(X.509 CN=mldsa65.example,O=ikeanalyze,C=CH, ML-DSA-65)"),
        ((ike.CERT, b"\x04junk"), "CERT(X.509, ?)"),
        ((ike.CERTREQ, b"\x04" + bytes(20)), "CERTREQ(1)"),
        ((ike.CERTREQ, b"\x0f"), "CERTREQ"),
        (ike.auth(2, b"mac"), "AUTH(PSK)"),
        (ike.auth(14, b"\x07\x30\x05\x06\x03\x2b\x65\x70sig"), "AUTH(Ed25519)"),
        (ike.notify(16441, b"link"), "N(ADDITIONAL_KEY_EXCHANGE)"),
        (ike.delete(), "D(IKE)"),
        (ike.delete(3, [b"1234"]), "D(ESP 1 SPI)"),
        (ike.delete(2, [b"1234", b"5678"]), "D(AH 2 SPIs)"),
        ((ike.VENDOR_ID, bytes.fromhex("882fe56d6fd20dbc2251613b2ebe5beb")), "V(strongSwan)"),
        ((ike.VENDOR_ID, bytes(range(16))), "V(0001020304050607…)"),
        ((ike.CONFIGURATION, b"\x01\0\0\0\0\x01\0\0"), "CP(REQUEST: INTERNAL_IP4_ADDRESS)"),
        ((ike.CONFIGURATION, b"\x02\0\0\0\0\x01\0\x04\x0a\0\0\x05\0\x03\0\0"),
         "CP(REPLY: INTERNAL_IP4_ADDRESS=10.0.0.5 INTERNAL_IP4_DNS)"),
        ((ike.TS_I, b"\x01\0\0\0" + SELECTOR), "TSi(10.0.0.0/24)"),
        ((ike.TS_R, b"\x06\0\0\0" + SELECTOR * 6), "TSr(10.0.0.0/24, 10.0.0.0/24, 10.0.0.0/24, 10.0.0.0/24, 2 more)"),
        ((ike.EAP, eap.eap(2, 0, 4, b"\x10" + bytes(16))), "EAP(Response MD5-Challenge)"),
        ((ike.SK, bytes(40)), "SK"),
        ((ike.SKF, b"\0\x02\0\x03"), "SKF(2/3)"),
        ((51, b""), "GSA"),
        ((201, b""), "unknown 201"),
    ],
)  # fmt: skip
def test_each_payload_has_a_description(payload, text):
    kind, data = payload
    assert describe_payload(Payload(kind, False, data, 28)) == text


def test_a_chain_of_unknown_and_known():
    chain = PayloadChain((Payload(201, True, b"", 28), Payload(40, True, bytes(16), 32)), None)
    assert describe_payloads(chain) == describe_payloads(chain.payloads) == ["unknown 201 (critical)", "No"]


def test_what_a_peer_chose_is_harmless_and_short():
    hostile = [
        ike.identification(ike.ID_I, b"\x1b]0;x\x07" * 9000),
        ike.notify(16407, b"\x03\xff" + b"\x1b[2J\n" * 50 + bytes(5)),
        (ike.VENDOR_ID, b"A vendor " * 7000),
        (ike.CONFIGURATION, b"\x02\0\0\0" + b"\0\x07\0\x03\x1bab" * 9000),
        (ike.TS_I, b"\xff\0\0\0" + b"\xf1\0\0\x08\x1b[2J" * 8000),
        (ike.EAP, eap.eap(2, 0, 1, b"\x9b1mx" * 10000)),
        (ike.CERT, b"\x0c" + bytes(20) + b"http://\x1b" * 7000),
        (ike.AUTH, b"\x0e\0\0\0\xff" + bytes(300)),
    ]
    texts = [describe_payload(Payload(kind, False, data, 28)) for kind, data in hostile]
    assert all(text.isprintable() for text in texts)
    assert all(len(text) < 800 for text in texts)
    assert all(first != second for first, second in pairwise(texts))
