import pytest
from cryptography.hazmat.primitives.asymmetric import mlkem
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeanalyze.wire.ikev2.key_exchange import ML_KEM_PARAMETER_SETS, check_encapsulation_key, guess_mlkem_data
from tests.wire.opened import opened

#: FIPS 203, table 3: bytes of encapsulation keys and ciphertexts.
SIZES = {35: (800, 768), 36: (1184, 1088), 37: (1568, 1568)}
#: Polynomials in a key.
RANKS = {800: 2, 1184: 3, 1568: 4}


def packed(coefficients):
    """ByteEncode with d = 12 (FIPS 203, algorithm 5), bit by bit as it is written there."""
    bits = [number >> place & 1 for number in coefficients for place in range(12)]
    return bytes(sum(bits[at + place] << place for place in range(8)) for at in range(0, len(bits), 8))


def test_sizes_of_mlkem_data_identify_the_parameter_set():
    result = {method: (p.encapsulation_key, p.ciphertext) for method, p in ML_KEM_PARAMETER_SETS.items()}
    assert result == SIZES
    assert guess_mlkem_data(1184) == ("ML-KEM-768 encapsulation key",)
    assert guess_mlkem_data(768) == ("ML-KEM-512 ciphertext",)
    assert guess_mlkem_data(1568) == ("ML-KEM-1024 encapsulation key", "ML-KEM-1024 ciphertext")
    assert guess_mlkem_data(32) == ()


@pytest.mark.parametrize("make", [mlkem.MLKEM768PrivateKey, mlkem.MLKEM1024PrivateKey])
def test_keys_of_a_library_pass(make):
    key = make.generate().public_key()
    assert check_encapsulation_key(key.public_bytes_raw()) is None
    assert len(key.encapsulate()[1]) in {size for _, size in SIZES.values()}


def test_recorded_key_passes():
    request, response, *_ = opened("pq-mlkem768-psk")
    assert (request.exchange_type, response.exchange_type) == (43, 43)
    # generic header, method, reserved
    assert check_encapsulation_key(request.inside[8:]) is None
    assert len(response.inside[8:]) == 1088


@pytest.mark.parametrize("size", RANKS)
@pytest.mark.parametrize(("highest", "wrong"), [(3328, 0), (3329, 1), (4095, 1)])
@pytest.mark.parametrize("place", [0, 1, 255, -1])
def test_modulus_check(size, highest, wrong, place):
    coefficients = [3328] * (256 * RANKS[size])
    coefficients[place] = highest
    key = packed(coefficients) + bytes(32)
    assert len(key) == size
    problem = check_encapsulation_key(key)
    if wrong:
        assert problem is not None
        assert problem.startswith(f"1 of {256 * RANKS[size]} coefficients")
    else:
        assert problem is None


@settings(max_examples=15)
@given(st.lists(st.integers(0, 4095), min_size=512, max_size=512))
def test_counts_what_is_not_below_the_modulus(coefficients):
    wrong = sum(number >= 3329 for number in coefficients)
    problem = check_encapsulation_key(packed(coefficients) + b"\xff" * 32)
    assert (problem is None) == (wrong == 0)
    assert problem is None or problem.startswith(f"{wrong} of 512")


def test_library_refuses_what_the_check_refuses():
    key = mlkem.MLKEM768PrivateKey.generate().public_key().public_bytes_raw()
    bad = b"\xff\xff\xff" + key[3:]
    assert check_encapsulation_key(bad) is not None
    with pytest.raises(ValueError, match=r".*"):
        mlkem.MLKEM768PublicKey.from_public_bytes(bad).encapsulate()


@pytest.mark.parametrize("size", [0, 32, 767, 768, 799, 1183, 1185, 1569])
def test_other_sizes_are_no_keys(size):
    assert check_encapsulation_key(bytes(size)) == f"{size} bytes are not an ML-KEM encapsulation key"
