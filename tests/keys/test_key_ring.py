from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ikeanalyze.crypto.algorithms import IkeSuite
from ikeanalyze.crypto.sk_payload import MessageCipher, encrypt_message, find_encrypted_payload
from ikeanalyze.keys.key_ring import KeyRing
from ikeanalyze.keys.key_set import Derivation, KeySet, Origin
from ikeanalyze.wire.header import Header
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity
from tests.craft import ike
from tests.keys.dumps import excerpt, key_set, log, logged_keys, recorded_key_sets
from tests.wire.recorded import ike_messages

GCM = IkeSuite(Encryption.AES_GCM_16, 256, 0)
CBC = IkeSuite(Encryption.AES_CBC, 128, Integrity.HMAC_SHA1_96)
SPI_I, SPI_R = b"initiate", b"responds"
REQUEST, RESPONSE = 0x08, 0x20  # of the initiator, of the responder
FIRST, CHAIN = ike.chain([ike.notify(16384), ike.delete()])


def made(number: int, suite: IkeSuite = GCM, **other) -> KeySet:
    """Key set without SPIs, each with keys of its own."""
    rng = Random(number)
    e, a = (36, 0) if suite is GCM else (16, 20)
    sizes = {"sk_ei": e, "sk_er": e, "sk_ai": a, "sk_ar": a}
    keys = {name: rng.randbytes(size) for name, size in sizes.items()}
    return KeySet(**{"origin": Origin("log", number), "spi_i": None, "spi_r": None, "encryption": None,
                     "integrity": None, **keys, **other})  # fmt: skip


def encrypted(
    keys: KeySet, message_id: int, flags: int = REQUEST, spi_i: bytes = SPI_I, suite: IkeSuite = GCM
) -> bytes:
    iv = bytes(16 if suite is CBC else 8)
    return encrypt_message(
        MessageCipher(keys, suite), Header(spi_i, SPI_R, 0, 0x20, 37, flags, message_id, 0), FIRST, CHAIN, iv
    )


def positions(ring: KeyRing, messages: list[bytes], suite: IkeSuite | None = GCM) -> list[int | None]:
    result = []
    for message in messages:
        sa = ring.get_sa_keys(message[:8], message[8:16], suite)
        opened = sa.decrypt(message, bool(message[19] & 0x08))
        result.append(None if opened is None else opened[1])
    return result


def captured_messages(name: str) -> list[bytes]:
    return [message for message in ike_messages(name) if find_encrypted_payload(message)]


@pytest.mark.parametrize("order", ["logged", "reversed", "shuffled", "twice"])
def test_25_handshakes_each_with_its_own_keys(order):
    keys = recorded_key_sets("loss20-classic")
    orders = {
        "logged": keys, "reversed": keys[::-1], "twice": keys + keys, "shuffled": Random(1).sample(keys, 25),
    }  # fmt: skip
    ring, messages = KeyRing(orders[order]), captured_messages("loss20-classic")
    assert len(messages) == 176
    assert positions(ring, messages) == [0] * 176
    owned = [sa.key_sets for sa in (ring.get_sa_keys(*pair) for pair in {(m[:8], m[8:16]) for m in messages})]
    assert len(owned) == 25
    assert {line for (owner,) in owned for line in [owner.origin.line]} == set(range(1, 26))
    assert not ring.reached_limit


@pytest.mark.parametrize("backwards", [False, True])
def test_the_keys_change_after_an_additional_key_exchange(backwards):
    keys = recorded_key_sets("pq-mlkem768-psk")
    ring = KeyRing(keys[::-1] if backwards else keys)
    messages = captured_messages("pq-mlkem768-psk")
    assert [message[18] for message in messages] == [43, 43, 43, 35, 35]
    assert positions(ring, messages) == [0, 0, 0, 1, 1]
    sa = ring.get_sa_keys(messages[0][:8], messages[0][8:16])
    assert [owned.origin.line for owned in sa.key_sets] == [1, 2]
    assert sa.used == (0, 1)


def test_messages_of_rekeyed_ike_sas_are_decrypted():
    # two additional key exchanges, then the IKE SA replaced by one side and by the other
    logged = [key_set(values, line) for line, values in enumerate(logged_keys(excerpt("pq-followup-ke")), 1)]
    ring = KeyRing(logged)
    messages = captured_messages("pq-followup-ke")
    suite = IkeSuite(Encryption.AES_CBC, 256, Integrity.HMAC_SHA2_384_192)
    result = positions(ring, messages, suite)
    assert None not in result
    by_id = {(message[:8], message[18], at) for message, at in zip(messages, result, strict=True)}
    spis = list(dict.fromkeys(message[:8] for message in messages))
    assert len(spis) == 3
    assert {(kind, at) for spi, kind, at in by_id if spi == spis[0]} == {
        (43, 0), (43, 1), (35, 2), (36, 2), (44, 2), (37, 2),
    }  # fmt: skip
    assert {at for spi, _, at in by_id if spi != spis[0]} == {0}


def test_named_key_sets_come_first():
    keys = [made(number) for number in range(4)]
    named = replace(keys[2], spi_i=SPI_I, spi_r=SPI_R)
    ring = KeyRing([keys[0], keys[1], named, keys[3]])
    sa = ring.get_sa_keys(SPI_I, SPI_R, GCM)
    assert sa.key_sets == (named,)
    assert sa.decrypt(encrypted(keys[3], 1), True)[1] == 1
    assert sa.decrypt(encrypted(keys[2], 2), True)[1] == 0
    assert sa.key_sets == (named, keys[3])


@pytest.mark.parametrize("known", [{"spi_i": SPI_I}, {"spi_r": SPI_R}])
def test_one_spi_of_two(known):
    keys = made(1, **known)
    other_i, other_r = b"another.", SPI_R if "spi_i" in known else b"another."
    ring = KeyRing([keys])
    message = encrypted(keys, 1, spi_i=other_i)[:8] + other_r + encrypted(keys, 1, spi_i=other_i)[16:]
    assert ring.get_sa_keys(other_i, other_r, GCM).decrypt(message, True) is None
    assert ring.get_sa_keys(SPI_I, SPI_R, GCM).decrypt(encrypted(keys, 1), True)[1] == 0


def test_a_key_set_belongs_to_one_ike_sa():
    keys = made(1)
    ring = KeyRing([keys])
    assert positions(ring, [encrypted(keys, 1)]) == [0]
    assert positions(ring, [encrypted(keys, 1, spi_i=b"another.")]) == [None]
    named = KeyRing([replace(keys, spi_i=SPI_I, spi_r=SPI_R)])
    assert positions(named, [encrypted(keys, 1, spi_i=b"another.")]) == [None]


def test_the_order_of_the_chain():
    epochs = [made(number) for number in range(3)]
    messages = [
        encrypted(epochs[0], 1), encrypted(epochs[0], 1, RESPONSE),
        encrypted(epochs[1], 2), encrypted(epochs[0], 1),  # a late retransmission
        encrypted(epochs[1], 2, RESPONSE), encrypted(epochs[0], 1, RESPONSE),
        encrypted(epochs[2], 3), encrypted(epochs[1], 2), encrypted(epochs[0], 1),
    ]  # fmt: skip
    expected = [0, 0, 1, 0, 1, 0, 2, 1, 0]
    for keys in (epochs, [replace(epoch, spi_i=SPI_I, spi_r=SPI_R) for epoch in epochs]):
        ring = KeyRing(keys)
        assert positions(ring, messages) == expected
        # nobody accepts these: the keys had changed before that message
        assert (
            positions(ring, [encrypted(epochs[0], 2), encrypted(epochs[0], 9), encrypted(epochs[1], 3)]) == [None] * 3
        )
        assert positions(ring, [encrypted(epochs[2], 9)]) == [2]


def test_message_ids_are_each_sides_own():
    # the responder counts its requests from 0 when the initiator's have come to 5
    epochs = [made(number) for number in range(2)]
    ring = KeyRing(epochs)
    messages = [
        encrypted(epochs[0], 1),
        encrypted(epochs[1], 5),
        encrypted(epochs[1], 0, 0),
        encrypted(epochs[1], 0, 0x28),
    ]
    assert positions(ring, messages) == [0, 1, 1, 1]


def test_without_a_check_only_for_the_ike_sa_that_is_named():
    keys = made(1, CBC)
    bare = replace(keys, sk_ai=b"", sk_ar=b"", encryption=Encryption.AES_CBC, unchecked_icv=12)
    message = encrypted(keys, 1, suite=CBC)
    assert positions(KeyRing([bare]), [message], CBC) == [None]
    ring = KeyRing([replace(bare, spi_i=SPI_I, spi_r=SPI_R)])
    opened, position = ring.get_sa_keys(SPI_I, SPI_R).decrypt(message, True)
    assert (opened.plaintext, opened.verified, position) == (CHAIN, False, 0)


def test_without_a_check_the_chain_does_not_go_back():
    plain = [made(number, CBC) for number in range(3)]
    bare = [
        replace(
            keys,
            spi_i=SPI_I,
            spi_r=SPI_R,
            sk_ai=b"",
            sk_ar=b"",
            encryption=Encryption.AES_CBC,
            unchecked_icv=12,
        )
        for keys in plain
    ]
    messages = [
        encrypted(plain[1], 2, suite=CBC),
        encrypted(plain[0], 3, suite=CBC),
        encrypted(plain[0], 1, suite=CBC),
    ]
    assert positions(KeyRing(bare), messages, None) == [1, None, 0]


def test_both_peers_logs():
    keys = made(1)
    with_spis = replace(keys, origin=Origin("responder", 9), spi_i=SPI_I, spi_r=SPI_R, sk_d=b"SK_d")
    ring = KeyRing([keys, made(2), with_spis])
    sa = ring.get_sa_keys(SPI_I, SPI_R, GCM)
    assert sa.key_sets == (replace(keys, spi_i=SPI_I, spi_r=SPI_R, sk_d=b"SK_d"),)
    assert len(ring._key_sets) == 2
    # the same keys for two IKE SAs are no repetition
    other = replace(with_spis, spi_i=b"another.")
    assert len(KeyRing([with_spis, other])._key_sets) == 2


def test_nonces_tell_without_trying():
    nonces = [bytes([number]) * 64 for number in range(3)]
    keys = [made(n, derivation=Derivation(None, (), nonces[n], None, None)) for n in range(3)]
    ring = KeyRing(keys)
    assert ring.get_sa_keys(SPI_I, SPI_R, GCM, nonces[2]).decrypt(encrypted(keys[2], 1), True)[1] == 0
    # keys with other nonces are not even tried; keys without may be anybody's
    other = ring.get_sa_keys(b"another.", SPI_R, GCM, nonces[0])
    assert other.decrypt(encrypted(keys[1], 1, spi_i=b"another."), True) is None
    assert ring.get_sa_keys(b"unknown.", SPI_R, GCM).decrypt(encrypted(keys[1], 1, spi_i=b"unknown."), True)[1] == 0


def test_nonces_of_the_log():
    name = "loss20-classic"
    logged = [
        key_set(values, line, derivation=Derivation(None, (), values["nonces"], None, None))
        for line, values in enumerate(logged_keys(log(name)), 1)
    ]
    assert positions(KeyRing(logged), captured_messages(name)) == [0] * 176


def test_the_suite_may_come_later():
    keys = made(1)
    ring = KeyRing([keys])
    message = encrypted(keys, 1)
    assert [ring.get_sa_keys(SPI_I, SPI_R).decrypt(message, True) for _ in range(5)] == [None] * 5
    assert ring.get_sa_keys(SPI_I, SPI_R, GCM) is ring.get_sa_keys(SPI_I, SPI_R)
    assert ring.get_sa_keys(SPI_I, SPI_R).decrypt(message, True)[1] == 0


def test_unusable_key_sets_are_reported():
    bad = replace(made(3), spi_i=SPI_I, spi_r=SPI_R)
    salt = made(4, no_salt=True)
    unknown = made(5, encryption=Encryption.IDEA, integrity=0)
    ring = KeyRing([bad, salt, unknown])
    sa = ring.get_sa_keys(SPI_I, SPI_R)
    assert sa.unusable == ["log:3: unknown cipher: neither the key file nor the capture specifies it"]
    ring.get_sa_keys(SPI_I, SPI_R, IkeSuite(Encryption.AES_GCM_16, 128, 0))
    assert sa.unusable == ["log:3: SK_e has 36 bytes, AES-GCM-16 takes 20, including the salt"]
    ring.get_sa_keys(SPI_I, SPI_R, GCM)
    assert sa.unusable == []
    assert ring.unusable == (
        "log:4: the key file lacks the salt that the cipher needs",
        "log:5: encryption algorithm IDEA is not supported",
    )
    assert made(3).sk_ei.hex() not in repr((ring, sa, sa.key_sets))


def test_thousands_of_ike_sas_are_found_without_trying_all():
    count = 3000  # all pairs would be nine million
    keys = [made(number) for number in range(count)]
    order = sorted(range(count), key=lambda number: number + Random(number).random() * 20)  # interleaved
    messages = [encrypted(keys[number], 1, spi_i=number.to_bytes(8, "big")) for number in order]
    ring = KeyRing(keys)
    assert positions(ring, messages) == [0] * count
    assert not ring.reached_limit


def test_keys_that_fit_nothing_are_not_tried_forever():
    ring = KeyRing(made(number) for number in range(1000, 3000))
    strangers = [encrypted(made(0), 1, spi_i=number.to_bytes(8, "big")) for number in range(600)]
    assert set(positions(ring, strangers)) == {None}
    assert ring.reached_limit
    # what is where it should be is found even then
    late = encrypted(made(1003), 1, spi_i=b"latecome")
    assert positions(ring, [late]) == [0]


def test_a_flood_for_one_ike_sa_costs_no_more_than_some_trials():
    keys = [made(number) for number in range(500)]
    ring = KeyRing(keys)
    sa = ring.get_sa_keys(SPI_I, SPI_R, GCM)
    assert not any(sa.decrypt(encrypted(made(1000), number), True) for number in range(3000))
    assert not ring.reached_limit


def test_messages_without_an_encrypted_payload_are_not_decrypted():
    ring = KeyRing([])
    sa = ring.get_sa_keys(SPI_I, SPI_R, GCM)
    assert sa.decrypt(b"", True) is None
    assert sa.decrypt(encrypted(made(1), 1), True) is None
    assert sa.key_sets == ring.unusable == ()


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([0, 8, 0x20, 0x28])), max_size=12))
def test_whatever_comes_only_its_own_keys_open_it(events):
    epochs = [made(number) for number in range(4)]
    ring = KeyRing(epochs)
    sa = ring.get_sa_keys(SPI_I, SPI_R, GCM)
    for epoch, message_id, flags in events:
        result = sa.decrypt(encrypted(epochs[epoch], message_id, flags), bool(flags & 0x08))
        if result is not None:
            assert sa.key_sets[result[1]].sk_ei == epochs[epoch].sk_ei
            assert result[0].plaintext == CHAIN
