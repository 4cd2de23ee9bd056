from ikeanalyze.view.payload_details import format_octets, list_ikev1_facts, list_payload_facts, list_radius_facts
from ikeanalyze.wire.eap.methods import parse_eap_message
from ikeanalyze.wire.ikev2.decode import decode_payload
from ikeanalyze.wire.payload_chain import Payload
from ikeanalyze.wire.radius import parse_radius
from ikeanalyze.wire.registries.ikev2 import PayloadType
from tests.craft import ike
from tests.view.driven import browsed


def facts(kind: int, body: bytes) -> dict[str, str]:
    return dict(list_payload_facts(decode_payload(Payload(kind, False, body, 0))))


def test_bytes_are_shortened_and_counted():
    assert format_octets(b"") == "0 bytes"
    assert format_octets(bytes(16)) == f"16 bytes  {'00' * 16}"
    assert format_octets(bytes(1184)) == f"1,184 bytes  {'00' * 16}…"


def test_facts_of_payloads_from_the_rfc():
    # RFC 7296, sections 3.4, 3.5, 3.10, 3.11 and 3.13.1
    assert facts(PayloadType.KE, bytes([0, 31, 0, 0]) + bytes(32))["method"] == "X25519 (31)"
    assert facts(PayloadType.IDI, bytes([1, 0, 0, 0, 192, 0, 2, 1])) == {
        "type": "ID_IPV4_ADDR (1)",
        "identity": "192.0.2.1",
    }
    invalid_ke = facts(PayloadType.NOTIFY, bytes([0, 0, 0, 17, 0, 36]))
    assert invalid_ke == {"type": "INVALID_KE_PAYLOAD ML-KEM-768 (17)", "data": "2 bytes  0024"}
    assert facts(PayloadType.DELETE, bytes([3, 4, 0, 1, 0xC0, 0xFF, 0xEE, 1])) == {
        "protocol": "ESP",
        "SPIs": "c0ffee01",
    }
    selector = bytes([1, 0, 0, 0, 7, 6, 0, 16, 0, 80, 0, 80, 10, 0, 0, 0, 10, 0, 0, 255])
    assert facts(PayloadType.TSI, selector) == {"TS_IPV4_ADDR_RANGE": "10.0.0.0/24[tcp/80]"}
    assert facts(PayloadType.KE, b"\0")["error"]
    assert facts(200, b"abc") == {"data": "3 bytes"}


def test_what_a_peer_chose_is_harmless():
    for kind in range(33, 55):
        for body in (b"\x1b[2J" * 9, bytes([2, 0, 0, 0]) + b"\x1b[31mx", bytes(8) + b"\x9b2J\n"):
            for name, value in list_payload_facts(decode_payload(Payload(kind, False, body, 0))):
                assert (name + value).isprintable()


def test_no_password_is_among_the_facts():
    password = b"correct horse"
    for kind in (4, 6, 5, 26):  # MD5-Challenge, GTC, OTP, MSCHAPv2
        body = bytes([kind, len(password)]) + password if kind == 4 else bytes([kind]) + password
        eap = bytes([2, 1, 0, 4 + len(body)]) + body
        message = parse_eap_message(eap)
        assert message is not None
        reported = " ".join(f"{name} {value}" for name, value in list_payload_facts(message))
        assert "horse" not in reported
        assert password.hex()[-12:] not in reported
    request = bytes([1, 7, 0, 20 + 15]) + bytes(16) + bytes([2, 15]) + password
    assert "horse" not in str(list(list_radius_facts(parse_radius(request))))


def test_an_offer_of_ikev1():
    first = next(iter(browsed("ikev1-xauth.pcap").load_handshake(1).messages.values()))
    sa = first.content.payloads[0]
    offers = dict(list_ikev1_facts(sa, 2))
    # tshark -V: Encryption-Algorithm AES-CBC, Key-Length, Hash-Algorithm, Group-Description, Authentication-Method
    assert offers == {"transform 1": "AES-CBC-128/SHA2-256/MODP-2048/XAuthInitPSK"}


def test_proposals_have_all_transforms():
    _, body = ike.sa([ike.CLASSIC])
    result = list(list_payload_facts(decode_payload(Payload(33, False, body, 0))))
    assert result[0] == ("proposal 1", "IKE")
    assert len(result) == 1 + len({transform.kind for transform in ike.CLASSIC.transforms})
