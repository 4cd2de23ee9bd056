"""Diagnoses that need decrypted payloads, or RADIUS."""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.analysis.analyse_captures import analyse, only
from tests.analysis.decrypt_captures import look
from tests.analysis.encrypted_handshakes import CHILD, IDENTITIES, PSK, Sa, table
from tests.analysis.exchanges.test_radius import Login, ask
from tests.craft import MS, SECOND, Trace, eap, ike, radius, udp_packet
from tests.craft.trace import START_NS

ME, YOU = IDENTITIES[True], IDENTITIES[False]
FAILED = ike.notify(ike.AUTHENTICATION_FAILED)
#: PPK_IDENTITY_KEY: an identity and its confirmation (RFC 9867).
PPKS = [ike.notify(16446, b"\2ppk" + bytes(8))]
#: When crafted captures begin.
NOW = datetime.fromtimestamp(START_NS // SECOND, UTC)


def diagnose(sa, messages):
    """The diagnosis with the keys of the IKE SA."""
    trace = Trace()
    trace.play(messages)
    entries = only(look(trace, table(*sa.key_sets)).analysis)["diagnosis"]
    return [(entry["code"], entry["confidence"], entry["message"]) for entry in entries or ()]


def refused(sa, request, response, *, by_initiator=False):
    """A set-up whose IKE_AUTH has these payloads, and which the initiator refuses afterwards."""
    messages = [*sa.init(), *sa.authenticated(request=request, response=response)]
    if by_initiator:
        messages += sa.swap(ike.INFORMATIONAL, [FAILED], [])
    return messages


def test_a_refusal_with_ppks_may_be_about_them():
    """A wrong PPK gives AUTHENTICATION_FAILED, as strongSwan 6.1 shows (RFC 8784, section 3)."""
    sa = Sa(1, proposals=[ike.CLASSIC], notifies=[ike.notify(16435)])
    [(code, confidence, message)] = diagnose(sa, refused(sa, [ME, PSK, *CHILD], [FAILED]))
    assert (code, confidence) == ("auth-failed", "certain")
    assert message.endswith("Both sides announced a post-quantum pre-shared key (USE_PPK), on which AUTH depends, too.")


def announce_ppk_in_intermediate(kind):
    """As libreswan 5.2: the initiator announces both kinds of PPK, the responder the one for IKE_INTERMEDIATE."""
    announced = ike.notify(kind)
    request = Sa(1, proposals=[ike.CLASSIC], notifies=[ike.notify(16435), announced]).init()[0]
    sa = Sa(1, proposals=[ike.CLASSIC], notifies=[announced], epochs=2)
    return sa, [request, *sa.init()[1:]]


def refuse_after_ppk_in_intermediate(kind):
    sa, messages = announce_ppk_in_intermediate(kind)
    messages += sa.swap(ike.IKE_INTERMEDIATE, PPKS, [ike.notify(16436, b"\2ppk")])
    sa.epoch = 1
    return sa, [*messages, *sa.authenticated(request=[ME, PSK, *CHILD], response=[FAILED])]


def refuse_ppk_in_intermediate(kind):
    """The responder insists on a PPK, and has none of those that the initiator names."""
    sa, messages = announce_ppk_in_intermediate(kind)
    return sa, [*messages, *sa.swap(ike.IKE_INTERMEDIATE, PPKS, [FAILED])]


@pytest.mark.parametrize("kind", [16445, 50209])
def test_a_refusal_after_a_ppk_in_ike_intermediate_is_not_about_it(kind):
    """Before IKE_AUTH, both sides know that they have the same PPK: PPK_IDENTITY_KEY confirms it (RFC 9867)."""
    [(code, _, message)] = diagnose(*refuse_after_ppk_in_intermediate(kind))
    assert code == "auth-failed"
    assert "PPK" not in message


@pytest.mark.parametrize("kind", [16445, 50209])
def test_a_refusal_of_the_ppks_in_ike_intermediate(kind):
    [(code, confidence, message)] = diagnose(*refuse_ppk_in_intermediate(kind))
    assert (code, confidence) == ("auth-failed", "consistent with")
    assert message.startswith("The responder answered IKE_INTERMEDIATE with AUTHENTICATION_FAILED, before")


def stop_after_ppk_in_intermediate():
    """The responder has none of the PPKs and goes on without, and the initiator insists on one (RFC 9867)."""
    sa, messages = announce_ppk_in_intermediate(16445)
    trace = Trace()
    trace.play([*messages, *sa.swap(ike.IKE_INTERMEDIATE, PPKS, [])])
    trace.send(60 * SECOND, b"something else", sport=53, dport=53)
    return trace


def test_an_initiator_that_stops_after_ike_intermediate_may_insist_on_a_ppk():
    [entry] = only(analyse(stop_after_ppk_in_intermediate()))["diagnosis"]
    assert (entry["code"], entry["confidence"]) == ("initiator-silent", "consistent with")
    assert "Both sides announced a post-quantum pre-shared key (PPK) for this exchange" in entry["message"]


def refuse_additional_key_exchange(notify=ike.INVALID_SYNTAX):
    """A responder that cannot use the public key (RFC 9242, section 3.4)."""
    sa = Sa(1)
    request = [ike.ke(ike.ML_KEM_768, bytes(1184))]
    return sa, [*sa.init(), *sa.swap(ike.IKE_INTERMEDIATE, request, [ike.notify(notify)])]


@pytest.mark.parametrize("notify", [ike.INVALID_SYNTAX, ike.AUTHENTICATION_FAILED])
def test_a_refusal_of_an_additional_key_exchange(notify):
    [(code, confidence, message)] = diagnose(*refuse_additional_key_exchange(notify))
    assert (code, confidence) == ("error-notify", "certain")
    name = {7: "INVALID_SYNTAX", 24: "AUTHENTICATION_FAILED"}[notify]
    assert message == f"The handshake was ended in IKE_INTERMEDIATE by the error notify {name}."


def classic():
    return Sa(1, proposals=[ike.CLASSIC])


def test_a_set_up_without_problems():
    sa = classic()
    assert diagnose(sa, sa.whole()) == []


def test_the_responder_refuses_the_initiator():
    sa = classic()
    wanted = ike.identification(ike.ID_R, b"sun.example")
    assert diagnose(sa, refused(sa, [ME, wanted, PSK, *CHILD], [FAILED])) == [
        (
            "auth-failed",
            "certain",
            "The responder refused the initiator's authentication with AUTHENTICATION_FAILED "
            '(initiator "ini", wanted responder "sun.example").',
        )
    ]


def test_the_initiator_refuses_the_responder():
    sa = classic()
    messages = refused(sa, [ME, PSK, *CHILD], [YOU, PSK, *CHILD], by_initiator=True)
    assert diagnose(sa, messages) == [
        (
            "auth-failed",
            "certain",
            "The initiator refused the responder's authentication with AUTHENTICATION_FAILED "
            '(initiator "ini", responder "res").',
        )
    ]


def test_the_initiator_refuses_a_response_that_refused_the_child_sa():
    """Without an AUTH payload in the response, credentials are not the cause."""
    sa = classic()
    messages = refused(sa, [ME, PSK, *CHILD], [ike.notify(ike.NO_PROPOSAL_CHOSEN)], by_initiator=True)
    [(code, confidence, message)] = diagnose(sa, messages)
    assert (code, confidence) == ("no-proposal-chosen", "certain")
    assert "ended IKE_AUTH with NO_PROPOSAL_CHOSEN" in message


def test_the_responder_has_another_identity_than_the_initiator_wants():
    sa = classic()
    wanted = ike.identification(ike.ID_R, b"sun.example")
    messages = refused(sa, [ME, wanted, PSK, *CHILD], [YOU, PSK, *CHILD], by_initiator=True)
    assert diagnose(sa, messages) == [
        (
            "identity-mismatch",
            "consistent with",
            'The initiator wanted the responder "sun.example", which authenticated as "res", and refused it '
            "(AUTHENTICATION_FAILED).",
        )
    ]


def certificate(begin, end):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gw.example")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(begin)
        .not_valid_after(end)
        .sign(key, hashes.SHA256())
    )
    return ike.CERT, b"\x04" + made.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("years", "problem"),
    [
        ((-2, -1), "the initiator's certificate CN=gw.example expired on 2024-11-24 16:00:00 UTC, 365 days before"),
        (
            (1, 2),
            "the initiator's certificate CN=gw.example is not valid before 2026-11-24 16:00:00 UTC, 365 days later",
        ),
    ],
)
def test_a_certificate_that_is_not_valid(years, problem):
    sa = classic()
    begin, end = (NOW.replace(year=NOW.year + year) for year in years)
    messages = refused(sa, [ME, certificate(begin, end), PSK, *CHILD], [FAILED])
    assert diagnose(sa, messages) == [
        (
            "certificate-not-valid",
            "consistent with",
            f"The authentication failed (AUTHENTICATION_FAILED), and {problem}.",
        )
    ]


def test_a_certificate_that_is_valid_is_not_blamed():
    sa = classic()
    begin, end = (NOW.replace(year=NOW.year + year) for year in (-1, 1))
    messages = refused(sa, [ME, certificate(begin, end), PSK, *CHILD], [FAILED])
    assert [code for code, *_ in diagnose(sa, messages)] == ["auth-failed"]


@pytest.mark.parametrize(
    ("notify", "code", "words"),
    [
        (38, "ts-unacceptable", "selectors (10.1.0.0/24 to 10.2.0.0/24) (TS_UNACCEPTABLE)"),
        (ike.NO_PROPOSAL_CHOSEN, "no-proposal-chosen", "with NO_PROPOSAL_CHOSEN: AES-GCM-16-256"),
        (36, "childless", "refused with INTERNAL_ADDRESS_FAILURE"),
    ],
)
def test_the_child_sa_is_refused(notify, code, words):
    sa = classic()
    ((seen, confidence, sentence),) = diagnose(sa, refused(sa, [ME, PSK, *CHILD], [YOU, PSK, ike.notify(notify)]))
    assert (seen, confidence) == (code, "certain")
    assert words in sentence
    assert sentence.startswith("The IKE SA was established without a CHILD_SA")


@pytest.mark.parametrize(
    ("data", "gateway"),
    [
        (b"\1\4\xcb\0\x71\1", " (203.0.113.1)"),
        (b"\2\x10\x20\1\x0d\xb8" + bytes(11) + b"\1", " (2001:db8::1)"),
        (b"\3\x0cgw2.example.", " (gw2.example.)"),
        (b"\1\4\xcb", ""),  # cut short
    ],
)
def test_a_redirect_in_ike_auth_is_certain(data, gateway):
    """RFC 5685, section 6: IDr, [CERT,] AUTH, N(REDIRECT), and no CHILD_SA; section 7.2: the data of REDIRECT."""
    sa = classic()
    assert diagnose(sa, refused(sa, [ME, PSK, *CHILD], [YOU, PSK, ike.notify(16407, data)])) == [
        (
            "redirected",
            "certain",
            "The IKE SA was established without a CHILD_SA: the responder redirected the initiator to another "
            f"gateway{gateway} with REDIRECT in IKE_AUTH.",
        )
    ]


@pytest.mark.parametrize("proposals", [[ike.CLASSIC], [ike.HYBRID]])
def test_the_child_sa_is_refused_with_the_ike_sa(proposals):
    """The proposals of IKE_AUTH are for the CHILD_SA; one for the IKE SA was accepted before (RFC 7296, 1.2)."""
    sa = Sa(1, proposals=proposals)
    messages = refused(sa, [ME, PSK, *CHILD], [ike.notify(ike.NO_PROPOSAL_CHOSEN)])
    assert diagnose(sa, messages) == [
        (
            "no-proposal-chosen",
            "certain",
            "The responder, which had accepted a proposal for the IKE SA, ended IKE_AUTH with NO_PROPOSAL_CHOSEN: it "
            "refused every proposal for the CHILD_SA: AES-GCM-16-256/NO-ESN, and did not set up the IKE SA without one.",
        )
    ]


def test_an_access_reject():
    login = Login()
    reject = radius.reject(login.packets[2], eap.eap(eap.FAILURE, 9))
    login.messages = login.messages[:8]
    (entry,) = only(analyse(login.play(Trace(), ending=reject)))["diagnosis"]
    assert (entry["code"], entry["confidence"]) == ("aaa-rejected", "certain")
    assert "Access-Reject" in entry["message"]


@pytest.mark.parametrize(("messages", "confidence"), [(6, "certain"), (5, "consistent with")])
def test_an_aaa_server_that_never_answers(messages, confidence):
    """The responder gives up, or keeps asking until the capture ends."""
    login = Login()
    trace = Trace()
    for place, message in enumerate(login.messages[:messages]):
        late = 3000 if place == 5 else 0
        trace.message((place // 2 * 30 + place % 2 * 10 + late) * MS, message)
    for time in (63, 1063, 2063):
        ask(trace, time * MS, login.packets[0])
    trace.ip(9 * SECOND, udp_packet(b"something else", 53, 53))
    (entry,) = only(analyse(trace))["diagnosis"]
    assert (entry["code"], entry["confidence"]) == ("aaa-silent", confidence)
    assert "answered none of the 3 RADIUS requests" in entry["message"]
    assert (entry["exchange"], entry["message_id"], entry["kind"]) == ("IKE_AUTH", 2, "request")
