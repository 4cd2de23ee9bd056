"""Packets of scapy's IPsec layer are opened, with every algorithm of Wireshark's table that is known here."""

import logging

import pytest

from ikeanalyze.keys.esp_packets import EspKeyError, EspOpener
from ikeanalyze.keys.keyset import EspKey, Origin

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


def key(encryption, size, integrity, mac_size, first=1):
    secret = bytes((first + n) % 256 for n in range(size))
    return EspKey(
        Origin("x", 1), "IPv4", "*", "*", None, encryption, secret, integrity, bytes(range(mac_size))
    )


def packets(names, esn=False):
    logging.getLogger("scapy").setLevel(logging.ERROR)
    from scapy.layers.inet import ICMP, IP
    from scapy.layers.ipsec import ESP, SecurityAssociation

    cipher, size, mac, mac_size = ALGORITHMS[names]
    one = key(names[0], size, names[1], mac_size)
    association = SecurityAssociation(
        ESP, spi=7, crypt_algo=cipher, crypt_key=one.encryption_key, auth_algo=mac, auth_key=one.integrity_key,
        tunnel_header=IP(src="192.0.2.1", dst="192.0.2.2"), esn_en=esn,
    )  # fmt: skip
    for size in (0, 1, 15, 16, 17, 1300):
        clear = IP(bytes(IP(src="10.0.0.1", dst="10.0.0.2") / ICMP() / bytes(size)))
        kwargs = {"esn_en": True, "esn": 0} if esn else {}
        yield bytes(clear), bytes(association.encrypt(clear, **kwargs).payload)


@pytest.mark.parametrize("names", ALGORITHMS, ids=" ".join)
@pytest.mark.parametrize("esn", [False, True])
def test_opened(names, esn):
    _, size, _, mac_size = ALGORITHMS[names]
    opener = EspOpener(key(names[0], size, names[1], mac_size))
    for clear, packet in packets(names, esn):
        inside = opener.open(packet)
        assert (inside.payload, inside.next_header) == (clear, 4)
        assert len(packet) - len(clear) - inside.padding >= 8 + 2 + 12


@pytest.mark.parametrize("names", ALGORITHMS, ids=" ".join)
def test_wrong_keys_and_cut_packets(names):
    _, size, _, mac_size = ALGORITHMS[names]
    opener = EspOpener(key(names[0], size, names[1], mac_size))
    (_, packet), *_ = packets(names)
    for end in range(len(packet)):
        assert opener.open(packet[:end]) is None
    assert opener.open(packet[:-1] + bytes([packet[-1] ^ 1])) is None
    if size and names[1] == "NULL":
        assert EspOpener(key(names[0], size, names[1], mac_size, first=2)).open(packet) is None


@pytest.mark.parametrize(
    ("encryption", "size", "integrity", "what"),
    [
        ("CAST5-CBC [RFC2144]", 16, "HMAC-SHA-1-96 [RFC2404]", "is not supported"),
        ("AES-CBC [RFC3602]", 16, "NULL", "cannot be checked"),
        ("AES-CBC [RFC3602]", 16, "ANY 96 bit authentication [no checking]", "cannot be checked"),
        ("AES-CBC [RFC3602]", 15, "HMAC-SHA-1-96 [RFC2404]", "a key of 15 bytes is none of AES-CBC"),
        ("AES-GCM [RFC4106]", 17, "NULL", "a key of 17 bytes is none of AES-GCM"),
    ],
)
def test_keys_that_cannot_be_used(encryption, size, integrity, what):
    with pytest.raises(EspKeyError, match=what) as caught:
        EspOpener(key(encryption, size, integrity, 20))
    assert bytes(range(1, 4)).hex() not in str(caught.value)
