"""How handshakes ended and how the peers authenticated, by what their messages say."""

from datetime import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

import ikeanalyze
from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.analysis.handshakes.contents.authenticated_outcome import collect_certificates, outcome_from_payloads
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.payload_chain import Payload
from tests.analysis.decrypt_captures import look, make_trace
from tests.analysis.encrypted_handshakes import CHILD, ESP, IDENTITIES, PSK, Sa, table
from tests.analysis.ikev1_phase1 import Phase
from tests.craft import SECOND, eap, ike, ikev1
from tests.paths import CAPTURES, ROOT

ME, YOU = IDENTITIES[True], IDENTITIES[False]
FAILED = ike.notify(ike.AUTHENTICATION_FAILED)
TS_UNACCEPTABLE = ike.notify(38)
ANOTHER_AUTH_FOLLOWS = ike.notify(16405)
REDIRECT = ike.notify(16407, b"\1\4\xcb\0\x71\1")  # to 203.0.113.1
MADE = ROOT / "tests" / "wire" / "x509" / "certificates"
#: DER of AlgorithmIdentifiers: RFC 5758, section 3.2 (two); RFC 8410, section 3; RFC 9881, section 2; RFC 8017, A.2.4.
ECDSA_SHA384 = bytes.fromhex("300a06082a8648ce3d040303")
RSA_SHA256 = bytes.fromhex("300d06092a864886f70d01010b0500")
ED25519 = bytes.fromhex("300506032b6570")
ML_DSA_65 = bytes.fromhex("300b0609608648016503040312")


def content(exchange_type, payloads, *, initiator=True, response=False, ident=1, encrypted=True, exchange=None):
    listed = tuple(Payload(kind, False, body, 0) for kind, body in payloads)
    return DecodedMessage(
        handshake=0, exchange=ident if exchange is None else exchange, protocol=Protocol.IKEV2,
        exchange_type=exchange_type, message_id=ident, from_initiator=initiator, response=response,
        set_up=exchange_type in (ike.IKE_SA_INIT, ike.IKE_AUTH), frame=1, header=bytes(28), payloads=listed,
        error=None, encrypted=encrypted, epoch=0, verified=True, clear=0, first=0, plaintext=b"",
    )  # fmt: skip


def rounds(*pairs):
    """IKE_AUTH exchanges: payloads of requests and responses; None: not readable."""
    result = []
    for ident, pair in enumerate(pairs, 1):
        for response, payloads in zip((False, True), pair, strict=True):
            if payloads is not None:
                result.append(content(ike.IKE_AUTH, payloads, initiator=not response, response=response, ident=ident))
    return result


def signature(algorithm):
    """RFC 7427, section 3."""
    return ike.auth(14, bytes([len(algorithm)]) + algorithm + bytes(64))


def certificate(key, digest=None):
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gw.example")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1)
    builder = builder.not_valid_before(datetime(2026, 1, 1)).not_valid_after(datetime(2027, 1, 1))
    der = builder.sign(key, digest).public_bytes(serialization.Encoding.DER)
    return ike.CERT, b"\x04" + der


def ended(proof):
    return None if proof.outcome is None else proof.outcome.name.lower(), proof.reason, proof.undone


# ---- outcomes, of whole captures


CASES = {
    "established": (lambda sa: sa.authenticated(), ("established", None), None),
    "the responder refuses": (
        lambda sa: sa.authenticated(response=[FAILED]),
        ("failed", "AUTHENTICATION_FAILED"),
        None,
    ),
    # RFC 9242, section 3.4
    "the responder refuses IKE_INTERMEDIATE": (
        lambda sa: sa.swap(ike.IKE_INTERMEDIATE, [], [ike.notify(ike.INVALID_SYNTAX)]),
        ("failed", "INVALID_SYNTAX"),
        None,
    ),
    "an error notify in IKE_INTERMEDIATE that the initiator ignores": (
        lambda sa: [*sa.swap(ike.IKE_INTERMEDIATE, [], [ike.notify(ike.INVALID_SYNTAX)]), *sa.authenticated()],
        ("established", None),
        None,
    ),
    "no CHILD_SA": (
        lambda sa: sa.authenticated(response=[YOU, PSK, TS_UNACCEPTABLE]),
        ("established", None),
        "TS_UNACCEPTABLE",
    ),
    # RFC 5685, section 6: the response has no Child SA
    "the responder redirects": (
        lambda sa: sa.authenticated(response=[YOU, PSK, REDIRECT]),
        ("established", None),
        "REDIRECT",
    ),
    "a redirect in a response with a CHILD_SA": (
        lambda sa: sa.authenticated(response=[YOU, PSK, *CHILD, REDIRECT]),
        ("established", None),
        None,
    ),
    # RFC 7296, section 2.21.2: by these the IKE SA is not created, though the responder authenticates itself
    "the responder refuses and signs": (
        lambda sa: sa.authenticated(response=[YOU, PSK, FAILED]),
        ("failed", "AUTHENTICATION_FAILED"),
        None,
    ),
    "the responder finds the request malformed": (
        lambda sa: sa.authenticated(response=[YOU, PSK, ike.notify(ike.INVALID_SYNTAX)]),
        ("failed", "INVALID_SYNTAX"),
        None,
    ),
    "the initiator refuses": (
        lambda sa: [*sa.authenticated(), *sa.swap(ike.INFORMATIONAL, [FAILED], [])],
        ("failed", "AUTHENTICATION_FAILED"),
        None,
    ),
    # OpenIKED 7.4 refuses a CHILD_SA so; strongSwan's initiator then misses the AUTH payload
    "the responder refuses, and the initiator refuses that": (
        lambda sa: [
            *sa.authenticated(response=[ike.notify(ike.NO_PROPOSAL_CHOSEN)]),
            *sa.swap(ike.INFORMATIONAL, [FAILED], []),
        ],
        ("failed", "NO_PROPOSAL_CHOSEN"),
        None,
    ),
    "the initiator goes": (
        lambda sa: [*sa.authenticated(), *sa.swap(ike.INFORMATIONAL, [ike.delete()], [])],
        ("established", None),
        None,
    ),
    "there was more to come": (
        lambda sa: sa.authenticated(
            request=[ME, *CHILD], response=[YOU, PSK, (ike.EAP, eap.eap(eap.REQUEST, 1, eap.IDENTITY))]
        ),
        ("cut", None),
        None,
    ),
    "EAP fails without a notify": (
        lambda sa: [
            *sa.authenticated(
                request=[ME, *CHILD], response=[YOU, PSK, (ike.EAP, eap.eap(eap.REQUEST, 1, eap.MD5, bytes(17)))]
            ),
            *sa.authenticated(
                request=[(ike.EAP, eap.eap(eap.RESPONSE, 1, eap.MD5, bytes(17)))],
                response=[(ike.EAP, eap.eap(eap.FAILURE, 1))],
            ),
        ],
        ("failed", "EAP failure"),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_decrypted_payloads_decide_the_outcome(case):
    sa = Sa(proposals=(ike.CLASSIC,))
    make, expected, child_error = CASES[case]
    result = look(make_trace(*sa.init(), *make(sa)), table(*sa.key_sets))
    assert result.outcomes == [expected]
    assert result.analysis.handshakes["child_error"].to_list() == [child_error]
    # what did not end well has no set-up time
    assert (result.analysis.handshakes["setup_ns"][0] is None) == (expected[0] in ("failed", "cut"))


@pytest.mark.parametrize("exchange", [ike.IKE_AUTH, 39], ids=["IKE_AUTH", "GSA_AUTH"])
def test_an_error_notify_in_ike_intermediate_ends_nothing_if_authentication_follows_that_no_key_decrypts(exchange):
    sa = Sa(proposals=(ike.CLASSIC,), epochs=2)
    messages = [*sa.init(), *sa.swap(ike.IKE_INTERMEDIATE, [], [ike.notify(ike.INVALID_SYNTAX)])]
    sa.epoch = 1
    messages += sa.swap(exchange, [ME, PSK, *CHILD], [YOU, PSK, *CHILD])
    assert look(make_trace(*messages), table(sa.key_sets[0])).outcomes == [("completed", None)]


def test_a_proof_does_not_make_up_for_what_the_capture_lacks():
    sa = Sa(proposals=(ike.CLASSIC,))
    sa.init()
    result = look(make_trace(*sa.authenticated()), table(*sa.key_sets))
    assert result.outcomes == [("established", None)]
    assert result.analysis.handshakes["setup_ns"].to_list() == [None]


def test_a_refusal_that_anybody_could_have_sent_proves_nothing():
    """RFC 7296, section 2.21: what is not protected does not end an IKE SA."""
    sa = Sa(proposals=(ike.CLASSIC,))
    messages = [*sa.init(), *sa.authenticated(), sa.clear(ike.INFORMATIONAL, [FAILED], message_id=2)]
    assert look(make_trace(*messages), table(*sa.key_sets)).outcomes == [("established", None)]


def test_the_recorded_handshakes():
    """charon's log of eap-md5-radius: 'res' with a pre-shared key, 'carol' with EAP; 'IKE_SA established'."""
    path = CAPTURES / "eap-md5-radius.pcapng"
    row = ikeanalyze.read(path, keys=CAPTURES / "eap-md5-radius.charon.log.gz").handshakes.row(0, named=True)
    auth = tuple(row[f"auth_{who}"] for who in ("initiator", "responder", "eap", "guessed"))
    assert (row["outcome"], *auth) == ("established", "eap", "psk", "EAP-MD5", False)


# ---- rules


def test_without_decrypted_messages_nothing_is_proven():
    assert outcome_from_payloads([]) == outcome_from_payloads(
        [content(ike.IKE_SA_INIT, [ike.nonce(bytes(32))], encrypted=False)]
    )
    assert ended(outcome_from_payloads([])) == (None, None, False)
    assert outcome_from_payloads([]).auth is None


def test_a_request_without_a_response_proves_nothing():
    proof = outcome_from_payloads(rounds(([ME, PSK, *CHILD], None)))
    assert ended(proof) == (None, None, False)
    assert (proof.auth.initiator, proof.auth.responder) == ("psk", None)


def test_the_last_response_counts():
    first = ([ME, *CHILD], [YOU, PSK, (ike.EAP, eap.eap(eap.REQUEST, 1, eap.MD5, bytes(17)))])
    assert ended(outcome_from_payloads(rounds(first))) == (None, None, True)
    assert ended(outcome_from_payloads(rounds(first, ([PSK], [PSK, *CHILD])))) == ("established", None, False)
    assert ended(outcome_from_payloads(rounds(first, ([PSK], [FAILED])))) == ("failed", "AUTHENTICATION_FAILED", False)
    refused = content(ike.INFORMATIONAL, [FAILED], ident=3)
    assert ended(outcome_from_payloads([*rounds(first, ([PSK], [PSK])), refused])) == (
        "failed",
        "AUTHENTICATION_FAILED",
        False,
    )
    # the responder's is about something else
    other = content(ike.INFORMATIONAL, [FAILED], initiator=False, ident=0)
    assert ended(outcome_from_payloads([*rounds(first, ([PSK], [PSK])), other])) == ("established", None, False)


@pytest.mark.parametrize(
    ("payload", "word"),
    [
        (ike.auth(1, bytes(256)), "rsa"),
        (PSK, "psk"),
        (ike.auth(3, bytes(40)), "dss"),
        (ike.auth(9, bytes(64)), "ecdsa-256"),
        (ike.auth(10, bytes(96)), "ecdsa-384"),
        (ike.auth(11, bytes(132)), "ecdsa-521"),
        (ike.auth(13, bytes(32)), "null"),
        (ike.auth(201, bytes(32)), "201"),
        (signature(RSA_SHA256), "rsa"),
        (signature(ED25519), "ed25519"),
        (signature(ML_DSA_65), "ml-dsa-65"),
        (signature(ECDSA_SHA384), "ecdsa"),
        (signature(bytes.fromhex("300606042a030405")), "1.2.3.4.5"),
        (ike.auth(14, b"\xff"), "signature"),
    ],
)
def test_the_words_for_authentication_methods(payload, word):
    proof = outcome_from_payloads(rounds(([ME, payload], [YOU, PSK])))
    assert (proof.auth.initiator, proof.auth.responder, proof.auth.guessed) == (word, "psk", False)


@pytest.mark.parametrize(
    ("curve", "word"),
    [(ec.SECP256R1(), "ecdsa-256"), (ec.SECP384R1(), "ecdsa-384"), (ec.SECP521R1(), "ecdsa-521")],
)
def test_the_curve_is_that_of_the_certificate(curve, word):
    """The algorithm identifier names the hash alone; the first certificate is the sender's own (RFC 7296, 3.6)."""
    own = certificate(ec.generate_private_key(curve), hashes.SHA256())
    authority = certificate(ed25519.Ed25519PrivateKey.generate())
    proof = outcome_from_payloads(rounds(([ME, own, authority, signature(ECDSA_SHA384)], [YOU, PSK])))
    assert proof.auth.initiator == word
    # the other side's certificate says nothing of it
    proof = outcome_from_payloads(rounds(([ME, own, PSK], [YOU, signature(ECDSA_SHA384)])))
    assert proof.auth.responder == "ecdsa"


def test_certificates_have_their_sender_key_and_size():
    der = (MADE / "mldsa65.der").read_bytes()
    mine = certificate(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    contents = rounds(([ME, (ike.CERT, b"\x04" + der), mine, signature(ML_DSA_65)], [YOU, (ike.CERT, b""), PSK]))
    certificates = collect_certificates(contents)
    assert [(side, view.key.name, view.size) for side, view in certificates] == [
        (True, "ML-DSA-65", len(der)),
        (True, "ECDSA P-256", len(mine[1]) - 1),
    ]
    assert outcome_from_payloads(contents).auth.initiator == "ml-dsa-65"


def test_certificates_of_the_set_up_alone():
    later = content(ike.INFORMATIONAL, [certificate(ed25519.Ed25519PrivateKey.generate())], ident=5)
    assert collect_certificates([later]) == []


# ---- EAP

IDENTITY = ike.EAP, eap.eap(eap.REQUEST, 1, eap.IDENTITY)
CHALLENGE = ike.EAP, eap.eap(eap.REQUEST, 2, eap.MSCHAPV2, bytes(30))
ANSWER = ike.EAP, eap.eap(eap.RESPONSE, 2, eap.MSCHAPV2, bytes(30))
SUCCESS = ike.EAP, eap.eap(eap.SUCCESS, 3)
LAST = ([PSK], [PSK, *CHILD])


@pytest.mark.parametrize(
    ("first", "responder"),
    [
        ([YOU, signature(RSA_SHA256), CHALLENGE], "rsa"),
        ([YOU, PSK, CHALLENGE], "psk"),
        ([YOU, CHALLENGE], "eap"),  # RFC 5998
        (None, None),  # the AUTH payload of the end says that there was a key, and not how it was agreed on
    ],
)
def test_the_first_auth_payload_names_the_responders_method_in_eap(first, responder):
    proof = outcome_from_payloads(rounds(([ME, *CHILD], first), ([ANSWER], [SUCCESS]), LAST))
    assert ended(proof) == ("established", None, False)
    auth = proof.auth
    assert (auth.initiator, auth.responder, auth.eap) == ("eap", responder, "EAP-MSCHAPv2")


def test_eap_alone_that_did_not_come_to_its_end():
    proof = outcome_from_payloads(rounds(([ME, *CHILD], [YOU, CHALLENGE])))
    assert (proof.auth.initiator, proof.auth.responder) == ("eap", None)
    assert proof.undone


# ---- several authentications (RFC 4739)

SIGNED = [ME, signature(RSA_SHA256), *CHILD, ANOTHER_AUTH_FOLLOWS], [YOU, signature(ED25519)]


def test_ike_auth_goes_on_after_another_auth_follows():
    first = ([ME, PSK, *CHILD, ANOTHER_AUTH_FOLLOWS], [YOU, PSK])
    assert ended(outcome_from_payloads(rounds(first))) == (None, None, True)
    of_responder = ([ME, PSK, *CHILD], [YOU, PSK, ANOTHER_AUTH_FOLLOWS])
    assert ended(outcome_from_payloads(rounds(of_responder))) == (None, None, True)
    assert ended(outcome_from_payloads(rounds(first, ([ME, PSK], [FAILED])))) == (
        "failed",
        "AUTHENTICATION_FAILED",
        False,
    )
    assert ended(outcome_from_payloads(rounds(first, ([ME, PSK], [YOU, PSK, *CHILD])))) == ("established", None, False)


def test_the_last_response_has_no_auth_payload_if_the_responder_authenticates_itself_once():
    assert ended(outcome_from_payloads(rounds(SIGNED, ([ME, PSK], CHILD)))) == ("established", None, False)


@pytest.mark.parametrize(
    ("more", "initiator", "responder"),
    [
        ([([ME, PSK], [YOU, PSK, *CHILD])], "rsa+psk", "ed25519+psk"),
        ([([ME, PSK], CHILD)], "rsa+psk", "ed25519"),
        ([([ME], [CHALLENGE]), ([ANSWER], [SUCCESS]), LAST], "rsa+eap", "ed25519"),
        (
            [([ME], [CHALLENGE]), ([ANSWER], [SUCCESS]), ([PSK, ANOTHER_AUTH_FOLLOWS], [PSK]), ([ME, PSK], CHILD)],
            "rsa+eap+psk",
            "ed25519",
        ),
    ],
)
def test_each_authentication_has_its_method(more, initiator, responder):
    """The AUTH payloads that end EAP have no identity with them, and are no authentication of their own."""
    proof = outcome_from_payloads(rounds(SIGNED, *more))
    assert ended(proof) == ("established", None, False)
    assert (proof.auth.initiator, proof.auth.responder) == (initiator, responder)


# ---- what is broken


@pytest.mark.parametrize("body", [b"", b"\x0e", b"\xff\xff"])
def test_broken_payloads_prove_nothing(body):
    broken = [(kind, body) for kind in (ike.NOTIFY, ike.CERT, ike.EAP, ike.ID_R)]
    assert ended(outcome_from_payloads(rounds((broken, broken)))) == (None, None, True)
    assert ended(outcome_from_payloads(rounds((broken, [*broken, FAILED])))) == (
        "failed",
        "AUTHENTICATION_FAILED",
        False,
    )
    assert not any(view.x509 or view.key for _, view in collect_certificates(rounds((broken, broken))))


def test_proofs_contain_no_secret():
    assert ESP[1].hex() not in repr(outcome_from_payloads(rounds(([ME, PSK, ESP], [YOU, PSK, ESP]))))


# ---- IKEv1

HASH = ikev1.HASH, bytes(20)


def notify1(kind):
    return ikev1.NOTIFY, (1).to_bytes(4, "big") + bytes([1, 0]) + kind.to_bytes(2, "big")


def status(value):
    """XAuth's set: status, a basic attribute (draft-beaulieu-ike-xauth-02, section 3.1)."""
    return 14, bytes([3, 0, 0, 1]) + (0x8000 | 16527).to_bytes(2, "big") + value.to_bytes(2, "big")


def ikev1_outcome(*later):
    phase = Phase()
    trace = phase.trace()
    for step, (exchange, ident, payloads, initiator) in enumerate(later):
        data = phase.sender.send(exchange, ident, payloads)
        trace.send((2 + step) * SECOND, data, from_initiator=initiator)
    return look(trace, phase.table()).outcomes


QUICK = [(32, 7, [HASH, (1, bytes(40))], True), (32, 7, [HASH, (1, bytes(40))], False), (32, 7, [HASH], True)]


def test_ikev1_quick_mode_proves_it():
    assert ikev1_outcome(*QUICK) == [("established", None)]
    assert ikev1_outcome(*QUICK[:1])[0][0] != "established"


def test_ikev1_quick_mode_without_its_third_message():
    """Both sides accepted phase 1 before they sent quick mode; the initiator deletes the IKE SA (RFC 2408, 3.15)."""
    delete = 5, 9, [HASH, (12, (1).to_bytes(4, "big") + bytes([1, 16]) + (1).to_bytes(2, "big") + bytes(16))], True
    assert ikev1_outcome(*QUICK[:2], delete) == [("established", None)]


def test_ikev1_an_error_before_quick_mode_is_done():
    refused = 5, 8, [HASH, notify1(14)], False
    assert ikev1_outcome(QUICK[0], refused) == [("failed", "NO-PROPOSAL-CHOSEN")]
    assert ikev1_outcome((5, 8, [HASH, notify1(24578)], True), *QUICK) == [("established", None)]


def test_ikev1_an_error_afterwards_is_about_something_else():
    refused = 5, 8, [HASH, notify1(14)], False
    assert ikev1_outcome(*QUICK, (32, 9, [HASH, (1, bytes(40))], True), refused) == [("established", None)]


def test_ikev1_xauth():
    ask = 6, 5, [HASH, (14, bytes([1, 0, 0, 1]) + (16521).to_bytes(2, "big") + bytes(2))], False
    assert ikev1_outcome(ask, (6, 6, [HASH, status(0)], False)) == [("failed", "XAUTH_STATUS failure")]
    assert ikev1_outcome(ask, (6, 6, [HASH, status(1)], False), *QUICK) == [("established", None)]
    # the client's acknowledgement has no value of its own
    acknowledged = 14, bytes([4]) + status(0)[1][1:]
    assert ikev1_outcome(ask, (6, 6, [HASH, acknowledged], True), *QUICK) == [("established", None)]
