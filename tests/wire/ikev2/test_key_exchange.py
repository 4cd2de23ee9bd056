import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, x448, x25519

from ikeanalyze.wire.ikev2.key_exchange import (
    check_key_exchange,
    get_ke_data_name,
    get_ke_data_sizes,
    get_key_exchange_name,
)
from ikeanalyze.wire.ikev2.payloads import KeyExchange
from ikeanalyze.wire.registries.ikev2_transforms import KeyExchangeMethod

#: Curves by method (RFC 5903, RFC 5114, RFC 6954): points are sent without the byte that SEC 1 puts first.
CURVES = {
    19: ec.SECP256R1(),
    20: ec.SECP384R1(),
    21: ec.SECP521R1(),
    25: ec.SECP192R1(),
    26: ec.SECP224R1(),
    28: ec.BrainpoolP256R1(),
    29: ec.BrainpoolP384R1(),
    30: ec.BrainpoolP512R1(),
}


@pytest.mark.parametrize("method", CURVES)
def test_sizes_of_points_follow_from_the_curves(method):
    assert get_ke_data_sizes(method, None) == (2 * ((CURVES[method].key_size + 7) // 8),)


@pytest.mark.parametrize("method", [19, 20, 21])
def test_points_of_a_library(method):
    key = ec.generate_private_key(CURVES[method]).public_key()
    encoding = serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    assert check_key_exchange(KeyExchange(method, key.public_bytes(*encoding)[1:])) == []


@pytest.mark.parametrize(("method", "module"), [(31, x25519.X25519PrivateKey), (32, x448.X448PrivateKey)])
def test_montgomery_curves(method, module):
    key = module.generate().public_key().public_bytes_raw()
    assert check_key_exchange(KeyExchange(method, key), True, method) == []


def test_primes_have_the_size_in_their_name():
    for method in KeyExchangeMethod:
        kind, _, bits = method.label.partition("-")
        if kind == "MODP":
            assert get_ke_data_sizes(method, False) == (int(bits.partition("-")[0]) // 8,)


@pytest.mark.parametrize(
    ("method", "response", "sizes"),
    [
        (35, False, (800,)),
        (35, True, (768,)),
        (36, None, (1184, 1088)),
        (37, None, (1568, 1568)),
        (33, False, ()),
    ],
)
def test_ml_kem_sizes_hang_on_the_direction(method, response, sizes):
    assert get_ke_data_sizes(method, response) == sizes


@pytest.mark.parametrize(
    ("method", "size", "response", "findings"),
    [
        (36, 1184, False, []),
        (36, 1088, True, []),
        (36, 1088, None, []),
        (36, 1088, False, ["ML-KEM-768 encapsulation key of 1088 bytes instead of 1184, the size of an ML-KEM-768 ciphertext"]),
        (36, 1568, True, ["ML-KEM-768 ciphertext of 1568 bytes instead of 1088,"
                          " the size of an ML-KEM-1024 encapsulation key or ML-KEM-1024 ciphertext"]),
        (36, 5, None, ["ML-KEM-768 encapsulation key or ciphertext of 5 bytes instead of 1184 or 1088"]),
        (31, 33, False, ["X25519 public value of 33 bytes instead of 32"]),
        (31, 32, False, ["X25519 public value is 0, so that the shared secret is public"]),
        (33, 1, False, []),
        (1000, 0, None, []),
    ],
)  # fmt: skip
def test_wrong_sizes_have_findings(method, size, response, findings):
    assert check_key_exchange(KeyExchange(method, bytes(size)), response) == findings


def test_modulus_check_is_of_requests_alone():
    bad = b"\xff" * 1568
    (finding,) = check_key_exchange(KeyExchange(37, bad), False)
    assert "modulus check" in finding
    # as large as a key, but nobody says which of the two it is
    assert check_key_exchange(KeyExchange(37, bad), True) == []
    assert check_key_exchange(KeyExchange(37, bad), None) == []


def test_another_method_than_negotiated():
    assert check_key_exchange(KeyExchange(36, bytes(1184)), False, 37) == [
        "key exchange with ML-KEM-768, but ML-KEM-1024 was negotiated"
    ]


def test_methods_and_their_data_have_names():
    assert get_key_exchange_name(36) == "ML-KEM-768"
    assert get_key_exchange_name(1024) == "1024"
    assert [get_ke_data_name(36, response) for response in (False, True)] == ["encapsulation key", "ciphertext"]
    assert get_ke_data_name(19, True) == "public value"
