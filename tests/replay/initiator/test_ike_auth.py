"""IKE_AUTH where it goes another way than in `test_initiator`: EAP alone, and responses that lack something."""

import pytest

from tests.craft import eap, ike
from tests.replay.driving import Wire, credentials, initiator, shape
from tests.replay.responder import IDENTITY, Responder

EAP = credentials(eap_identity="carol", eap_password="tuna")


def reason(responder, **changes):
    """Why a handshake with EAP is given up; what the responder was told."""
    wire = Wire(initiator(shape(auth_initiator="eap", **changes), EAP), responder.answer)
    result = wire.begin()
    assert not result.established
    wire.close()
    return result.reason


class Eap(Responder):
    """Answers IKE_AUTH with given payloads, one list for each request."""

    def __init__(self, *rounds):
        super().__init__(md5_password=b"tuna")
        self.rounds = list(rounds)

    def _auth(self, ident, bodies):
        self.first_auth = ident
        self.identity = bodies.get(ike.ID_I, b"")
        return self.rounds.pop(0)


ID = (ike.ID_R, IDENTITY)
ASKED = (ike.EAP, eap.eap(1, 7, eap.IDENTITY))
CHALLENGED = (ike.EAP, eap.eap(1, 8, eap.MD5, bytes([16]) + bytes(16)))
SUCCESS = (ike.EAP, eap.eap(3, 8))


def test_eap_alone_needs_a_method_that_makes_a_key():
    """RFC 5998, section 4: EAP-MD5 authenticates nobody but us."""
    assert reason(Eap([ID, ASKED], [CHALLENGED], [SUCCESS])) == (
        "the responder has not authenticated itself, and EAP-MD5 does not derive a key"
    )


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ([[]], "the responder sends no identity"),
        ([[ID]], "the responder does not start or continue EAP"),
        ([[ike.notify(ike.AUTHENTICATION_FAILED)]], "AUTHENTICATION_FAILED"),
        ([[ID, ASKED], [ike.notify(ike.AUTHENTICATION_FAILED)]], "AUTHENTICATION_FAILED"),
        ([[ID, ASKED], [(ike.EAP, eap.eap(4, 7))]], "EAP failure"),
        (
            [[ID, ASKED], [(ike.EAP, eap.eap(4, 7)), ike.notify(ike.AUTHENTICATION_FAILED)]],
            "AUTHENTICATION_FAILED",
        ),
        ([[ID, ASKED], [SUCCESS]], "EAP success before the method finished"),
        ([[ID, ike.auth(2, bytes(32)), ASKED]], "AUTH does not verify: the responder has a different secret"),
        ([[(ike.ID_R, b"\2\0\0")]], "4 bytes are needed, 3 are left (at byte 0)"),
    ],
)
def test_eap_success_without_a_method_fails(rounds, said):
    responder = Eap(*rounds)
    assert reason(responder) == said
    assert responder.refused == ([ike.AUTHENTICATION_FAILED] if "verify" in said else [])


def test_a_last_response_without_auth():
    responder = Responder(md5_password=b"tuna")
    before = responder._auth

    def auth(ident, bodies):
        result = before(ident, bodies)
        return [item for item in result if item[0] != ike.AUTH] if ike.AUTH in bodies else result

    responder._auth = auth
    assert reason(responder) == "the responder sends no AUTH after EAP"


def test_more_than_one_authentication():
    responder = Responder(auth_notifies=[ike.notify(16405)])
    result = Wire(initiator(), responder.answer).begin()
    assert result.reason == "the responder requests several authentications (RFC 4739)"


@pytest.mark.parametrize("kind", [1, 7, 24])
def test_an_error_that_ends_the_ike_sa_beside_a_good_auth(kind):
    """RFC 7296, section 2.21.2: UNSUPPORTED_CRITICAL_PAYLOAD, INVALID_SYNTAX, AUTHENTICATION_FAILED.

    charon with childless = force does this: it logs "peer did not initiate a childless IKE_SA" and deletes the IKE SA.
    """
    responder = Responder(auth_notifies=[ike.notify(38), ike.notify(kind)])
    wire = Wire(initiator(), responder.answer)
    result = wire.begin()
    words = {1: "UNSUPPORTED_CRITICAL_PAYLOAD", 7: "INVALID_SYNTAX", 24: "AUTHENTICATION_FAILED"}
    assert (result.established, result.reason) == (False, words[kind])
    wire.close()
    assert not responder.deleted  # there is nothing to delete
    assert responder.refused == []


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (38, "TS_UNACCEPTABLE"),
        (35, "NO_ADDITIONAL_SAS"),
        (43, "TEMPORARY_FAILURE"),
        (8888, "error notify 8888"),
    ],
)
def test_an_error_of_the_child_sa(kind, said):
    responder = Responder(auth_notifies=[ike.notify(16384), ike.notify(40961), ike.notify(kind)])
    responder.child = False
    result = Wire(initiator(), responder.answer).begin()
    assert (result.established, result.child_error) == (True, said)
    assert result.exchanges[-1].answer == said


def test_a_child_sa_that_nobody_speaks_of():
    responder = Responder()
    responder.child = False
    wire = Wire(initiator(), responder.answer)
    result = wire.begin()
    assert result.established
    assert result.child_error == "the response has neither an SA payload nor an error"
    childless = Responder(init_notifies=[*Responder().init_notifies, ike.notify(16418)])
    result = Wire(initiator(shape(esp_proposals=())), childless.answer).begin()
    assert (result.established, result.child_error) == (True, None)


def test_a_responder_that_begins_eap_unasked():
    responder = Responder(md5_password=b"tuna")
    responder._auth = lambda ident, bodies: [ID, ASKED]
    result = Wire(initiator(), responder.answer).begin()
    assert result.reason == "the responder does not authenticate itself"
