import pytest

from ikeanalyze.replay.responses import ResponseSummary, compare_responses, parse_ikev2_header, summarise_response
from tests.craft import Handshake, ike

#: What craft's responder says.
NOTIFIES = (
    "NAT_DETECTION_SOURCE_IP",
    "NAT_DETECTION_DESTINATION_IP",
    "IKEV2_FRAGMENTATION_SUPPORTED",
    "SIGNATURE_HASH_ALGORITHMS",
    "INTERMEDIATE_EXCHANGE_SUPPORTED",
)
SPI_I, SPI_R = b"initiato", b"responde"
GCM = "AES-GCM-16-256/HMAC-SHA2-256/X25519/ADDKE1:ML-KEM-768"


def response(*payloads, exchange_type=34):
    return ike.message(SPI_I, SPI_R, exchange_type, ike.RESPONSE, 0, payloads)


def test_an_accepted_proposal():
    _, reply = Handshake(1, proposals=[ike.HYBRID]).init()[:2]
    answer = summarise_response(reply.ike[0])
    assert (answer.exchange, answer.message_id, answer.response) == ("IKE_SA_INIT", 0, True)
    assert (answer.kind, answer.proposal, answer.key_exchange) == ("accepted", GCM, "X25519")
    assert answer.notifies == NOTIFIES
    assert answer.payloads[:3] == ("SA", "KE(X25519)", "No")
    assert answer.bytes == len(reply.ike[0])


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (ike.notify(ike.COOKIE, b"12345678"), "COOKIE"),
        (ike.notify(ike.INVALID_KE_PAYLOAD, b"\0\x14"), "INVALID_KE_PAYLOAD"),
        (ike.notify(ike.NO_PROPOSAL_CHOSEN), "NO_PROPOSAL_CHOSEN"),
        (ike.notify(ike.REDIRECT, b"\3\1x"), "REDIRECT"),
        (ike.notify(9999), "error notify 9999"),
        (ike.nonce(bytes(32)), "clear"),
    ],
)
def test_what_came_instead(payload, kind):
    assert summarise_response(response(payload)).kind == kind


def test_encrypted_responses_are_described():
    whole = ike.encrypted(SPI_I, SPI_R, 35, ike.RESPONSE, 1, ike.NOTIFY, bytes(60))
    assert (summarise_response(whole).kind, summarise_response(whole).fragments) == ("encrypted", None)
    first, second = ike.skf(SPI_I, SPI_R, 43, ike.RESPONSE, 1, ike.KE, [bytes(60), bytes(20)])
    assert (summarise_response(second).kind, summarise_response(second).fragments) == ("encrypted", 2)
    assert summarise_response(first).payloads == ("SKF(1/2)",)


def test_other_datagrams_are_not_responses():
    data = response(ike.notify(ike.COOKIE, b"12345678"))
    for cut in range(len(data)):
        assert summarise_response(data[:cut]) is None
    assert parse_ikev2_header(data + b"x") is None
    assert parse_ikev2_header(data[:17] + b"\x10" + data[18:]) is None  # IKEv1


def test_responses_differ_by_answer_and_choice():
    _, reply = Handshake(1, proposals=[ike.HYBRID]).init()[:2]
    accepted = summarise_response(reply.ike[0])
    again = summarise_response(Handshake(2, proposals=[ike.HYBRID]).init()[1].ike[0])
    assert compare_responses(accepted, again) == ()
    cookie = summarise_response(response(ike.notify(ike.COOKIE, b"12345678")))
    assert compare_responses(accepted, cookie) == (
        "answer: accepted recorded, COOKIE now",
        f"proposal: {GCM} recorded, none now",
        "key exchange: X25519 recorded, none now",
        f"only recorded: {', '.join(NOTIFIES)}",
        "only now: COOKIE",
    )
    assert compare_responses(None, cookie) == ("no answer recorded",)
    assert compare_responses(cookie, None) == ("no answer",)
    assert compare_responses(None, None) == ()


def test_sizes_of_encrypted_ones_differ():
    def encrypted(size: int) -> ResponseSummary:
        return summarise_response(ike.encrypted(SPI_I, SPI_R, 35, ike.RESPONSE, 1, ike.NOTIFY, bytes(size)))

    assert compare_responses(encrypted(60), encrypted(61)) == ("bytes: 92 recorded, 93 now",)
