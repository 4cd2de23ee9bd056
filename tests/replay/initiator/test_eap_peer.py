"""EAP conversations: recorded between strongSwan and FreeRADIUS, and with the values of RFC 2759."""

import pytest

from ikeanalyze.replay.initiator.eap_peer import EapPeer
from ikeanalyze.replay.initiator.interface import RefusedError
from tests.craft import eap

#: eap-md5-radius: responses of strongSwan as carol with the password tuna; they are deterministic.
MD5 = [
    ("0100000501", "0200000a016361726f6c"),
    ("01010016041058fabfbb66ab2bf81a7849101cdb051d", "020100160410b4e179c0d58789543a870f3d4746ba1c"),
]
CHALLENGE = bytes.fromhex("5B5D7C7D7B3F2F3E3C2C602132262628")
PEER_CHALLENGE = bytes.fromhex("21402324255E262A28295F2B3A337C7E")
RESPONSE = bytes.fromhex("82309ECD8D708B5EA08FAA3981CD83544233114A3D85D6DF")
PROOF = b"S=407A5589115FD0D6209F510FE9C04566932CDA56"
SUCCESS = eap.eap(eap.SUCCESS, 9)


def peer(only=None, user="User", password="clientPass"):
    return EapPeer(user, password, only, lambda size: PEER_CHALLENGE[:size])


def mschapv2(code, data, identifier=7):
    """A packet of the server (draft-kamath-pppext-eap-mschapv2, section 2)."""
    body = bytes([code, identifier]) + (4 + len(data)).to_bytes(2) + data
    return eap.eap(eap.REQUEST, identifier, eap.MSCHAPV2, body)


CHALLENGING = mschapv2(1, bytes([16]) + CHALLENGE + b"server")


def test_a_recorded_conversation_of_eap_md5():
    one = peer(user="carol", password="tuna")
    for request, response in MD5:
        assert one.respond(bytes.fromhex(request)).hex() == response
    assert one.respond(eap.eap(eap.SUCCESS, 1)) is None
    assert (one.method, one.key) == ("EAP-MD5", None)


def test_the_values_of_rfc_2759():
    one = peer()
    assert one.respond(eap.eap(eap.REQUEST, 6, eap.IDENTITY)) == eap.eap(eap.RESPONSE, 6, eap.IDENTITY, b"User")
    body = bytes([49]) + PEER_CHALLENGE + bytes(8) + RESPONSE + b"\0" + b"User"
    assert one.respond(CHALLENGING) == eap.eap(
        eap.RESPONSE, 7, eap.MSCHAPV2, b"\2\7" + (4 + len(body)).to_bytes(2) + body
    )
    answer = one.respond(mschapv2(3, PROOF + b" M=welcome", 8))
    assert answer == eap.eap(eap.RESPONSE, 8, eap.MSCHAPV2, b"\3")
    assert one.respond(SUCCESS) is None
    assert one.method == "EAP-MSCHAPv2"
    assert one.key[16:32].hex() == "8b7cdc149b993a1ba118cb153f56dccb"  # RFC 3079, section 3.5.3


def test_a_server_that_does_not_know_the_password():
    one = peer()
    one.respond(CHALLENGING)
    with pytest.raises(RefusedError, match="does not know the password"):
        one.respond(mschapv2(3, PROOF[:-1] + b"7"))


@pytest.mark.parametrize("before", [[], [CHALLENGING], [eap.eap(eap.REQUEST, 1, eap.IDENTITY)]])
def test_an_early_success_is_rejected(before):
    one = peer()
    for packet in before:
        one.respond(packet)
    with pytest.raises(RefusedError, match="before the method finished"):
        one.respond(SUCCESS)


def test_eap_failure_ends_the_conversation():
    one = peer()
    one.respond(CHALLENGING)
    assert one.respond(mschapv2(4, b"E=691 R=0 C=00 V=3 M=no")) == eap.eap(eap.RESPONSE, 7, eap.MSCHAPV2, b"\4")
    with pytest.raises(RefusedError, match="EAP failure"):
        one.respond(eap.eap(eap.FAILURE, 7))


@pytest.mark.parametrize(
    ("only", "asked", "wanted"),
    [
        (None, eap.TLS, bytes([26, 4])),
        ("EAP-MD5", eap.MSCHAPV2, bytes([4])),
        ("EAP-MSCHAPv2", eap.MD5, bytes([26])),
        ("EAP-TLS", eap.TLS, b"\0"),
        (None, 254, bytes([26, 4])),
    ],
)
def test_other_methods_are_refused(only, asked, wanted):
    """RFC 3748, section 5.3.1: a Nak with what is wanted."""
    data = bytes(3) + b"\0\0\0\x2b" if asked == 254 else b"x"
    answer = peer(only).respond(eap.eap(eap.REQUEST, 3, asked, data))
    assert answer == eap.eap(eap.RESPONSE, 3, eap.NAK, wanted)


def test_notifications_are_answered():
    request = eap.eap(eap.REQUEST, 3, 2, b"the building closes at six")
    assert peer().respond(request) == eap.eap(eap.RESPONSE, 3, 2)


WHOLE = [
    b"",
    b"\1\1\0\3",
    b"\1\1\0\xff\4",
    eap.eap(eap.RESPONSE, 1, eap.IDENTITY),
    eap.eap(eap.REQUEST, 1),
    eap.eap(7, 1),
    mschapv2(1, bytes([8]) + bytes(8)),
    mschapv2(1, bytes([16]) + bytes(8)),
    mschapv2(9, b""),
    eap.eap(eap.REQUEST, 1, eap.MSCHAPV2),
    eap.eap(eap.REQUEST, 1, eap.MD5),
    eap.eap(eap.REQUEST, 1, eap.MD5, b"\x20abc"),
]


@pytest.mark.parametrize("packet", WHOLE, ids=range(len(WHOLE)))
def test_packets_that_make_no_sense(packet):
    with pytest.raises(RefusedError) as caught:
        peer().respond(packet)
    assert "clientPass" not in str(caught.value)
