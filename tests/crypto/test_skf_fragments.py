"""Messages that are cut: each fragment opens by itself, and together they are the message again (RFC 7383)."""

import os

import pytest

from ikeanalyze.crypto.algorithms import IkeSuite
from ikeanalyze.crypto.sk_payload import MessageCipher, encrypt_message, find_encrypted_payload, get_fragment_capacity
from ikeanalyze.crypto.skf_fragments import FragmentTooSmallError, SkfReassembler, encrypt_message_or_fragments
from ikeanalyze.wire.ikev2.message import parse_fragment_header
from tests.craft import ike
from tests.crypto.test_sk_payload import CHAIN, FIRST, SUITES, header, iv_for, keys_for

LONG_FIRST, LONG = ike.chain([ike.notify(16384, os.urandom(1000)), ike.nonce(os.urandom(200))])


@pytest.mark.parametrize(("encryption", "bits", "integrity"), SUITES[::7])
def test_no_fragment_is_larger_and_all_but_the_last_are_as_large_as_can_be(encryption, bits, integrity):
    keys, suite = keys_for(encryption, bits, integrity), IkeSuite(encryption, bits, integrity)
    for largest in range(300, 320):
        parts = encrypt_message_or_fragments(keys, header(), LONG_FIRST, LONG, largest, os.urandom, suite=suite)
        sizes = [len(part) for part in parts]
        assert max(sizes) <= largest
        room = get_fragment_capacity(MessageCipher(keys, suite), largest)
        full, too_long = (
            encrypt_message(MessageCipher(keys, suite), header(), 0, bytes(size), iv_for(encryption), fragment=(1, 2))
            for size in (room, room + 1)
        )
        assert len(full) <= largest < len(too_long)
        assert [parse_fragment_header(part) for part in parts] == [(n, len(parts)) for n in range(1, len(parts) + 1)]
        opener, together = MessageCipher(keys, suite), SkfReassembler()
        for part in parts:
            encrypted = find_encrypted_payload(part)
            opened = opener.decrypt_payload(encrypted, True)
            assert together.add(*encrypted.fragment, opened.first, opened.plaintext)
        assert (together.get_message().first, together.get_message().plaintext) == (LONG_FIRST, LONG)


def test_messages_that_fit_are_not_fragmented():
    keys, suite = keys_for(20, 256, 0), IkeSuite(20, 256, 0)
    (whole,) = encrypt_message_or_fragments(keys, header(), FIRST, CHAIN, None, os.urandom, suite=suite)
    assert (
        encrypt_message_or_fragments(keys, header(), FIRST, CHAIN, len(whole), bytes, suite=suite)[0][:32] == whole[:32]
    )
    assert len(encrypt_message_or_fragments(keys, header(), FIRST, CHAIN, len(whole) - 1, bytes, suite=suite)) == 2


@pytest.mark.parametrize("largest", [-1, 0, 60])
def test_too_small_a_size_raises(largest):
    with pytest.raises(FragmentTooSmallError, match="have no room"):
        encrypt_message_or_fragments(
            keys_for(20, 256, 0), header(), FIRST, CHAIN, largest, bytes, suite=IkeSuite(20, 256, 0)
        )


def test_the_fragments_of_strongswan_have_the_same_size():
    """pq-mlkem768-psk: an IKE_INTERMEDIATE request with ML-KEM-768 in fragments (charon: fragment_size 1280)."""
    from tests.wire.recorded import ike_messages

    recorded = [ike_message for ike_message in ike_messages("pq-mlkem768-psk") if parse_fragment_header(ike_message)]
    first, chain = ike.chain([ike.ke(ike.ML_KEM_768, os.urandom(1184))])
    keys, suite = keys_for(20, 256, 0), IkeSuite(20, 256, 0)
    made = encrypt_message_or_fragments(keys, header(), first, chain, len(recorded[0]), os.urandom, suite=suite)
    assert [len(item) for item in made] == [len(item) for item in recorded]
