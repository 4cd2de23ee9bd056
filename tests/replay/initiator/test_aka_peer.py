"""EAP-AKA conversations: recorded with hostapd 2.11, and with packets made here."""

import hashlib
import hmac
from contextlib import suppress

import pytest

from ikeanalyze.crypto.aka.keys import derive_aka_keys
from ikeanalyze.crypto.aka.milenage import Milenage
from ikeanalyze.replay.initiator.eap_peer import EapPeer
from ikeanalyze.replay.initiator.interface import RefusedError
from tests.craft import eap

IDENTITY = "0001010000000001"
MILENAGE = Milenage(
    bytes.fromhex("7cb2f97531a895992709471e5bf753dc"), bytes.fromhex("850a8f9d1d9371f4af187d807bfad329")
)
#: hostapd 2.11 sent the requests of this conversation and accepted its responses.
RECORDED = [
    ("0101000c170500000d010000", "0201001c170500000e050010" + IDENTITY.encode().hex()),
    (
        "010200b81701000001050000b13d2d7aeee47a49fb260acff4b33ab10205000091c6c0e1ddc3000077a884e93ea08209"
        "8105000088ee165b15d091f29b03563fa0ac89f1821100004b84ce76909512451482 1f2549e245280db08933dc38498f"
        "07a97b1da00f75b1bb5270972ae35c2a7656af117ee8ba5b5734c21e7b0f2b3e6da862789ad7ab5f86060000e17c37b3"
        "9d81f0d3321bcd480f636a9a78fe8aaf880100000b050000d67eab7de116622a3e709e8127ab387c",
        "020200401701000003030040 1c070c464df5071b86060000e17c37b39d81f0d3321bcd480f636a9a78fe8aaf"
        "0b05000024c4e760ec9ee1d5066c2b21c8151253",
    ),
]
IDENTITY_REQUEST, CHALLENGE = (bytes.fromhex(request) for request, _ in RECORDED)
SUCCESS, FAILURE = eap.eap(eap.SUCCESS, 2), eap.eap(eap.FAILURE, 2)
RAND = bytes(range(16))
AT_NOTIFICATION, AT_CHECKCODE = 12, 134
AUTHENTICATION_REJECT, NOTIFICATION, CLIENT_ERROR = 2, 12, 14
#: AKA-Client-Error with "unable to process packet" (RFC 4187, section 10.20).
UNABLE = eap.aka(eap.RESPONSE, 2, CLIENT_ERROR, (22, b"\0\0"))


def peer(only=None, milenage=MILENAGE):
    return EapPeer(IDENTITY, None, only, bytes, milenage=milenage)


def keys():
    vector = MILENAGE.compute_vector(RAND)
    return derive_aka_keys(IDENTITY.encode(), vector.ik, vector.ck)


def with_mac(code, subtype, *attributes):
    """A packet with AT_MAC at its end, as RFC 4187, section 10.15, defines it."""
    packet = eap.aka(code, 2, subtype, *attributes, (eap.AT_MAC, bytes(18)))
    return packet[:-16] + hmac.new(keys().k_aut, packet, hashlib.sha1).digest()[:16]


def challenge(*more, autn=None):
    autn = autn or MILENAGE.build_autn(RAND, bytes(6), bytes(2))
    return with_mac(
        eap.REQUEST, eap.AKA_CHALLENGE, (eap.AT_RAND, bytes(2) + RAND), (eap.AT_AUTN, bytes(2) + autn), *more
    )


def test_a_recorded_conversation_with_hostapd():
    one = peer()
    for request, response in RECORDED:
        assert one.respond(bytes.fromhex(request)) == bytes.fromhex(response)
    assert one.respond(SUCCESS) is None
    assert (one.method, len(one.key)) == ("EAP-AKA", 64)


def test_a_challenge_without_identity_request_is_answered():
    one = peer()
    res = MILENAGE.compute_vector(RAND).res
    assert one.respond(challenge()) == with_mac(eap.RESPONSE, eap.AKA_CHALLENGE, (eap.AT_RES, b"\0\x40" + res))
    assert one.respond(SUCCESS) is None
    assert one.key == keys().msk


def test_an_empty_checkcode_is_returned():
    """RFC 4187, section 10.13: without AKA-Identity packets, it has no value."""
    answer = peer().respond(challenge((AT_CHECKCODE, bytes(2))))
    res = MILENAGE.compute_vector(RAND).res
    assert answer == with_mac(eap.RESPONSE, eap.AKA_CHALLENGE, (eap.AT_RES, b"\0\x40" + res), (AT_CHECKCODE, bytes(2)))


def test_a_server_without_our_key_is_rejected():
    """RFC 4187, section 6.3.2: Authentication-Reject has no attributes."""
    one = peer()
    autn = MILENAGE.build_autn(RAND, bytes(6), bytes(2))
    assert one.respond(challenge(autn=autn[:-1] + bytes([autn[-1] ^ 1]))) == eap.aka(
        eap.RESPONSE, 2, AUTHENTICATION_REJECT
    )
    with pytest.raises(RefusedError, match="AUTN does not verify"):
        one.respond(FAILURE)
    assert one.key is None


CHANGED = {
    "AT_MAC": challenge()[:-1] + bytes([challenge()[-1] ^ 1]),
    "AT_MAC or identity": challenge().replace(b"\x0b\x05", b"\x8b\x05"),  # a skippable attribute instead
    "AT_CHECKCODE": challenge((AT_CHECKCODE, bytes(2) + b"x" * 20)),
    "without AT_RAND": eap.aka(eap.REQUEST, 2, eap.AKA_CHALLENGE, (eap.AT_AUTN, bytes(18))),
    "unknown attribute 99": challenge((99, b"ab")),
    "unexpected request 77": eap.aka(eap.REQUEST, 2, 77),
    "unexpected request Identity": eap.aka(eap.REQUEST, 2, eap.AKA_IDENTITY),
}


@pytest.mark.parametrize("problem", CHANGED)
def test_changed_requests_are_answered_with_client_error(problem):
    one = peer()
    assert one.respond(CHANGED[problem]) == UNABLE
    with pytest.raises(RefusedError, match=problem.split(" or ")[0]):
        one.respond(FAILURE)
    with pytest.raises(RefusedError, match="before the method finished"):
        one.respond(SUCCESS)


def test_skippable_attributes_are_ignored():
    """RFC 4187, section 8.1: types of 128 and more."""
    one = peer()
    one.respond(challenge((200, b"ab")))
    assert one.respond(SUCCESS) is None


@pytest.mark.parametrize("before", [[], [IDENTITY_REQUEST]])
def test_an_early_success_is_rejected(before):
    one = peer()
    for packet in before:
        one.respond(packet)
    with pytest.raises(RefusedError, match="before the method finished"):
        one.respond(SUCCESS)


def test_a_refusal_before_the_challenge_is_acknowledged():
    """RFC 4187, section 6.1: code 16384 has the P bit, so that there is no AT_MAC."""
    one = peer()
    request = eap.aka(eap.REQUEST, 2, NOTIFICATION, (AT_NOTIFICATION, b"\x40\0"))
    assert one.respond(request) == eap.aka(eap.RESPONSE, 2, NOTIFICATION)
    with pytest.raises(RefusedError, match="refuses: general failure"):
        one.respond(FAILURE)


def test_a_refusal_after_the_challenge_is_acknowledged_with_a_mac():
    one = peer()
    one.respond(challenge())
    request = with_mac(eap.REQUEST, NOTIFICATION, (AT_NOTIFICATION, b"\x04\x02"))
    assert one.respond(request) == with_mac(eap.RESPONSE, NOTIFICATION)
    with pytest.raises(RefusedError, match="refuses: temporarily denied"):
        one.respond(FAILURE)


def test_an_unprotected_notification_after_the_challenge_is_rejected():
    one = peer()
    one.respond(challenge())
    with pytest.raises(RefusedError, match="notification whose AT_MAC does not verify"):
        one.respond(eap.aka(eap.REQUEST, 2, NOTIFICATION, (AT_NOTIFICATION, b"\x04\x02")))


def test_only_methods_with_a_secret_are_accepted():
    request = eap.eap(eap.REQUEST, 3, eap.MD5, b"\x01x")
    assert peer().respond(request) == eap.eap(eap.RESPONSE, 3, eap.NAK, bytes([eap.AKA]))
    password_only = EapPeer("carol", "tuna", None, bytes)
    assert password_only.respond(IDENTITY_REQUEST) == eap.eap(eap.RESPONSE, 1, eap.NAK, bytes([26, 4]))


@pytest.mark.parametrize("size", range(6, len(CHALLENGE)))
def test_truncated_challenges_establish_nothing(size):
    one = peer()
    one.respond(IDENTITY_REQUEST)
    packet = CHALLENGE[:2] + size.to_bytes(2) + CHALLENGE[4:size]
    with suppress(RefusedError):
        one.respond(packet)
    assert one.key is None
