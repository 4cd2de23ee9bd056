"""Checks the data of a KE payload against its key exchange method (RFC 7296, section 3.4; RFC 9370).

The data are the public value of a Diffie-Hellman group, or with ML-KEM an encapsulation key or a ciphertext
(FIPS 203; draft-ietf-ipsecme-ikev2-mlkem).
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ikeanalyze.wire.ikev2.payloads import KeyExchange
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2_transforms import KeyExchangeMethod

#: The modulus q (FIPS 203, section 2.4).
ML_KEM_MODULUS: Final = 3329
#: Bytes of the seed rho at the end of an encapsulation key.
ML_KEM_SEED_BYTES: Final = 32
#: Coefficients of one polynomial (FIPS 203, section 2.4).
_POLYNOMIAL_COEFFICIENTS: Final = 256


class MlKemParameterSet(Struct, frozen=True):
    """A parameter set of ML-KEM (FIPS 203, section 8)."""

    name: str  # ML-KEM-768
    rank: int  # k, the number of polynomials in the key
    encapsulation_key: int  # bytes of the request's data
    ciphertext: int  # bytes of the response's data


#: By key exchange method (FIPS 203, table 3).
ML_KEM_PARAMETER_SETS: Final[Mapping[int, MlKemParameterSet]] = {
    KeyExchangeMethod.ML_KEM_512: MlKemParameterSet("ML-KEM-512", 2, 800, 768),
    KeyExchangeMethod.ML_KEM_768: MlKemParameterSet("ML-KEM-768", 3, 1184, 1088),
    KeyExchangeMethod.ML_KEM_1024: MlKemParameterSet("ML-KEM-1024", 4, 1568, 1568),
}

#: Bytes of a public value, by method: of the prime of a MODP group (RFC 7296, section 3.4; RFC 5114), of both
#: coordinates of a point (RFC 5903, RFC 5114, RFC 6954), of the u-coordinate (RFC 8031).
_PUBLIC_VALUE_BYTES: Final[Mapping[int, int]] = {
    KeyExchangeMethod.MODP_768: 96,
    KeyExchangeMethod.MODP_1024: 128,
    KeyExchangeMethod.MODP_1536: 192,
    KeyExchangeMethod.MODP_2048: 256,
    KeyExchangeMethod.MODP_3072: 384,
    KeyExchangeMethod.MODP_4096: 512,
    KeyExchangeMethod.MODP_6144: 768,
    KeyExchangeMethod.MODP_8192: 1024,
    KeyExchangeMethod.ECP_256: 64,
    KeyExchangeMethod.ECP_384: 96,
    KeyExchangeMethod.ECP_521: 132,
    KeyExchangeMethod.MODP_1024_160: 128,
    KeyExchangeMethod.MODP_2048_224: 256,
    KeyExchangeMethod.MODP_2048_256: 256,
    KeyExchangeMethod.ECP_192: 48,
    KeyExchangeMethod.ECP_224: 56,
    KeyExchangeMethod.BRAINPOOL_P224R1: 56,
    KeyExchangeMethod.BRAINPOOL_P256R1: 64,
    KeyExchangeMethod.BRAINPOOL_P384R1: 96,
    KeyExchangeMethod.BRAINPOOL_P512R1: 128,
    KeyExchangeMethod.X25519: 32,
    KeyExchangeMethod.X448: 56,
}


def get_key_exchange_name(method: int) -> str:
    """Name of a key exchange method, such as ML-KEM-768; its number if it has no name."""
    return get_name(KeyExchangeMethod, method)


def get_ke_data_name(method: int, response: bool | None) -> str:
    """Kind of data in a KE payload: "public value", "encapsulation key" (request) or "ciphertext" (response).

    `response`: whether the payload is in a response; None: unknown.
    """
    if method not in ML_KEM_PARAMETER_SETS:
        return "public value"
    if response is None:
        return "encapsulation key or ciphertext"
    return "ciphertext" if response else "encapsulation key"


def get_ke_data_sizes(method: int, response: bool | None) -> tuple[int, ...]:
    """Valid sizes in bytes of the data of a KE payload; empty if they are unknown for the method.

    `response`: whether the payload is in a response; None: unknown.
    """
    parameters = ML_KEM_PARAMETER_SETS.get(method)
    if parameters is None:
        size = _PUBLIC_VALUE_BYTES.get(method)
        return () if size is None else (size,)
    if response is None:
        return parameters.encapsulation_key, parameters.ciphertext
    return (parameters.ciphertext if response else parameters.encapsulation_key,)


def guess_mlkem_data(size: int) -> tuple[str, ...]:
    """Kinds of ML-KEM data of this size in bytes, such as "ML-KEM-768 ciphertext"; two for 1,568 bytes."""
    kinds = []
    for parameters in ML_KEM_PARAMETER_SETS.values():
        if size == parameters.encapsulation_key:
            kinds.append(f"{parameters.name} encapsulation key")
        if size == parameters.ciphertext:
            kinds.append(f"{parameters.name} ciphertext")
    return tuple(kinds)


def check_encapsulation_key(key: bytes) -> str | None:
    """Check an encapsulation key as FIPS 203, section 7.2, does; return the problem, or None if the key is valid.

    Type check: a parameter set has keys of this size. Modulus check: every coefficient is below the modulus.
    """
    parameters = next((p for p in ML_KEM_PARAMETER_SETS.values() if p.encapsulation_key == len(key)), None)
    if parameters is None:
        return f"{len(key)} bytes are not an ML-KEM encapsulation key"
    end = len(key) - ML_KEM_SEED_BYTES
    invalid = 0
    # three bytes hold two coefficients, the lower bits first
    for low, middle, high in zip(key[0:end:3], key[1:end:3], key[2:end:3], strict=True):
        invalid += (low | (middle & 0x0F) << 8) >= ML_KEM_MODULUS
        invalid += (middle >> 4 | high << 4) >= ML_KEM_MODULUS
    if not invalid:
        return None
    return (
        f"{invalid} of {parameters.rank * _POLYNOMIAL_COEFFICIENTS} coefficients of the {parameters.name} encapsulation"
        f" key are not below {ML_KEM_MODULUS} (modulus check of FIPS 203, section 7.2)"
    )


def check_key_exchange(exchange: KeyExchange, response: bool | None = None, negotiated: int | None = None) -> list[str]:
    """Check a KE payload and return its problems, none if it is valid.

    `response`: whether the payload is in a response; `negotiated`: the method that was negotiated for this exchange.
    None: unknown, not checked.
    """
    name = get_key_exchange_name(exchange.method)
    problems = []
    if negotiated is not None and exchange.method != negotiated:
        problems.append(f"key exchange with {name}, but {get_key_exchange_name(negotiated)} was negotiated")
    size = len(exchange.data)
    expected = get_ke_data_sizes(exchange.method, response)
    parameters = ML_KEM_PARAMETER_SETS.get(exchange.method)
    if expected and size not in expected:
        sizes = " or ".join(map(str, dict.fromkeys(expected)))
        kinds = guess_mlkem_data(size)
        hint = f", the size of an {' or '.join(kinds)}" if kinds else ""
        data_name = get_ke_data_name(exchange.method, response)
        problems.append(f"{name} {data_name} of {size} bytes instead of {sizes}{hint}")
    elif parameters is not None:
        is_key = not response if response is not None else parameters.ciphertext != size
        problem = check_encapsulation_key(exchange.data) if is_key else None
        if problem is not None:
            problems.append(problem)
    elif expected and not any(exchange.data):
        problems.append(f"{name} public value is 0, so that the shared secret is public")
    return problems
