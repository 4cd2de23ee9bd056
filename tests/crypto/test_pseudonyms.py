"""Pseudonyms: the sample trace of the authors of Crypto-PAn, and properties of the mapping."""

import socket
from random import Random

import pytest

from ikeanalyze.crypto.pseudonyms import PrefixPreservingMap, derive_pseudorandom_bytes

#: The key of the sample trace in the distribution of Crypto-PAn.
SAMPLE_KEY = bytes.fromhex("1522178d33a4cf80130a5b1649907d10d8988f837979652762574c2d2a842202")
#: Lines of its raw and its sanitized trace.
SAMPLE_TRACE = {
    "128.11.68.132": "135.242.180.132",
    "129.118.74.4": "134.136.186.123",
    "130.132.252.244": "133.68.164.234",
    "141.223.7.43": "141.167.8.160",
    "141.233.145.108": "141.129.237.235",
    "152.163.225.39": "151.140.114.167",
    "156.29.3.236": "147.225.12.42",
    "165.247.96.84": "162.9.99.234",
    "166.107.77.190": "160.132.178.185",
    "192.102.249.13": "252.138.62.131",
    "193.150.244.223": "253.169.52.216",
    "198.51.77.238": "249.18.186.254",
    "204.184.162.189": "243.192.77.90",
}
#: Of other implementations that extend it to IPv6 in the same way.
IPV6 = {
    "::1": "78ff:f001:9fc0:20df:8380:b1f1:704:ed",
    "::2": "78ff:f001:9fc0:20df:8380:b1f1:704:ef",
    "2001:db8::1": "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e",
    "2001:db8::2": "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1c",
}


@pytest.mark.parametrize(
    ("family", "address", "pseudonym"),
    [(socket.AF_INET, *pair) for pair in SAMPLE_TRACE.items()] + [(socket.AF_INET6, *pair) for pair in IPV6.items()],
)
def test_published_vectors(family, address, pseudonym):
    mapped = PrefixPreservingMap(SAMPLE_KEY).map_address(socket.inet_pton(family, address))
    assert socket.inet_ntop(family, mapped) == pseudonym


@pytest.mark.parametrize("size", [4, 16])
def test_common_prefixes_have_the_same_length(size):
    mapping, random = PrefixPreservingMap(SAMPLE_KEY), Random(1)
    for _ in range(100):
        address, bit = random.randbytes(size), random.randrange(8 * size)
        other = (int.from_bytes(address, "big") ^ 1 << bit).to_bytes(size, "big")
        difference = int.from_bytes(mapping.map_address(address), "big") ^ int.from_bytes(
            mapping.map_address(other), "big"
        )
        assert difference.bit_length() == bit + 1


def test_another_key_gives_another_pseudonym():
    address = socket.inet_aton("192.0.2.1")
    assert PrefixPreservingMap(SAMPLE_KEY).map_address(address) != PrefixPreservingMap(bytes(32)).map_address(address)
    with pytest.raises(ValueError, match="31 bytes, not 32"):
        PrefixPreservingMap(bytes(31))


def test_bytes_depend_on_key_label_and_content():
    reference = derive_pseudorandom_bytes(bytes(32), b"label", b"content", 40)
    assert len(reference) == 40
    assert derive_pseudorandom_bytes(bytes(32), b"label", b"content", 40) == reference
    others = [(bytes([1] * 32), b"label", b"content"), (bytes(32), b"other", b"content"), (bytes(32), b"label", b"")]
    assert reference not in [derive_pseudorandom_bytes(*other, 40) for other in others]
    assert derive_pseudorandom_bytes(bytes(32), b"label", b"content", 0) == b""
