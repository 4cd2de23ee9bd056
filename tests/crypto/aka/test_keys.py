"""Keys of EAP-AKA: the example of FIPS 186-2, and SHA-1 as hashlib computes it."""

import hashlib
import hmac

from ikeanalyze.crypto.aka.keys import compute_aka_mac, compute_checkcode, derive_aka_keys, generate_fips_186_2


def test_the_example_of_fips_186_2():
    """ "Multiple Examples of DSA", the revised algorithm of change notice 1: w[0] and w[1]."""
    stream = generate_fips_186_2(bytes.fromhex("bd029bbe7f51960bcf9edb2b61f06f0feb5a38b6"), 40)
    assert stream.hex() == "2070b3223dba372fde1c0ffc7b2e3b498b260614" + "3c6c18bacb0f6c55babb13788e20d737a3275116"


def test_keys_are_parts_of_one_stream():
    """RFC 4187, section 7: K_encr, K_aut, MSK, EMSK, in this order."""
    identity, ik, ck = b"0232010000000000", bytes(range(16)), bytes(range(16, 32))
    master = hashlib.sha1(identity + ik + ck).digest()
    keys = derive_aka_keys(identity, ik, ck)
    assert keys.k_encr + keys.k_aut + keys.msk + keys.emsk == generate_fips_186_2(master, 160)
    assert [len(part) for part in (keys.k_encr, keys.k_aut, keys.msk, keys.emsk)] == [16, 16, 64, 64]


def test_the_mac_is_truncated_hmac_sha1():
    assert compute_aka_mac(b"k" * 16, b"packet") == hmac.new(b"k" * 16, b"packet", "sha1").digest()[:16]


def test_the_checkcode_is_empty_without_identity_packets():
    """RFC 4187, section 10.13."""
    assert compute_checkcode(b"") == b""
    assert compute_checkcode(b"request" + b"response") == hashlib.sha1(b"requestresponse").digest()


def test_secrets_stay_out_of_texts():
    assert repr(derive_aka_keys(b"0", bytes(16), bytes(16))) == "AkaKeys()"
