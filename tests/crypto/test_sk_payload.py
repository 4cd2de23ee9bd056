import os
import re
import subprocess
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ikeanalyze.crypto.algorithms import ENCRYPTION, HMAC_SHA2_256_96, INTEGRITY, IkeSuite
from ikeanalyze.crypto.sk_payload import (
    MessageCipher,
    MessageKeys,
    UnusableKeyError,
    encrypt_message,
    find_encrypted_payload,
    get_iv,
    is_plausible_chain,
    replace_plaintext,
)
from ikeanalyze.wire.header import Header
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity
from tests.craft import Packet, ike, link, pcap, udp_packet
from tests.crypto.key_sizes import select_key_sizes
from tests.keys.dumps import recorded_key_sets
from tests.wire.recorded import ike_messages, truth

SPI_I, SPI_R = bytes(range(8)), bytes(range(8, 16))
INITIATOR = 0x08
FIRST, CHAIN = ike.chain([ike.notify(16384), ike.notify(16417, b"1234"), ike.delete()])


def keys_for(encryption: int, key_bits: int | None, integrity: int, **other) -> MessageKeys:
    rng = Random(f"{encryption} {key_bits} {integrity}")
    e = ENCRYPTION[encryption].get_key_bytes(key_bits)
    a = INTEGRITY[integrity].key if integrity else 0
    keys = [rng.randbytes(size) for size in (e, e, a, a)]
    fields = {"encryption": encryption, "integrity": integrity, **other}
    return MessageKeys(sk_ei=keys[0], sk_er=keys[1], sk_ai=keys[2], sk_ar=keys[3], **fields)


def header(flags: int = INITIATOR, message_id: int = 1, spi_i: bytes = SPI_I) -> Header:
    return Header(spi_i, SPI_R, 0, 0x20, ike.INFORMATIONAL, flags, message_id, 0)


def iv_for(encryption: int, seed: int = 0) -> bytes:
    return Random(seed).randbytes(ENCRYPTION[encryption].iv)


SUITES = [
    (number, 8 * size or None, integrity)
    for number, algorithm in ENCRYPTION.items()
    for size in select_key_sizes(algorithm.key_sizes)
    for integrity in ([0] if algorithm.aead else INTEGRITY)
]


def test_the_example_of_rfc_7634():
    # Appendix B: an INFORMATIONAL with one notification. The RFC gives the key of one direction.
    key = bytes(range(0x80, 0xA4))
    message = bytes.fromhex(
        "c0c1c2c3c4c5c6c7 d0d1d2d3d4d5d6d7 2e202500 00000009 00000045 29000029"
        "1011121314151617 61039470 1f8d017f 7c129248 89 6b71bfe25236efd7cdc67066906315b2"
    )
    keys = MessageKeys(encryption=Encryption.CHACHA20_POLY1305, integrity=0, sk_ei=key, sk_er=key)
    opened = MessageCipher(keys).decrypt(message, True)
    assert (opened.first, opened.verified) == (41, True)
    assert opened.plaintext == bytes.fromhex("0000000c 00004001 0000000a")
    # the flags have neither bit set: a request of the responder
    made = encrypt_message(
        MessageCipher(keys), Header(*message_head(message)), 41, opened.plaintext, bytes(range(0x10, 0x18))
    )
    assert made == message


def message_head(message: bytes):
    return (
        message[:8], message[8:16], message[16], message[17], message[18], message[19],
        int.from_bytes(message[20:24], "big"), int.from_bytes(message[24:28], "big"),
    )  # fmt: skip


RECORDED = {
    "psk-classic": IkeSuite(Encryption.AES_CBC, 128, Integrity.HMAC_SHA2_256_128),
    "invalid-ke": IkeSuite(Encryption.AES_CBC, 256, Integrity.HMAC_SHA2_256_128),
    "eap-md5-radius": IkeSuite(Encryption.AES_CBC, 128, Integrity.HMAC_SHA2_256_128),
    "pq-mlkem768-psk": IkeSuite(Encryption.AES_GCM_16, 256, 0),
    "loss20-classic": IkeSuite(Encryption.AES_GCM_16, 256, 0),
}
EXCHANGES = {ike.IKE_AUTH: "IKE_AUTH", ike.INFORMATIONAL: "INFORMATIONAL"}
TYPES = {
    "IDi": 35, "IDr": 36, "CERT": 37, "CERTREQ": 38, "AUTH": 39, "No": 40, "N": 41, "D": 42, "SA": 33, "KE": 34,
    "TSi": 44, "TSr": 45, "EAP": 48, "CPRQ": 47, "CPRP": 47,
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_one_key_set_decrypts_each_recorded_message(name):
    openers = [MessageCipher(keys, RECORDED[name]) for keys in recorded_key_sets(name)]
    count = 0
    for message in ike_messages(name):
        if find_encrypted_payload(message) is None:
            assert message[18] == ike.IKE_SA_INIT
            continue
        from_initiator = bool(message[19] & INITIATOR)
        opened = [result for opener in openers if (result := opener.decrypt(message, from_initiator))]
        assert len(opened) == 1  # one key set fits, and no other
        assert opened[0].verified
        assert all(opener.decrypt(message, not from_initiator) is None for opener in openers)
        count += 1
    assert count


def generated(name: str) -> set[tuple[str, str, int, tuple[int, ...]]]:
    """What the daemons say that they put into encrypted messages: exchange, side, message ID, payload types."""
    return {
        (exchange, side, int(message_id), tuple(TYPES[re.split(r"\W", word)[0]] for word in value.split()))
        for who in ("ini", "res")
        for kind, exchange, side, message_id, value, *_ in truth(name)[who]
        if kind == "gen" and exchange != "IKE_SA_INIT" and not value.startswith("EF(")
    }


@pytest.mark.parametrize("name", ["psk-classic", "eap-md5-radius"])
def test_payloads_are_those_that_the_daemons_put_in(name):
    (keys,) = recorded_key_sets(name)
    opener, result = MessageCipher(keys, RECORDED[name]), set()
    for message in ike_messages(name):
        if opened := opener.decrypt(message, bool(message[19] & INITIATOR)):
            inside = parse_decrypted_payloads(opened.plaintext, opened.first)
            assert inside.error is None
            side = "response" if message[19] & 0x20 else "request"
            types = tuple(payload.type for payload in inside.payloads)
            result.add((EXCHANGES[message[18]], side, int.from_bytes(message[20:24], "big"), types))
    assert result
    assert result <= generated(name)


def test_every_flipped_bit_is_noticed():
    for encryption, integrity in (
        (Encryption.AES_GCM_16, 0),
        (Encryption.AES_CBC, Integrity.HMAC_SHA2_256_128),
    ):
        keys = keys_for(encryption, 128, integrity)
        opener = MessageCipher(keys)
        message = encrypt_message(
            MessageCipher(keys), header(), FIRST, CHAIN, iv_for(encryption), clear=[ike.notify(16400)]
        )
        assert opener.decrypt(message, True).plaintext == CHAIN
        for bit in range(8 * len(message)):
            wrong = bytearray(message)
            wrong[bit // 8] ^= 1 << bit % 8
            assert opener.decrypt(bytes(wrong), True) is None, bit


def test_every_truncation_is_noticed():
    keys = keys_for(Encryption.AES_GCM_8, 128, 0)
    opener = MessageCipher(keys)
    message = encrypt_message(MessageCipher(keys), header(), FIRST, CHAIN, bytes(8), fragment=(1, 2))
    assert all(opener.decrypt(message[:size], True) is None for size in range(len(message)))
    assert opener.decrypt(message + b"behind", True).plaintext == CHAIN


@pytest.mark.parametrize(("encryption", "key_bits", "integrity"), SUITES)
def test_decryption_inverts_encryption(encryption, key_bits, integrity):
    keys = keys_for(encryption, key_bits, integrity)
    opener = MessageCipher(keys)
    for flags, fragment, inside in (
        (INITIATOR, None, (FIRST, CHAIN)),
        (0x20, None, (FIRST, CHAIN)),
        (INITIATOR, None, (0, b"")),
        (INITIATOR, (2, 3), (0, CHAIN[3:31])),
    ):
        message = encrypt_message(
            MessageCipher(keys),
            header(flags),
            *inside,
            iv_for(encryption),
            fragment=fragment,
            clear=[ike.notify(16400)],
        )
        opened = opener.decrypt(message, flags == INITIATOR)
        assert (opened.first, opened.plaintext, opened.verified) == (*inside, True)
        assert find_encrypted_payload(message).fragment == fragment
        if keys.sk_ei:
            assert opener.decrypt(message, flags != INITIATOR) is None


def test_the_capture_says_what_the_file_does_not():
    suite = IkeSuite(Encryption.AES_CBC, 256, Integrity.HMAC_SHA1_96)
    keys = replace(keys_for(suite.encryption, 256, suite.integrity), encryption=None, integrity=None)
    message = encrypt_message(MessageCipher(keys, suite), header(), FIRST, CHAIN, bytes(16))
    assert MessageCipher(keys, suite).decrypt(message, True).plaintext == CHAIN
    # and the file is believed where it says something
    reported = replace(keys, encryption=suite.encryption, integrity=suite.integrity)
    assert MessageCipher(reported, IkeSuite(Encryption.AES_GCM_16, 128, 0)).decrypt(message, True).plaintext == CHAIN


GOOD = keys_for(Encryption.AES_CBC, 256, Integrity.HMAC_SHA2_256_128)


@pytest.mark.parametrize(
    ("keys", "suite", "reason"),
    [
        (replace(GOOD, no_salt=True), None, "salt"),
        (replace(GOOD, encryption=None), None, "unknown cipher: neither the key file"),
        (replace(GOOD, integrity=None), None, "unknown integrity algorithm: neither the key file"),
        (replace(GOOD, encryption=Encryption.IDEA), None, "IDEA is not supported"),
        (replace(GOOD, encryption=4711), None, "4711 is not supported"),
        (replace(GOOD, integrity=Integrity.DES_MAC), None, "DES-MAC is not supported"),
        (replace(GOOD, sk_ei=bytes(31)), None, "SK_ei has 31 bytes, SK_er 32"),
        (replace(GOOD, sk_ei=b"", sk_er=b""), None, "SK_e has 0 bytes, AES-CBC takes 16 or 24 or 32"),
        (replace(GOOD, sk_ar=bytes(20)), None, "SK_a has 20 bytes, HMAC-SHA2-256-128 takes 32"),
        (replace(GOOD, encryption=Encryption.AES_GCM_16), None, "20 or 28 or 36, including the salt"),
        (
            replace(GOOD, encryption=None),
            IkeSuite(Encryption.AES_CBC, 128, 12),
            "SK_e has 32 bytes, AES-CBC takes 16",
        ),
        (
            replace(GOOD, encryption=None),
            IkeSuite(Encryption.AES_CBC, 100, 12),
            "AES-CBC has no keys of 100 bits",
        ),
    ],
)
def test_unusable_keys_raise_without_the_secret(keys, suite, reason):
    with pytest.raises(UnusableKeyError, match=reason) as caught:
        MessageCipher(keys, suite)
    text = str(caught.value) + repr(caught.value)
    for secret in (keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar):
        assert not secret or secret.hex() not in text
        assert not secret or repr(secret) not in text


def unchecked(encryption: int, integrity: int, icv: int) -> tuple[MessageKeys, MessageKeys]:
    """Keys that check, and the same as Wireshark's table has them with "ANY ... [No Checking]"."""
    keys = keys_for(encryption, 128, integrity)
    return keys, replace(keys, integrity=None, sk_ai=b"", sk_ar=b"", unchecked_icv=icv)


@pytest.mark.parametrize("encryption", [Encryption.AES_CBC, Encryption.AES_CTR])
def test_messages_with_an_unknown_icv_are_decrypted_unverified(encryption):
    keys, bare = unchecked(encryption, Integrity.HMAC_SHA1_96, 12)
    opener = MessageCipher(bare)
    assert not opener.verifies
    message = encrypt_message(MessageCipher(keys), header(), FIRST, CHAIN, iv_for(encryption))
    opened = opener.decrypt(message, True)
    assert (opened.first, opened.plaintext, opened.verified) == (FIRST, CHAIN, False)
    empty = encrypt_message(MessageCipher(keys), header(), 0, b"", iv_for(encryption))
    assert opener.decrypt(empty, True).plaintext == b""
    # a wrong key gives nothing, not even now
    wrong = MessageCipher(replace(bare, sk_ei=Random(1).randbytes(len(bare.sk_ei))))
    messages = [
        encrypt_message(MessageCipher(keys), header(), FIRST, CHAIN, iv_for(encryption, seed)) for seed in range(300)
    ]
    assert not any(wrong.decrypt(message, True) for message in messages)
    with pytest.raises(UnusableKeyError, match="no ICV"):
        encrypt_message(MessageCipher(bare), header(), FIRST, CHAIN, iv_for(encryption))


def test_fragments_without_a_check():
    keys, bare = unchecked(Encryption.AES_CBC, Integrity.HMAC_SHA1_96, 12)
    opener = MessageCipher(bare)
    first = encrypt_message(MessageCipher(keys), header(), FIRST, CHAIN[:20], bytes(16), fragment=(1, 2))
    second = encrypt_message(MessageCipher(keys), header(), 0, CHAIN[20:], bytes(16), fragment=(2, 2))
    assert opener.decrypt(first, True).plaintext + opener.decrypt(second, True).plaintext == CHAIN
    senseless = encrypt_message(MessageCipher(keys), header(), FIRST, b"\xff" * 30, bytes(16), fragment=(1, 2))
    assert opener.decrypt(senseless, True) is None


@pytest.mark.parametrize(
    ("first", "plaintext", "cut", "expected"),
    [
        (FIRST, CHAIN, False, True),
        (FIRST, CHAIN[:-1], False, False),
        (FIRST, CHAIN[:-1], True, True),
        (FIRST, CHAIN + b"\0", False, False),
        (0, b"", False, True),
        (0, b"\0", False, False),
        (200, CHAIN, False, False),  # no such payload
        (41, b"\0\x01\0\x08" + bytes(4), False, False),  # a reserved bit
        (41, b"\0\0\0\x03" + bytes(4), False, False),
        (41, b"\x29\0\0\0" * 9, False, False),  # a loop
        (41, b"\x29\0\0\0" * 9, True, False),
    ],
)
def test_only_payload_chains_are_plausible(first, plaintext, cut, expected):
    assert is_plausible_chain(plaintext, first, cut) is expected


@pytest.mark.parametrize(
    "change",
    [
        {16: 0},  # no payload at all
        {17: 0x10},  # IKEv1
        {30: 0xFF},  # the payload runs over the end
        {31: 4},  # the payload ends before the message does
    ],
)
def test_messages_without_an_encrypted_payload_are_not_decrypted(change):
    message = bytearray(ike.encrypted(SPI_I, SPI_R, ike.IKE_AUTH, INITIATOR, 1, 35, bytes(64)))
    assert find_encrypted_payload(bytes(message)) is not None
    for at, value in change.items():
        message[at] = value
    assert find_encrypted_payload(bytes(message)) is None


@pytest.mark.parametrize(("number", "total"), [(0, 2), (3, 2), (0, 0)])
def test_fragment_numbers_that_cannot_be(number, total):
    keys = keys_for(Encryption.AES_GCM_16, 128, 0)
    assert (
        find_encrypted_payload(
            encrypt_message(MessageCipher(keys), header(), 0, CHAIN, bytes(8), fragment=(number, total))
        )
        is None
    )


def test_seal_refuses_an_iv_of_another_length():
    with pytest.raises(ValueError, match="IVs of 16 bytes, not 8"):
        encrypt_message(MessageCipher(GOOD), header(), FIRST, CHAIN, bytes(8))


@given(st.binary(max_size=120), st.sampled_from([46, 53]), st.booleans())
def test_random_bytes_are_never_verified(data, kind, with_header):
    if with_header:
        data = ike.ike_header(SPI_I, SPI_R, kind, 35, INITIATOR, 1, 28 + len(data)) + data
    find_encrypted_payload(data)
    for keys in (GOOD, unchecked(Encryption.AES_CBC, Integrity.HMAC_SHA1_96, 12)[1]):
        opened = MessageCipher(keys).decrypt(data, True)
        assert opened is None or not opened.verified


@given(st.binary(max_size=80), st.integers(0, 255))
def test_any_plaintext_is_encrypted_and_decrypted(plaintext, first):
    keys = keys_for(Encryption.AES_GCM_16, 256, 0)
    message = encrypt_message(MessageCipher(keys), header(), first, plaintext, bytes(8))
    opened = MessageCipher(keys).decrypt(message, True)
    assert (opened.first, opened.plaintext) == (first, plaintext)


def test_padding_that_is_longer_than_the_payload():
    # of an authenticated message, as a hostile peer may send it: the pad length is the last byte
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    keys = keys_for(Encryption.AES_GCM_16, 128, 0)
    head = ike.encrypted(SPI_I, SPI_R, ike.IKE_AUTH, INITIATOR, 1, 35, bytes(8 + 4 + 16))[:32]
    for padded, expected in ((b"\0\0\0\3", b""), (b"\0\0\0\4", None), (b"\0\0\0\xff", None)):
        encrypted = AESGCM(keys.sk_ei[:16]).encrypt(keys.sk_ei[16:] + bytes(8), padded, head)
        opened = MessageCipher(keys).decrypt(head + bytes(8) + encrypted, True)
        assert (opened and opened.plaintext) == expected


# The names of Wireshark's key table.
ENCR = {
    Encryption.NULL: "NULL [RFC2410]",
    Encryption.TRIPLE_DES: "3DES [RFC2451]",
    Encryption.AES_CBC: "AES-CBC-{bits} [RFC3602]",
    Encryption.AES_CTR: "AES-CTR-{bits} [RFC5930]",
    Encryption.AES_GCM_8: "AES-GCM-{bits} with 8 octet ICV [RFC5282]",
    Encryption.AES_GCM_12: "AES-GCM-{bits} with 12 octet ICV [RFC5282]",
    Encryption.AES_GCM_16: "AES-GCM-{bits} with 16 octet ICV [RFC5282]",
    Encryption.AES_CCM_8: "AES-CCM-{bits} with 8 octet ICV [RFC5282]",
    Encryption.AES_CCM_12: "AES-CCM-{bits} with 12 octet ICV [RFC5282]",
    Encryption.AES_CCM_16: "AES-CCM-{bits} with 16 octet ICV [RFC5282]",
}
INTEG = {
    0: "NONE [RFC4306]",
    Integrity.HMAC_MD5_96: "HMAC_MD5_96 [RFC2403]",
    Integrity.HMAC_MD5_128: "HMAC_MD5_128 [RFC4595]",
    Integrity.HMAC_SHA1_96: "HMAC_SHA1_96 [RFC2404]",
    Integrity.HMAC_SHA1_160: "HMAC_SHA1_160 [RFC4595]",
    HMAC_SHA2_256_96: "HMAC_SHA2_256_96 [draft-ietf-ipsec-ciph-sha-256-00]",
    Integrity.HMAC_SHA2_256_128: "HMAC_SHA2_256_128 [RFC4868]",
    Integrity.HMAC_SHA2_384_192: "HMAC_SHA2_384_192 [RFC4868]",
    Integrity.HMAC_SHA2_512_256: "HMAC_SHA2_512_256 [RFC4868]",
}


def read_by_tshark(directory: Path, rows: list[str], messages: list[bytes]) -> list[str]:
    """What tshark prints of each message, decrypted with these rows of Wireshark's key table."""
    (directory / "ikev2_decryption_table").write_text("".join(row + "\n" for row in rows))
    packets = [Packet(at, link.ethernet(udp_packet(message))) for at, message in enumerate(messages)]
    (directory / "encrypted.pcap").write_bytes(pcap(packets))
    environment = {**os.environ, "WIRESHARK_CONFIG_DIR": str(directory)}
    command = ["tshark", "-n", "-V", "-r", str(directory / "encrypted.pcap")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "Error loading" not in done.stderr
    return re.split(r"^Frame \d+: ", done.stdout, flags=re.MULTILINE)[1:]


def row_for(spi_i: bytes, keys: MessageKeys, key_bits: int | None) -> str:
    encryption, integrity = ENCR[keys.encryption].format(bits=key_bits), INTEG[keys.integrity]
    fields = [spi_i, SPI_R, keys.sk_ei, keys.sk_er, encryption, keys.sk_ai, keys.sk_ar, integrity]
    return ",".join(field.hex() if isinstance(field, bytes) else f'"{field}"' for field in fields)


@pytest.mark.tshark
def test_tshark_reads_what_was_encrypted(tmp_path):
    rows, messages = [], []
    known = [suite for suite in SUITES if suite[0] in ENCR and suite[2] in INTEG]
    for number, (encryption, key_bits, integrity) in enumerate(known):
        spi_i, keys = number.to_bytes(8, "big"), keys_for(encryption, key_bits, integrity)
        rows.append(row_for(spi_i, keys, key_bits))
        iv = iv_for(encryption)
        messages.append(encrypt_message(MessageCipher(keys), header(spi_i=spi_i), FIRST, CHAIN, iv))
        messages.append(
            encrypt_message(MessageCipher(keys), header(0x20, spi_i=spi_i), FIRST, CHAIN, iv, clear=[ike.notify(16400)])
        )
    read = read_by_tshark(tmp_path, rows, messages)
    assert len(read) == len(messages) == 164
    for text, message in zip(read, messages, strict=True):
        assert text.count("[correct]") == 1, text
        types = re.findall(r"Notify Message Type: \w+ \((\d+)\)", text)
        clear = [] if message[16] == 46 else ["16400"]
        assert types == [*clear, "16384", "16417"]
        assert "Payload: Delete (42)" in text


@pytest.mark.tshark
def test_tshark_reads_the_fragments_that_were_encrypted(tmp_path):
    keys = keys_for(Encryption.AES_GCM_16, 256, 0)
    parts = CHAIN[:9], CHAIN[9:20], CHAIN[20:]
    messages = [
        encrypt_message(
            MessageCipher(keys),
            header(),
            FIRST if number == 1 else 0,
            part,
            iv_for(keys.encryption, number),
            fragment=(number, 3),
        )
        for number, part in enumerate(parts, 1)
    ]
    read = read_by_tshark(tmp_path, [row_for(SPI_I, keys, 256)], messages)
    assert [text.count("[correct]") for text in read] == [1, 1, 1]
    assert re.findall(r"Notify Message Type: \w+ \((\d+)\)", read[-1]) == ["16384", "16417"]


@pytest.mark.parametrize("suite", [(20, 256, 0), (12, 128, 12)])
def test_keys_of_one_direction_open_that_direction(suite):
    """A secrets file of tcpdump may have a line for one side alone."""
    keys = keys_for(*suite)
    messages = [
        encrypt_message(MessageCipher(keys), header(flags), FIRST, CHAIN, iv_for(suite[0])) for flags in (INITIATOR, 0)
    ]
    for half, expected in (
        (replace(keys, sk_er=b"", sk_ar=b""), [CHAIN, None]),
        (replace(keys, sk_ei=b"", sk_ai=b""), [None, CHAIN]),
        (replace(keys, sk_ei=b""), [None, CHAIN]),  # as of a log of which one dump is cut
    ):
        opener = MessageCipher(half)
        opened = [opener.decrypt(message, side) for message, side in zip(messages, (True, False), strict=True)]
        assert [item and item.plaintext for item in opened] == expected
        with pytest.raises(UnusableKeyError, match="direction"):
            encrypt_message(
                MessageCipher(half), header(INITIATOR if not half.sk_ei else 0), FIRST, CHAIN, iv_for(suite[0])
            )


@pytest.mark.parametrize(("encryption", "key_bits", "integrity"), SUITES)
@pytest.mark.parametrize("fragment", [None, (2, 3)])
def test_another_plaintext_in_a_message_of_the_same_size(encryption, key_bits, integrity, fragment):
    """The padding keeps the size, also if the sender padded more than the cipher needs."""
    decryptor = MessageCipher(keys_for(encryption, key_bits, integrity))
    message = encrypt_message(decryptor, header(), FIRST, CHAIN, iv_for(encryption), fragment=fragment)
    payload = find_encrypted_payload(message)
    new_iv, shorter = iv_for(encryption, seed=2), b"x" * (len(CHAIN) - 3)
    assert get_iv(decryptor, payload) == iv_for(encryption)
    for plaintext in (CHAIN[::-1], shorter):
        changed = replace_plaintext(decryptor, message, True, message[: payload.start], plaintext, new_iv)
        assert (len(changed), changed[: payload.start]) == (len(message), message[: payload.start])
        assert decryptor.decrypt(changed, True).plaintext == plaintext
        assert get_iv(decryptor, find_encrypted_payload(changed)) == new_iv


def test_a_plaintext_that_does_not_fit_or_cannot_be_authenticated_is_refused():
    number, key_bits, integrity = next(suite for suite in SUITES if suite[2])
    keys = keys_for(number, key_bits, integrity)
    decryptor, iv = MessageCipher(keys), iv_for(number)
    message = encrypt_message(decryptor, header(), FIRST, CHAIN, iv)
    associated = message[: find_encrypted_payload(message).start]
    unchecked = MessageCipher(replace(keys, integrity=None, unchecked_icv=INTEGRITY[integrity].icv))
    refused = [
        (decryptor, message, associated, CHAIN + bytes(64), iv),
        (decryptor, message, associated[:-1], CHAIN, iv),
        (decryptor, message, associated, CHAIN, iv + b"\0"),
        (decryptor, message[:40], associated, CHAIN, iv),
        (unchecked, message, associated, CHAIN, iv),
    ]
    for used, data, before, plaintext, new_iv in refused:
        assert replace_plaintext(used, data, True, before, plaintext, new_iv) is None
