"""Packets of scapy's IPsec layer are opened, with every algorithm of Wireshark's table that is known here."""

import hmac
import logging
import struct

import pytest

from ikeanalyze.crypto.esp import EspDecryptor, EspKeyError

ALGORITHMS = {
    # Wireshark's names, scapy's names, and bytes of the keys
    ("AES-GCM with 16 octet ICV [RFC4106]", "NULL"): ("AES-GCM", 36, "NULL", 0),
    ("AES-GCM [RFC4106]", "NULL"): ("AES-GCM", 20, "NULL", 0),
    ("ChaCha20 with Poly1305 [RFC7634]", "NULL"): ("CHACHA20-POLY1305", 36, "NULL", 0),
    ("AES-CBC [RFC3602]", "HMAC-SHA-256-128 [RFC4868]"): ("AES-CBC", 32, "SHA2-256-128", 32),
    ("AES-CBC [RFC3602]", "HMAC-SHA-384-192 [RFC4868]"): ("AES-CBC", 16, "SHA2-384-192", 48),
    ("AES-CBC [RFC3602]", "HMAC-SHA-512-256 [RFC4868]"): ("AES-CBC", 24, "SHA2-512-256", 64),
    ("AES-CTR [RFC3686]", "HMAC-SHA-1-96 [RFC2404]"): ("AES-CTR", 20, "HMAC-SHA1-96", 20),
    ("TripleDES-CBC [RFC2451]", "HMAC-MD5-96 [RFC2403]"): ("3DES", 24, "HMAC-MD5-96", 16),
    ("NULL", "HMAC-SHA-1-96 [RFC2404]"): ("NULL", 0, "HMAC-SHA1-96", 20),
}


def keys_for(encryption, size, integrity, mac_size, first=1):
    secret = bytes((first + n) % 256 for n in range(size))
    return encryption, secret, integrity, bytes(range(mac_size))


def packets(names, esn=False):
    logging.getLogger("scapy").setLevel(logging.ERROR)
    from scapy.layers.inet import ICMP, IP
    from scapy.layers.ipsec import ESP, SecurityAssociation

    cipher, size, mac, mac_size = ALGORITHMS[names]
    _, encryption_key, _, integrity_key = keys_for(names[0], size, names[1], mac_size)
    association = SecurityAssociation(
        ESP, spi=7, crypt_algo=cipher, crypt_key=encryption_key, auth_algo=mac, auth_key=integrity_key,
        tunnel_header=IP(src="192.0.2.1", dst="192.0.2.2"), esn_en=esn,
    )  # fmt: skip
    for size in (0, 1, 15, 16, 17, 1300):
        clear = IP(bytes(IP(src="10.0.0.1", dst="10.0.0.2") / ICMP() / bytes(size)))
        kwargs = {"esn_en": True, "esn": 0} if esn else {}
        yield bytes(clear), bytes(association.encrypt(clear, **kwargs).payload)


CLEAR = bytes(range(22))


def sender(names):
    """An EspDecryptor and a function that encrypts CLEAR with an ESN, by pyca/cryptography and hmac, as in RFC 4303."""
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

    _, size, _, mac_size = ALGORITHMS.get(names, ("", 36, "", 0))
    _, encryption_key, _, integrity_key = chosen = keys_for(names[0], size, names[1], mac_size)
    iv_size = {"AES-CBC": 16, "NULL": 0}.get(names[0].split(" ")[0], 8)
    iv = bytes(range(100, 100 + iv_size))
    plain = CLEAR + bytes(range(1, 9)) + bytes([8, 4])  # 32 bytes, whole blocks of every cipher

    def encrypted(upper):
        spi, low, high = struct.pack(">I", 7), struct.pack(">I", 9), struct.pack(">I", upper)
        if names[1] == "NULL":
            kind = ChaCha20Poly1305 if "ChaCha" in names[0] else AESGCM
            implicit = "IIV" in names[0]
            nonce = encryption_key[-4:] + (high + low if implicit else iv)
            text = kind(encryption_key[:-4]).encrypt(nonce, plain, spi + high + low)
            return spi + low + (b"" if implicit else iv) + text
        secret = encryption_key
        match names[0].split(" ")[0]:
            case "NULL":
                text = plain
            case "AES-CTR":
                mode = modes.CTR(secret[-4:] + iv + struct.pack(">I", 1))
                text = Cipher(algorithms.AES(secret[:-4]), mode).encryptor().update(plain)
            case "TripleDES-CBC":
                text = Cipher(TripleDES(secret), modes.CBC(iv)).encryptor().update(plain)
            case "AES-CBC":
                text = Cipher(algorithms.AES(secret), modes.CBC(iv)).encryptor().update(plain)
        packet = spi + low + iv + text
        _, name, *rest = names[1].split(" ")[0].split("-")
        digest, kept = ("md5", 96) if name == "MD5" else (f"sha{rest[0]}", int(rest[1]))
        return packet + hmac.digest(integrity_key, packet + high, digest)[: kept // 8]

    return EspDecryptor(*chosen), encrypted


@pytest.mark.parametrize("names", ALGORITHMS, ids=" ".join)
@pytest.mark.parametrize("esn", [False, True])
def test_packets_of_scapy_are_decrypted(names, esn):
    _, size, _, mac_size = ALGORITHMS[names]
    opener = EspDecryptor(*keys_for(names[0], size, names[1], mac_size))
    for clear, packet in packets(names, esn):
        inside = opener.decrypt(packet)
        assert (inside.payload, inside.next_header) == (clear, 4)
        assert len(packet) - len(clear) - inside.padding >= 8 + 2 + 12


@pytest.mark.parametrize(
    "names", [*ALGORITHMS, ("AES-GCM with IIV and 16 octet ICV [RFC4106 & RFC8750]", "NULL")], ids=" ".join
)
def test_extended_sequence_numbers_behind_a_whole_cycle(names):
    opener, encrypted = sender(names)
    before = None
    for upper in (0, 0, 1, 0, 1, 2, 3):
        inside = opener.decrypt(encrypted(upper), before)
        assert (inside.upper, inside.payload) == (upper, CLEAR)
        before = inside.upper
    assert opener.decrypt(encrypted(5), before) is None
    assert (opener.decrypt(encrypted(3)).upper, opener.decrypt(encrypted(4))) == (3, None)
    last = 2**32 - 1
    assert opener.decrypt(encrypted(last), last).upper == last
    assert opener.decrypt(encrypted(0), last) is None


@pytest.mark.parametrize("names", ALGORITHMS, ids=" ".join)
def test_wrong_keys_and_cut_packets(names):
    _, size, _, mac_size = ALGORITHMS[names]
    opener = EspDecryptor(*keys_for(names[0], size, names[1], mac_size))
    (_, packet), *_ = packets(names)
    for end in range(len(packet)):
        assert opener.decrypt(packet[:end]) is None
    assert opener.decrypt(packet[:-1] + bytes([packet[-1] ^ 1])) is None
    if size and names[1] == "NULL":
        assert EspDecryptor(*keys_for(names[0], size, names[1], mac_size, first=2)).decrypt(packet) is None


@pytest.mark.parametrize(
    ("encryption", "size", "integrity", "what"),
    [
        ("CAST5-CBC [RFC2144]", 16, "HMAC-SHA-1-96 [RFC2404]", "is not supported"),
        ("AES-CBC [RFC3602]", 16, "NULL", "cannot be checked"),
        ("AES-CBC [RFC3602]", 16, "ANY 96 bit authentication [no checking]", "cannot be checked"),
        ("AES-CBC [RFC3602]", 15, "HMAC-SHA-1-96 [RFC2404]", "does not take a key of 15 bytes"),
        ("AES-GCM [RFC4106]", 17, "NULL", "does not take a key of 17 bytes"),
    ],
)
def test_keys_that_cannot_be_used(encryption, size, integrity, what):
    with pytest.raises(EspKeyError, match=what) as caught:
        EspDecryptor(*keys_for(encryption, size, integrity, 20))
    assert bytes(range(1, 4)).hex() not in str(caught.value)
