"""The keys of an IKE SA with an additional key exchange, and IntAuth, as charon logged them."""

from ikeanalyze.crypto.algorithms import get_prf, get_suite
from ikeanalyze.crypto.sk_payload import find_encrypted_payload
from ikeanalyze.replay.initiator.sa_keys import IkeSaKeys
from tests.analysis.verify_recordings import taken_apart

KEYS = ("sk_d", "sk_ai", "sk_ar", "sk_ei", "sk_er", "sk_pi", "sk_pr")


def values(keys):
    return [getattr(keys, name) or b"" for name in KEYS]


def recorded():
    """The IKE SA with ECP-384 and ML-KEM-768, and what its log says beside keys."""
    sas, logged = taken_apart("pq-mlkem768-psk")
    (sa,) = sas
    return sa, logged


def sa_keys():
    sa, logged = recorded()
    first, *rest = [key_set.keys for key_set in sa.key_sets]
    made = IkeSaKeys(
        get_prf(sa.chosen), get_suite(sa.chosen), first.derivation.secret, (sa.spi_i, sa.spi_r),
        (sa.nonce_i, sa.nonce_r), lambda size: b"\7" * size,
    )  # fmt: skip
    return sa, logged, made, rest


def test_the_epochs_are_those_of_the_log():
    sa, _, made, rest = sa_keys()
    for one in rest:
        made.add_key_exchange(one.derivation.secret)
    assert [values(key_set) for key_set in made.key_sets] == [values(key_set.keys) for key_set in sa.key_sets]
    assert [key_set.derivation.skeyseed for key_set in made.key_sets] == [
        key_set.keys.derivation.skeyseed for key_set in sa.key_sets
    ]
    assert {(key_set.spi_i, key_set.spi_r) for key_set in made.key_sets} == {(sa.spi_i, sa.spi_r)}


def test_int_auth_is_that_of_the_log():
    """The log's octets of IKE_AUTH end in IntAuth, which is computed of the recorded messages of IKE_INTERMEDIATE."""
    sa, logged, made, rest = sa_keys()
    assert made.combined_int_auth(2) == b""
    request, response = (
        next(
            (message.message, opened_of(message))
            for message in sa.messages
            if message.content.exchange_type == 43 and message.content.response == answer
        )
        for answer in (False, True)
    )
    made.authenticate_intermediate(request, response)
    made.add_key_exchange(rest[0].derivation.secret)
    combined = made.combined_int_auth(2)
    assert len(combined) == 2 * 48 + 4
    octets = [auth.octets for some in logged.auths.values() for auth in some]
    assert len(octets) >= 2
    assert {octet[-len(combined) :] for octet in octets} == {combined}


def opened_of(sent):
    from ikeanalyze.crypto.sk_payload import DecryptedMessage

    return DecryptedMessage(sent.content.plaintext, sent.content.first, True)


def test_the_other_side_opens_what_was_encrypted():
    from ikeanalyze.crypto.sk_payload import MessageCipher

    _, _, made, _ = sa_keys()
    (message,), inside = made.encrypt_message(37, 5, [(41, b"\0\0\x40\0")], None)
    opened = MessageCipher(made.key_sets[0]).decrypt(message, from_initiator=True)
    assert (opened.plaintext, opened.first) == (inside.plaintext, inside.first)
    assert message[19] == 0x08
    assert made.decrypt_payload(find_encrypted_payload(message)) is None  # it is ours, not the responder's
