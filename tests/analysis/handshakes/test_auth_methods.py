"""What the clear messages tell of proposals, abilities and authentication."""

import pytest

from ikeanalyze.analysis.handshakes.auth_methods import AuthMethods, build_type_names, get_exchange_name, guess_auth
from tests.analysis.analyse_captures import Handshake, analyse, only
from tests.craft import Trace, ike


def row_of(handshake, **setup):
    trace = Trace()
    trace.play(handshake.setup(**setup))
    return only(analyse(trace))


def test_the_proposal_that_was_chosen():
    row = row_of(Handshake(1, proposals=[ike.CLASSIC, ike.HYBRID]))
    assert (row["prf"], row["key_exchange"]) == ("HMAC-SHA2-256", "ECP-256")
    assert "CBC" in row["encryption"]
    assert "128" in row["encryption"]
    assert row["integrity"] is not None
    assert row["additional_key_exchanges"] == []
    # both were offered, in the initiator's order
    assert len(row["offered"]) == 2
    assert "ML-KEM-768" in row["offered"][1]


def test_additional_key_exchanges_keep_their_slots():
    transforms = [
        ike.Transform(ike.ENCR, ike.ENCR_AES_GCM_16, 256),
        ike.Transform(ike.PRF, ike.PRF_HMAC_SHA2_256),
        ike.Transform(ike.DH, ike.CURVE25519),
        ike.Transform(ike.ADDKE3, ike.ML_KEM_1024),
        ike.Transform(ike.ADDKE1, ike.ML_KEM_512),
        ike.Transform(ike.ADDKE2, 0),  # NONE
    ]
    row = row_of(Handshake(1, proposals=[ike.Proposal(transforms)]))
    assert row["additional_key_exchanges"] == [
        {"slot": 1, "method": "ML-KEM-512", "id": 35},
        {"slot": 3, "method": "ML-KEM-1024", "id": 37},
    ]
    assert row["integrity"] is None


def test_a_transform_of_tomorrow_keeps_its_number():
    transforms = [*ike.CLASSIC.transforms, ike.Transform(ike.ADDKE7, 4711)]
    row = row_of(Handshake(1, proposals=[ike.Proposal(transforms)]))
    ((extra,),) = [row["additional_key_exchanges"]]
    assert (extra["slot"], extra["id"]) == (7, 4711)
    assert "4711" in extra["method"]


def test_what_the_peers_support():
    row = row_of(Handshake(1, proposals=[ike.HYBRID], notifies=[ike.notify(ike.USE_PPK), ike.notify(50000)]))
    for side in ("initiator", "responder"):
        supports = row[f"{side}_supports"]
        assert "SIGNATURE_HASH_ALGORITHMS" in " ".join(supports)
        assert {"USE_PPK", "INTERMEDIATE_EXCHANGE_SUPPORTED"} <= set(supports)
        assert any("50000" in name for name in supports)
        assert not any("NAT_DETECTION" in name for name in supports)


def test_the_answer_to_the_last_attempt_counts():
    row = row_of(Handshake(1), before="both")
    assert row["key_exchange"] == "ECP-256"
    assert "COOKIE" not in row["initiator_supports"]


@pytest.mark.parametrize(
    ("rounds", "asked", "answered", "expected"),
    [
        (1, 300, 250, AuthMethods("psk", "psk", None, guessed=True)),
        (1, 300, 1500, AuthMethods("psk", None, None, guessed=True)),
        (1, 1500, 300, AuthMethods(None, "psk", None, guessed=True)),
        (1, 1500, 1500, None),
        (1, 0, 0, None),
        (4, 300, 250, AuthMethods("eap", None, None, guessed=True)),
    ],
)
def test_methods_guessed_from_rounds_and_sizes(rounds, asked, answered, expected):
    assert guess_auth(rounds, asked, answered) == expected


def test_guessed_methods_are_marked():
    row = row_of(Handshake(1))
    assert (row["auth_initiator"], row["auth_responder"], row["auth_guessed"]) == ("psk", "psk", True)
    row = row_of(Handshake(1), eap=3)
    assert (row["auth_initiator"], row["auth_eap"], row["auth_guessed"]) == ("eap", None, True)
    # a certificate on either side: nothing to be said of the method
    row = row_of(Handshake(1), auth=(2, 2))
    assert (row["auth_initiator"], row["auth_responder"], row["auth_guessed"]) == (None, None, False)


def test_authentication_methods_have_names():
    assert get_exchange_name(2, 34) == "IKE_SA_INIT"
    assert get_exchange_name(2, 43) == "IKE_INTERMEDIATE"
    assert "241" in get_exchange_name(2, 241)
    assert get_exchange_name(1, 2) != get_exchange_name(2, 2)
    names = build_type_names()
    assert len(names) == 4 * 256
    assert (names[34], names[256 + 2], names[512 + 11]) == (
        "IKE_SA_INIT",
        get_exchange_name(1, 2),
        "Access-Challenge",
    )
    # HIP: packet types (RFC 7401, section 5.3), then exchanges
    assert (names[768 + 2], names[768 + 128 + 1]) == ("R1", "I1-R1")
    assert (names[768 + 16], names[768 + 128 + 16], names[768 + 128 + 18]) == (
        "UPDATE",
        "UPDATE",
        "CLOSE-CLOSE_ACK",
    )
