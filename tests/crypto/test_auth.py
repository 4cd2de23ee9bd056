"""What AUTH is made over, against what charon logged of it."""

import hashlib
import hmac

import pytest

from ikeanalyze.crypto.algorithms import PRF, IkeSuite
from ikeanalyze.crypto.auth import combined_int_auth, get_int_auth_octets, int_auth, shared_key_auth, signed_octets
from ikeanalyze.crypto.sk_payload import DecryptedMessage, MessageCipher, find_encrypted_payload
from ikeanalyze.crypto.skf_fragments import SkfReassembler
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads, parse_payloads
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Prf
from tests.craft import ike
from tests.keys.dumps import contents, log, recorded_key_sets
from tests.wire.recorded import ike_messages

SHA384 = PRF[Prf.HMAC_SHA2_384]
SPI_I, SPI_R = bytes(range(8)), bytes(range(8, 16))
NAME = "pq-mlkem768-psk"
PSK = b"swordfish"  # the log's "secret"


def opened_messages() -> list[tuple[bytes, DecryptedMessage]]:
    """IKE_INTERMEDIATE request and response, IKE_AUTH request and response; fragments put together."""
    openers = [MessageCipher(keys, IkeSuite(Encryption.AES_GCM_16, 256, 0)) for keys in recorded_key_sets(NAME)]
    result, fragments, first = [], SkfReassembler(), b""
    for message in ike_messages(NAME):
        encrypted = find_encrypted_payload(message)
        if encrypted is None:
            continue
        opened = next(filter(None, (opener.decrypt(message, bool(message[19] & 0x08)) for opener in openers)))
        if encrypted.fragment:
            number, total = encrypted.fragment
            first = message if number == 1 else first
            fragments.add(number, total, opened.first, opened.plaintext)
            message, opened = first, fragments.get_message()
        if opened:
            result.append((message, opened))
    return result


def test_octets_of_int_auth_are_those_of_the_log():
    request, response, *_ = opened_messages()
    assert find_encrypted_payload(request[0]).fragment == (1, 2)
    assert [get_int_auth_octets(*request), get_int_auth_octets(*response)] == contents(log(NAME), "IntAuth_A|P")


def test_values_of_int_auth_are_those_of_the_log():
    dumps = log(NAME)
    octets = contents(dumps, "IntAuth_A|P")
    first, _ = recorded_key_sets(NAME)
    values = contents(dumps, "IntAuth_N = prf(Sk_px, data)")
    assert [
        int_auth(SHA384, key, b"", data) for key, data in zip((first.sk_pi, first.sk_pr), octets, strict=True)
    ] == values
    # of a second exchange the first one's value comes before the octets
    assert int_auth(SHA384, b"key", b"before", b"octets") == hmac.digest(b"key", b"beforeoctets", hashlib.sha384)


def test_signed_octets_and_auth():
    dumps = log(NAME)
    request, response = ike_messages(NAME)[:2]
    nonce_i, nonce_r = (
        next(payload.body for payload in parse_payloads(message).payloads if payload.type == ike.NONCE)
        for message in (request, response)
    )
    keys = recorded_key_sets(NAME)[1]
    *_, (_, auth_request), (_, auth_response) = opened_messages()
    combined = combined_int_auth(*contents(dumps, "IntAuth_N = prf(Sk_px, data)"), 2)
    logged_octets = contents(dumps, "octets = message + nonce + prf(Sk_px, IDx') + IntAuth")
    logged_auth = contents(dumps, "AUTH = prf(prf(secret, keypad), octets)")
    sides = [
        (request, nonce_r, keys.sk_pi, ike.ID_I, auth_request),
        (response, nonce_i, keys.sk_pr, ike.ID_R, auth_response),
    ]
    for number, (message, nonce, sk_p, id_type, opened) in enumerate(sides):
        inside = {
            payload.type: payload.body for payload in parse_decrypted_payloads(opened.plaintext, opened.first).payloads
        }
        octets = signed_octets(SHA384, message, nonce, sk_p, inside[id_type], combined)
        assert octets == logged_octets[number]
        assert shared_key_auth(SHA384, PSK, octets) == logged_auth[number]
        assert inside[ike.AUTH][4:] == logged_auth[number]  # and that is what was sent
        assert shared_key_auth(SHA384, b"swordfisH", octets) != logged_auth[number]


@pytest.mark.parametrize(("name", "count"), [("psk-classic", 2), ("eap-md5-radius", 3)])
def test_shared_key_auth_values_are_those_of_the_log(name, count):
    dumps = log(name)
    octets = [content for label, content in dumps if label.startswith("octets = ")]
    secrets, values = contents(dumps, "secret"), contents(dumps, "AUTH = prf(prf(secret, keypad), octets)")
    assert len(octets) == len(secrets) == len(values) == count
    for secret, data, value in zip(secrets, octets, values, strict=True):
        assert shared_key_auth(PRF[Prf.HMAC_SHA2_256], secret, data) == value
    if name == "eap-md5-radius":
        # EAP-MD5 makes no MSK: SK_pi and SK_pr take its place (RFC 7296, section 2.16)
        (keys,) = recorded_key_sets(name)
        assert secrets[1:] == [keys.sk_pi, keys.sk_pr]


def test_clear_payloads_before_the_encrypted_one():
    # RFC 9242, section 3.3.2, by hand: a notification in the clear, then 5 bytes inside
    for kind, numbers in ((ike.SK, b""), (ike.SKF, b"\0\1\0\2")):
        body = bytes.fromhex("29 00 00 1e") if kind == ike.SK else bytes.fromhex("29 00 00 22") + numbers
        inner = b"IV------" + b"ciphertext" + b"ICV....."
        notify = bytes([kind]) + bytes.fromhex("00 00 08 00 00 40 00")
        size = 28 + len(notify) + len(body) + len(inner)
        message = ike.ike_header(SPI_I, SPI_R, ike.NOTIFY, 43, 0x08, 1, size) + notify + body + inner
        expected = (
            ike.ike_header(SPI_I, SPI_R, ike.NOTIFY, 43, 0x08, 1, 28 + 8 + 4 + 5)
            + bytes([ike.SK]) + notify[1:] + bytes.fromhex("29 00 00 09") + b"inner"
        )  # fmt: skip
        assert get_int_auth_octets(message, DecryptedMessage(b"inner", 41, True)) == expected


def test_no_octets_of_other_messages():
    opened = DecryptedMessage(b"", 0, True)
    second = ike.skf(SPI_I, SPI_R, 43, 0x08, 1, 34, [bytes(40), bytes(40)])[1]
    for message in (b"", ike.message(SPI_I, SPI_R, 34, 0x08, 0, [ike.nonce(bytes(32))]), second):
        with pytest.raises(ValueError, match="not a message with an encrypted payload"):
            get_int_auth_octets(message, opened)
