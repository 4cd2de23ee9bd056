"""Authentication methods of the initiator, and which proofs of a responder it accepts; keys are made here."""

import datetime as dt
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from msgspec import structs

from ikeanalyze.crypto.aka.milenage import Milenage
from ikeanalyze.crypto.algorithms import PRF
from ikeanalyze.lab.daemons import certificates as daemons_certificates
from ikeanalyze.replay.credentials import Credentials, parse_identity
from ikeanalyze.replay.initiator.ike_auth import (
    InitiatorAuth,
    choose_auth,
    choose_identity,
    make_auth_payload,
    make_shared_key_auth,
    verify_expected_identity,
    verify_responder,
    verify_shared_key_auth,
)
from ikeanalyze.replay.initiator.interface import CannotReplayError, RefusedError
from ikeanalyze.wire.ikev2.payloads import Authentication, Certificate, Identification
from tests.replay.driving import shape
from tests.replay.responder import KEY_PAD, prf

CHAIN = daemons_certificates.make_certificate_chain("ecdsa", 256, 3, "responder.lab")
OTHER = daemons_certificates.make_certificate_chain("ecdsa", 256, 3, "responder.lab")
OCTETS = b"message and nonce and MAC"
SHA2_256 = PRF[5]
NAME = Identification(2, b"responder.lab")
PSK = Credentials(psk=b"swordfish")
#: RFC 7427, A.3.2: ecdsa-with-sha256.
ECDSA_WITH_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")


def loaded(pem):
    return x509.load_pem_x509_certificate(pem.encode())


TRUSTING = Credentials(authorities=(loaded(CHAIN.root),))
SIGNING = Credentials(key=load_pem_private_key(CHAIN.key.encode(), None), certificates=(loaded(CHAIN.end),))
EAP = Credentials(eap_identity="carol", eap_password="tuna")
AKA = Credentials(eap_identity="0001010000000001", milenage=Milenage(bytes(16), bytes(16)))


def sent(chain=CHAIN, *, encoding=4):
    return [Certificate(encoding, loaded(pem).public_bytes(Encoding.DER)) for pem in chain.certificates[:-1]]


def signed(chain=CHAIN, octets=OCTETS):
    key = load_pem_private_key(chain.key.encode(), None)
    signature = key.sign(octets, ec.ECDSA(hashes.SHA256()))
    return Authentication(14, bytes([len(ECDSA_WITH_SHA256)]) + ECDSA_WITH_SHA256 + signature)


def checked(found=None, certificates=None, identity=NAME, credentials=TRUSTING, time=None):
    return verify_responder(
        found or signed(),
        sent() if certificates is None else certificates,
        identity,
        credentials,
        SHA2_256,
        OCTETS,
        time,
    )


@pytest.mark.parametrize(
    ("word", "credentials", "kind"),
    [
        ("psk", PSK, InitiatorAuth.PSK),
        ("ecdsa-384", SIGNING, InitiatorAuth.SIGNATURE),
        ("eap", EAP, InitiatorAuth.EAP),
        (None, PSK, InitiatorAuth.PSK),
        (None, SIGNING, InitiatorAuth.SIGNATURE),
        (None, EAP, InitiatorAuth.EAP),
    ],
)
def test_as_the_recorded_initiator_did(word, credentials, kind):
    assert choose_auth(shape(auth_initiator=word), credentials) is kind


def test_a_guess_gives_way_to_the_credentials():
    guess = shape(auth_initiator="psk", guessed=("auth_initiator",))
    assert choose_auth(guess, SIGNING) is InitiatorAuth.SIGNATURE
    assert choose_auth(guess, replace(SIGNING, psk=b"x")) is InitiatorAuth.PSK


@pytest.mark.parametrize(
    ("word", "eap", "credentials", "said"),
    [
        ("psk", None, SIGNING, "^the initiator authenticates with psk, and the credentials lack local.psk"),
        (
            "rsa",
            None,
            PSK,
            "authenticates with rsa, and the credentials lack local.certificate and local.key",
        ),
        ("rsa", None, SIGNING, "signs with rsa, but the key of the credentials is of type ecdsa"),
        ("eap", None, PSK, r"authenticates with eap, and the credentials lack \[eap\]"),
        ("eap", "EAP-TLS", EAP, "uses EAP-TLS; only EAP-MD5, EAP-MSCHAPv2, EAP-AKA are supported"),
        ("eap", "EAP-AKA", EAP, "uses EAP-AKA, and the credentials lack eap.ki"),
        ("eap", "EAP-MD5", AKA, "uses EAP-MD5, and the credentials lack eap.password"),
        ("null", None, PSK, "authenticates with null, which is not supported"),
        ("ml-dsa-65", None, PSK, "authenticates with ml-dsa-65, which is not supported"),
        ("rsa+eap", None, SIGNING, r"authenticates with rsa\+eap, which is not supported"),
        (None, None, Credentials(), r"neither local.psk, local.key nor \[eap\]"),
    ],
)
def test_missing_credentials_are_errors(word, eap, credentials, said):
    with pytest.raises(CannotReplayError, match=said):
        choose_auth(shape(auth_initiator=word, eap=eap), credentials)


def test_the_identity_is_that_of_the_credentials():
    recorded = parse_identity("recorded.lab")
    ours = parse_identity("ours.lab")
    address = parse_identity("192.0.2.1")
    known = shape(identity_i=recorded)
    assert choose_identity(InitiatorAuth.PSK, known, replace(PSK, local_identity=ours), address) == ours
    assert choose_identity(InitiatorAuth.PSK, known, PSK, address) == recorded
    assert choose_identity(InitiatorAuth.PSK, shape(), PSK, address) == address
    assert choose_identity(InitiatorAuth.EAP, shape(), EAP, address) == parse_identity("carol")
    name = choose_identity(InitiatorAuth.SIGNATURE, shape(), SIGNING, address)
    assert (name.type, name.data) == (9, loaded(CHAIN.end).subject.public_bytes())


def test_a_shared_secret_authenticates_both_sides():
    made = make_auth_payload(InitiatorAuth.PSK, PSK, SHA2_256, OCTETS, None)
    assert made == make_shared_key_auth(SHA2_256, b"swordfish", OCTETS)
    assert (made.method, made.data) == (2, prf(prf(b"swordfish", KEY_PAD), OCTETS))
    verify_shared_key_auth(SHA2_256, b"swordfish", OCTETS, made)
    assert checked(made, [], credentials=PSK) == "PSK"
    for wrong in (structs.replace(made, data=made.data[:-1]), make_shared_key_auth(SHA2_256, b"tuna", OCTETS)):
        with pytest.raises(RefusedError, match="AUTH does not verify: the responder has a different secret"):
            verify_shared_key_auth(SHA2_256, b"swordfish", OCTETS, wrong)
    with pytest.raises(RefusedError, match="with ECDSA with SHA2-256 instead of a shared key"):
        verify_shared_key_auth(SHA2_256, b"swordfish", OCTETS, signed())
    with pytest.raises(RefusedError, match="authenticates with a PSK, and the credentials have none"):
        checked(made, [])


def test_a_signature_authenticates_the_initiator():
    assert checked() == "ECDSA with SHA2-256"
    made = make_auth_payload(InitiatorAuth.SIGNATURE, SIGNING, SHA2_256, OCTETS, [2])
    assert checked(made) == "ECDSA with SHA2-256"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"found": signed(octets=b"others")}, "AUTH does not verify: the signature was not made with"),
        ({"found": signed(OTHER)}, "AUTH does not verify"),
        ({"certificates": []}, "sends no X.509 certificate"),
        ({"certificates": sent(encoding=12)}, "sends no X.509 certificate"),
        ({"certificates": sent()[:1]}, "certificate is not trusted"),
        ({"certificates": sent(OTHER), "found": signed(OTHER)}, "certificate is not trusted"),
        ({"credentials": PSK}, "certificate is not trusted: no authority is trusted"),
        ({"identity": parse_identity("elsewhere.lab")}, "the certificate does not name elsewhere.lab"),
        ({"time": dt.datetime(2060, 1, 1, tzinfo=dt.UTC)}, "not trusted: .*not valid"),
        (
            {"found": Authentication(13, b"")},
            "AUTH does not verify: signatures of method NULL cannot be verified",
        ),
        ({"found": Authentication(14, b"\xff")}, "AUTH does not verify"),
        (
            {"certificates": [Certificate(4, b"\x30\x03abc")]},
            "AUTH does not verify: the key of the CERT payload",
        ),
    ],
)
def test_signatures_that_are_not_accepted(given, said):
    with pytest.raises(RefusedError, match=said) as caught:
        checked(**given)
    assert "\n" not in str(caught.value)


def test_who_the_responder_has_to_be():
    verify_expected_identity(Credentials(), NAME)
    verify_expected_identity(Credentials(remote_identity=NAME), NAME)
    with pytest.raises(RefusedError, match=r"the responder is 192.0.2.2, which is not remote.identity"):
        verify_expected_identity(Credentials(remote_identity=NAME), parse_identity("192.0.2.2"))


def test_a_distinguished_name_is_compared_by_its_attributes():
    wanted = Credentials(remote_identity=parse_identity("C=CH, O=Lab, CN=resp"))
    # the same with PrintableString all over
    printable = "302a310b3009060355040613024348310c300a060355040a13034c6162310d300b0603550403130472657370"
    verify_expected_identity(wanted, Identification(9, bytes.fromhex(printable)))
    with pytest.raises(RefusedError, match=r"the responder is CN=resp, O=Lab, C=CH, which is not"):
        verify_expected_identity(wanted, parse_identity("CN=resp, O=Lab, C=CH"))
    with pytest.raises(RefusedError, match=r"the responder is 192.0.2.2, which is not"):
        verify_expected_identity(wanted, parse_identity("192.0.2.2"))


@pytest.mark.parametrize(
    ("word", "kind"), [("psk", InitiatorAuth.PSK), ("ecdsa-256", InitiatorAuth.SIGNATURE), (None, InitiatorAuth.PSK)]
)
def test_a_guess_decides_between_credentials_that_can_do_either(word, kind):
    both = replace(SIGNING, psk=b"swordfish")
    assert choose_auth(shape(auth_initiator=word, guessed=("auth_initiator",)), both) is kind


def test_a_missing_private_key_is_an_error():
    with pytest.raises(RefusedError, match="no key to sign with"):
        make_auth_payload(InitiatorAuth.SIGNATURE, PSK, SHA2_256, OCTETS, [2])
    with pytest.raises(RefusedError, match="the peer accepts signatures with"):
        make_auth_payload(InitiatorAuth.SIGNATURE, SIGNING, SHA2_256, OCTETS, [99])
