"""Handshakes without a network, against a responder that is written from the RFCs (`responder`)."""

import json

import pytest
from msgspec.structs import replace

from ikeanalyze.keys.export import build_key_json
from ikeanalyze.replay.initiator.inbox import MAX_DATAGRAMS
from ikeanalyze.replay.initiator.initiator import MAX_COOKIES, MAX_EXCHANGES
from ikeanalyze.replay.initiator.interface import CannotReplayError, IgnoredDatagrams
from ikeanalyze.wire.ikev2.proposals import Transform
from tests.craft import ike
from tests.replay.driving import MS, PATIENCE, REMOTE, Wire, credentials, established, initiator, proposal, shape
from tests.replay.responder import ECP_256, ECP_384, ML_KEM_768, ML_KEM_1024, SPI_R, X25519, Responder


@pytest.mark.parametrize("aead", [True, False])
@pytest.mark.parametrize("additional", [(), (ML_KEM_768,), (ML_KEM_768, ML_KEM_1024)])
def test_established_and_deleted(aead, additional):
    responder = Responder()
    wire = established(shape(X25519, *additional, aead=aead), responder)
    ended = wire.now
    result = wire.close()
    assert result.established
    assert responder.deleted
    assert result.ended_ns == ended < wire.now
    assert responder.refused == []
    kinds = [exchange.exchange_type for exchange in result.exchanges]
    assert kinds == [34, *[43] * len(additional), 35, 37]
    assert [exchange.message_id for exchange in result.exchanges] == list(range(len(kinds)))
    assert result.spi_r == SPI_R
    assert result.authentication == ("PSK", "PSK")
    assert all(exchange.transmissions == 1 and exchange.round_trip_ns for exchange in result.exchanges)
    # the same keys on both sides, epoch by epoch
    assert [(key.sk_d, key.sk_er, key.sk_pi) for key in result.keys] == [
        (epoch.d, epoch.er, epoch.pi) for epoch in responder.epochs
    ]


def test_what_is_sent_is_what_is_counted():
    wire = established(shape(X25519, ML_KEM_1024), Responder(fragment_size=500))
    result = wire.close()
    for exchange in result.exchanges:
        ours = [out for out in wire.sent if out.message_id == exchange.message_id]
        assert exchange.datagrams_sent == exchange.datagrams_needed == len(ours)
        assert exchange.bytes_sent == exchange.bytes_needed == sum(len(out.data) for out in ours)
        assert [out.fragment for out in ours] in ([None], list(range(1, len(ours) + 1)))
        assert all(len(out.data) <= 600 for out in ours if out.exchange_type != ike.IKE_SA_INIT)
    intermediate = result.exchanges[1]
    assert intermediate.datagrams_needed == 3
    # the ciphertext of ML-KEM-1024 and its KE payload, 500 bytes a fragment
    assert intermediate.datagrams_used == intermediate.datagrams_received == 4


def test_without_fragmentation_on_either_side():
    plain = Responder(init_notifies=[ike.notify(ike.INTERMEDIATE_EXCHANGE_SUPPORTED)])
    assert established(shape(X25519, ML_KEM_1024), plain).sent[1].fragments is None
    assert established(shape(X25519, ML_KEM_1024, fragment_size=None), Responder()).sent[1].fragments is None


def test_cookies_and_another_method():
    offered = replace(proposal(X25519), transforms=(*proposal(X25519).transforms, *proposal(ECP_384).transforms[2:]))
    responder = Responder(cookies=2, wants=ECP_384)
    wire = established(shape(proposals=(offered,)), responder)
    result = wire.close()
    assert [(exchange.attempt, exchange.answer) for exchange in result.exchanges[:4]] == [
        (1, "COOKIE"),
        (2, "COOKIE"),
        (3, "INVALID_KE_PAYLOAD"),
        (4, None),
    ]
    requests = responder.seen[:4]
    assert [kind for kind, _ in requests[3]][:4] == [ike.NOTIFY, ike.SA, ike.KE, ike.NONCE]
    assert requests[3][0][1] == b"\0\0" + ike.COOKIE.to_bytes(2) + b"cookie 0"
    assert {dict(request)[ike.NONCE] for request in requests} == {dict(requests[0])[ike.NONCE]}


@pytest.mark.parametrize("method", [ike.MODP_2048, ECP_256])
def test_a_method_that_cannot_be_meant(method):
    """One that was not offered, and the one that was sent."""
    responder = Responder(wants=method)
    if method == ECP_256:
        responder.answer = lambda data: [
            ike.message(data[:8], bytes(8), 34, 0x20, 0, [ike.notify(ike.INVALID_KE_PAYLOAD, bytes([0, X25519]))])
        ]
    result = Wire(initiator(), responder.answer).begin()
    assert not result.established
    assert result.reason.startswith("INVALID_KE_PAYLOAD asks for")
    assert len(result.exchanges) == 1


def test_a_cookie_again_and_again():
    result = Wire(initiator(), Responder(cookies=10**6).answer).begin()
    assert result.reason == f"the responder requests more than {MAX_COOKIES} cookies"
    assert len(result.exchanges) == MAX_COOKIES + 1


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (ike.notify(ike.COOKIE, b"always the same"), "COOKIE"),
        (ike.notify(ike.INVALID_KE_PAYLOAD, b"\0\x13"), "INVALID_KE_PAYLOAD"),
    ],
)
def test_a_responder_that_says_the_same_for_ever(payload, said):
    """It may be the answer to the attempt before, late; so it is waited for another."""
    both = replace(proposal(31), transforms=(*proposal(31).transforms, Transform(4, 19, ())))
    wire = Wire(
        initiator(shape(proposals=(both,))),
        lambda data: [ike.message(data[:8], bytes(8), 34, 0x20, 0, [payload])],
    )
    result = wire.begin()
    assert (result.established, result.reason) == (False, f"no answer but {said} again")
    assert [exchange.transmissions for exchange in result.exchanges] == [1, len(PATIENCE.waits)]


@pytest.mark.parametrize("kind", [ike.NO_PROPOSAL_CHOSEN, ike.INVALID_SYNTAX, 65000])
def test_an_error_notify_ends_the_handshake(kind):
    wire = Wire(initiator(), lambda data: [ike.message(data[:8], bytes(8), 34, 0x20, 0, [ike.notify(kind & 0x3FFF)])])
    result = wire.begin()
    names = {14: "NO_PROPOSAL_CHOSEN", 7: "INVALID_SYNTAX", 65000: "error notify 15848"}
    assert result.reason == names[kind]
    assert len(wire.sent) == 1
    assert wire.close() == result


def test_another_secret_fails_the_handshake():
    responder = Responder(psk=b"other")
    result = Wire(initiator(), responder.answer).begin()
    assert (result.established, result.reason) == (False, "AUTHENTICATION_FAILED")
    assert [exchange.answer for exchange in result.exchanges] == [None, "AUTHENTICATION_FAILED"]


def test_a_responder_that_does_not_know_the_secret_is_refused():
    """It lets everybody in; our refusal of its AUTH payload is sent to it."""
    responder = Responder()
    responder.shared = lambda secret, initiator: (
        Responder.shared(responder, b"swordfish", initiator=True)
        if initiator
        else Responder.shared(responder, b"guessed", initiator=False)
    )
    wire = Wire(initiator(), responder.answer)
    result = wire.begin()
    assert responder.established
    assert result.reason == "AUTH does not verify: the responder has a different secret"
    assert not wire.close().established
    assert responder.refused == [ike.AUTHENTICATION_FAILED]


def test_another_responder_than_the_credentials_want():
    from ikeanalyze.replay.credentials import parse_identity

    wanted = credentials(remote_identity=parse_identity("elsewhere.lab"))
    result = Wire(initiator(None, wanted), Responder().answer).begin()
    assert result.reason == "the responder is responder.lab, which is not remote.identity of the credentials"


def test_the_child_sa_alone_is_refused():
    responder = Responder(auth_notifies=[ike.notify(38)])
    result = established(shape(), responder).close()
    assert (result.established, result.child_error) == (True, "TS_UNACCEPTABLE")


def test_a_proposal_that_was_not_offered():
    _, other = ike.sa([ike.CLASSIC])
    result = Wire(initiator(), Responder(proposal=other).answer).begin()
    assert result.reason.startswith("the responder chose AES-CBC-128")
    assert result.reason.endswith("which was not offered")


def test_additional_key_exchanges_without_the_exchange_for_them():
    result = Wire(initiator(shape(X25519, ML_KEM_768)), Responder(init_notifies=[]).answer).begin()
    assert "does not support IKE_INTERMEDIATE" in result.reason


def test_eap_md5_authenticates():
    responder = Responder(md5_password=b"tuna")
    with_eap = credentials(eap_identity="carol", eap_password="tuna")
    wire = established(shape(auth_initiator="eap", eap="EAP-MD5"), responder, with_eap)
    result = wire.close()
    assert result.authentication == ("EAP-MD5", "PSK")
    assert [exchange.exchange_type for exchange in result.exchanges] == [34, 35, 35, 35, 35, 37]


def test_eap_md5_with_another_password():
    responder = Responder(md5_password=b"salmon")
    with_eap = credentials(eap_identity="carol", eap_password="tuna")
    result = Wire(initiator(shape(auth_initiator="eap"), with_eap), responder.answer).begin()
    assert result.reason == "EAP failure"


def test_endless_eap_is_ended():
    """The server asks who it is for ever."""
    responder = Responder(md5_password=b"tuna")
    responder._eap = lambda packet: b"\1\1\0\5\1"
    with_eap = credentials(eap_identity="carol", eap_password="tuna")
    result = Wire(initiator(shape(auth_initiator="eap"), with_eap), responder.answer).begin()
    assert result.reason == f"the responder requires more than {MAX_EXCHANGES} exchanges"


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("seen_as", ["192.0.2.1", "203.0.113.9"])
def test_port_4500_is_used_as_recorded(seen_as, floats):
    """Port 4500 where there is a NAT, or where the recorded initiator went there without."""
    responder = Responder(addresses=(seen_as, REMOTE[0]))
    wire = established(shape(floats=floats), responder)
    assert wire.sent[0].port == 500
    assert {item.port for item in wire.sent[1:]} == {4500 if floats or seen_as != "192.0.2.1" else 500}


def test_a_silent_responder_ends_the_handshake():
    wire = Wire(initiator(), lambda data: [])
    began = wire.now
    result = wire.begin()
    assert (result.established, result.reason) == (False, "no answer")
    assert result.ended_ns - began == result.setup_ns == 7_000 * MS  # 1 + 2 + 4 s
    assert [item.transmission for item in wire.sent] == [1, 2, 3]
    assert len({item.data for item in wire.sent}) == 1
    (only,) = result.exchanges
    assert (only.transmissions, only.bytes_sent) == (3, 3 * only.bytes_needed)
    assert only.round_trip_ns is None


def test_lost_fragments_bring_the_whole_message_again():
    wire = Wire(initiator(shape(X25519, ML_KEM_768)), Responder().answer)
    wire.lose = lambda one: one.exchange_type == 43 and one.transmission == 1 and one.fragment == 2
    result = wire.begin()
    assert result.established
    again = [(item.transmission, item.fragment) for item in wire.sent if item.exchange_type == 43]
    assert again == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]
    intermediate = result.exchanges[1]
    assert (intermediate.transmissions, intermediate.datagrams_sent) == (2, 6)


def test_responses_in_fragments_of_several_transmissions():
    """Each transmission of the response loses another fragment: together they are whole."""
    responder = Responder(fragment_size=400)
    wire = Wire(initiator(shape(X25519, ML_KEM_768)), responder.answer)
    times = {}

    def lose(data):
        if data[16] != ike.SKF:
            return False
        number = int.from_bytes(data[32:34])
        times[number] = times.get(number, 0) + 1
        return (number in (1, 2) and times[number] == 1) or (number == 3 and times[number] != 1)

    wire.lose_answer = lose
    result = wire.begin()
    assert result.established
    exchange = result.exchanges[1]
    assert exchange.datagrams_used == 3
    assert exchange.transmissions == 2


def test_responses_that_come_twice_do_nothing():
    responder = Responder(cookies=1)
    wire = Wire(initiator(shape(X25519, ML_KEM_768)), lambda data: responder.answer(data) * 3)
    result = wire.begin()
    assert result.established
    assert result.ignored.repeated > 0
    assert result.ignored.garbage == result.ignored.foreign == 0
    assert [exchange.transmissions for exchange in result.exchanges] == [1] * 4


def test_garbage_changes_nothing():
    responder = Responder()

    def answer(data):
        good = responder.answer(data)
        other = b"X" * 8 + data[8:]
        spoiled = [item[:-1] + bytes([item[-1] ^ 1]) for item in good if item[18] != 34]
        in_clear = ike.message(data[:8], SPI_R, data[18], 0x20, data[23], [ike.notify(ike.AUTHENTICATION_FAILED)])
        more = [in_clear] if data[18] != 34 else []
        return [b"", b"\0" * 27, b"x" * 1000, other, data, *spoiled, *more, *good]

    result = Wire(initiator(), answer).begin()
    assert result.established
    assert result.ignored == IgnoredDatagrams(garbage=7, foreign=4, unprotected=1)


def test_a_refusal_in_clear_is_a_hint_and_no_reason():
    responder = Responder()

    def answer(data):
        if data[18] == 34:
            return responder.answer(data)
        return [ike.message(data[:8], SPI_R, data[18], 0x20, data[23], [ike.notify(4)])]

    result = Wire(initiator(), answer).begin()
    assert result.reason == "no answer (unprotected: INVALID_IKE_SPI)"
    assert result.exchanges[-1].transmissions == 3


def test_a_flood_of_datagrams_is_bounded():
    wire = Wire(initiator(), lambda data: [b"\0" * 100] * 10_000)
    result = wire.begin()
    assert result.reason == f"the target sends more than {MAX_DATAGRAMS:,} datagrams or 4 MiB"
    assert result.ignored.garbage == MAX_DATAGRAMS + 1


def test_fragments_that_never_become_a_message():
    """65,535 announced, each of them good."""
    responder = Responder()

    def answer(data):
        if data[18] == 34:
            return responder.answer(data)
        keys = responder.epochs[-1]
        found = []
        for number in range(1, 5_000):
            total = 28 + 8 + keys.size(b"x")
            before = ike.ike_header(responder.spi_i, SPI_R, ike.SKF, 35, 0x20, 1, total)
            before += bytes([36 if number == 1 else 0, 0]) + (total - 28).to_bytes(2)
            before += number.to_bytes(2) + b"\xff\xff"
            found.append(before + keys.encrypt_message(before, b"x"))
        return found

    result = Wire(initiator(), answer).begin()
    assert result.reason.startswith("the target sends more than")


def test_from_another_port():
    one = initiator()
    step = one.begin(0)
    (answer,) = Responder().answer(step.send[0].data)
    assert one.receive(answer, MS, 4500).send == ()
    assert one.receive(answer, 2 * MS, 500).send != ()


def test_requests_of_the_responder():
    """An empty INFORMATIONAL is answered, a CREATE_CHILD_SA refused, a delete ends the IKE SA."""
    responder = Responder()
    wire = established(shape(), responder)

    def ask(exchange, ident, payloads):
        (request,) = responder.encrypt_message(exchange, ident, *ike.chain(payloads), flags=0)
        step = wire.initiator.receive(request, wire.now, 500)
        assert all(one.response and one.exchange_type == exchange and one.message_id == ident for one in step.send)
        assert [one.transmission for one in step.send] in ([], [1], [2])
        found = []
        for one in step.send:
            assert one.data[19] == ike.INITIATOR | ike.RESPONSE
            found.append(responder.epochs[-1].open(one.data, 32))
        return found

    assert ask(37, 0, []) == [b""]
    assert ask(37, 0, []) == [b""]  # again: a retransmission
    assert ask(37, 5, []) == []  # not the next one
    (refusal,) = ask(36, 1, [ike.nonce(b"n" * 16)])
    assert int.from_bytes(refusal[6:8]) == 35
    assert ask(37, 2, [ike.delete()]) == [b""]
    result = wire.close()
    assert result.established
    assert [one.exchange_type for one in result.exchanges] == [34, 35]
    assert (result.ignored.repeated, result.ignored.unexpected) == (1, 1)


def test_an_early_close_is_reported():
    one = initiator()
    one.begin(0)
    result = one.close(MS).finished
    assert (result.established, result.reason) == (False, "closed before the IKE SA was established")


def silent_to_auth(responder):
    """It takes IKE_AUTH and does all that follows, but its response to IKE_AUTH does not arrive."""
    wire = Wire(initiator(), responder.answer)
    wire.lose_answer = lambda data: data[18] == 35
    return wire


def test_an_ike_sa_that_the_responder_alone_believes_in():
    responder = Responder()
    wire = silent_to_auth(responder)
    failed = wire.begin()
    assert (failed.established, failed.reason, failed.deleted) == (False, "no answer", None)
    assert responder.established
    result = wire.close()
    assert responder.deleted
    assert (result.established, result.reason, result.deleted) == (False, "no answer", True)
    assert result.setup_ns == failed.setup_ns
    assert [(exchange.exchange_type, exchange.message_id) for exchange in result.exchanges] == [
        (34, 0),
        (35, 1),
        (37, 2),
    ]


def test_broken_off_while_ike_auth_is_under_way():
    responder = Responder()
    wire = silent_to_auth(responder)
    step = wire.initiator.begin(wire.now)
    while not responder.established:
        answers = [data for item in step.send for data in wire.answer(item.data)]
        if not responder.established:
            step = wire.initiator.receive(answers[0], wire.now, 500)
    result = wire.close()
    assert responder.deleted
    assert (result.reason, result.deleted) == ("closed before the IKE SA was established", True)


def test_a_refusal_leaves_nothing_to_delete():
    responder = Responder(psk=b"other")
    wire = Wire(initiator(), responder.answer)
    assert wire.begin().reason == "AUTHENTICATION_FAILED"
    sent = len(wire.sent)
    assert wire.close().deleted is None
    assert len(wire.sent) == sent


def test_a_delete_that_nobody_answers():
    responder = Responder()
    wire = established(shape(), responder)
    wire.answer = lambda data: []
    result = wire.close()
    assert (result.established, result.deleted) == (True, False)
    assert result.exchanges[-1].transmissions == 3


def test_an_ike_sa_without_child_sa():
    childless = ike.notify(16418)
    responder = Responder()
    responder.init_notifies.append(childless)
    established(shape(esp_proposals=()), responder)
    assert ike.SA not in dict(responder.seen[-1])
    result = Wire(initiator(shape(esp_proposals=())), Responder().answer).begin()
    assert "without CHILD_SA" in result.reason


def test_ml_kem_512_is_refused_before_anything_is_sent():
    with pytest.raises(CannotReplayError, match="does not implement ML-KEM-512"):
        initiator(shape(X25519, 35))


def test_keys_can_be_written_and_are_in_no_repr():
    result = established(shape(X25519, ML_KEM_768), Responder()).close()
    written = json.loads(build_key_json(result.keys, (), ()))
    text = repr(result) + repr(result.keys) + str(result)
    for key in result.keys:
        for secret in (key.sk_ei, key.sk_er, key.sk_d, key.sk_pi, key.derivation.secret):
            assert secret.hex() not in text
            assert repr(secret) not in text
            assert secret.hex() in json.dumps(written)
