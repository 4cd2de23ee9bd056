"""What a KE payload holds by its method, and whether it can be that (RFC 7296, section 3.4; RFC 9370).

ML-KEM as a key exchange method (FIPS 203; draft-ietf-ipsecme-ikev2-mlkem): sizes, and whether an encapsulation
key is one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ikeanalyze.wire.ikev2.payloads import KeyExchange
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2_transforms import KeyExchangeMethod

#: The modulus q (FIPS 203, section 2.4).
MODULUS: Final = 3329
#: Bytes of the seed rho at the end of an encapsulation key.
_SEED: Final = 32
#: Bytes of one polynomial, 256 coefficients of 12 bits (FIPS 203, algorithm 5).
_POLYNOMIAL: Final = 384


@dataclass(frozen=True, slots=True)
class ParameterSet:
    """A parameter set (FIPS 203, section 8)."""

    method: int  # key exchange method of IKEv2
    rank: int  # k, the number of polynomials in the key
    encapsulation_key: int  # bytes of what the initiator of the exchange sends
    ciphertext: int  # bytes of what the responder sends

    @property
    def name(self) -> str:
        """ML-KEM-768."""
        return KeyExchangeMethod(self.method).label


#: By key exchange method (FIPS 203, table 3).
PARAMETER_SETS: Final[Mapping[int, ParameterSet]] = {
    KeyExchangeMethod.ML_KEM_512: ParameterSet(KeyExchangeMethod.ML_KEM_512, 2, 800, 768),
    KeyExchangeMethod.ML_KEM_768: ParameterSet(KeyExchangeMethod.ML_KEM_768, 3, 1184, 1088),
    KeyExchangeMethod.ML_KEM_1024: ParameterSet(KeyExchangeMethod.ML_KEM_1024, 4, 1568, 1568),
}


def guess_mlkem_data(size: int) -> tuple[str, ...]:
    """What data of so many bytes can be: "ML-KEM-768 ciphertext"; both for 1,568 bytes, none for most."""
    found = []
    for parameters in PARAMETER_SETS.values():
        if size == parameters.encapsulation_key:
            found.append(f"{parameters.name} encapsulation key")
        if size == parameters.ciphertext:
            found.append(f"{parameters.name} ciphertext")
    return tuple(found)


def check_encapsulation_key(key: bytes) -> str | None:
    """What is wrong with an encapsulation key; None: it passes the checks of FIPS 203, section 7.2.

    Type check: it has the size of a parameter set's. Modulus check: every coefficient is below the modulus,
    so that decoding and encoding give the same bytes.
    """
    parameters = next((p for p in PARAMETER_SETS.values() if p.encapsulation_key == len(key)), None)
    if parameters is None:
        return f"{len(key)} bytes are no ML-KEM encapsulation key"
    end = len(key) - _SEED
    wrong = 0
    # three bytes hold two coefficients, the lower bits first
    for low, middle, high in zip(key[0:end:3], key[1:end:3], key[2:end:3], strict=True):
        wrong += (low | (middle & 0x0F) << 8) >= MODULUS
        wrong += (middle >> 4 | high << 4) >= MODULUS
    if wrong:
        coefficients = parameters.rank * _POLYNOMIAL * 2 // 3
        return (
            f"{wrong} of {coefficients} coefficients of the {parameters.name} encapsulation key are not below"
            f" {MODULUS} (modulus check of FIPS 203, section 7.2)"
        )
    return None


pass

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
    """ML-KEM-768; the number of a method without a name."""
    return get_name(KeyExchangeMethod, method)


def get_ke_data_name(method: int, response: bool | None) -> str:
    """What the data of a KE payload are: a public value, with ML-KEM an encapsulation key (request) or a
    ciphertext (response).
    """
    if method not in PARAMETER_SETS:
        return "public value"
    if response is None:
        return "encapsulation key or ciphertext"
    return "ciphertext" if response else "encapsulation key"


def get_ke_data_sizes(method: int, response: bool | None) -> tuple[int, ...]:
    """Sizes that the data of a KE payload may have; none: not known for this method.

    `response`: whether the payload is in a response; None: it is not known.
    """
    parameters = PARAMETER_SETS.get(method)
    if parameters is None:
        size = _PUBLIC_VALUE_BYTES.get(method)
        return () if size is None else (size,)
    if response is None:
        return parameters.encapsulation_key, parameters.ciphertext
    return (parameters.ciphertext if response else parameters.encapsulation_key,)


def check_key_exchange(exchange: KeyExchange, response: bool | None = None, negotiated: int | None = None) -> list[str]:
    """What is wrong with a KE payload, in words; empty: nothing that can be told.

    `response`: whether it is in a response; `negotiated`: the method that this exchange is for. None: not
    known, and not checked.
    """
    name = get_key_exchange_name(exchange.method)
    found = []
    if negotiated is not None and exchange.method != negotiated:
        found.append(f"key exchange with {name}, but {get_key_exchange_name(negotiated)} was negotiated")
    size = len(exchange.data)
    expected = get_ke_data_sizes(exchange.method, response)
    if expected and size not in expected:
        sizes = " or ".join(map(str, dict.fromkeys(expected)))
        found.append(
            f"{name} {get_ke_data_name(exchange.method, response)} of {size} bytes instead of {sizes}{_hint(size)}"
        )
    elif exchange.method in PARAMETER_SETS:
        parameters = PARAMETER_SETS[exchange.method]
        is_key = not response if response is not None else parameters.ciphertext != size
        problem = check_encapsulation_key(exchange.data) if is_key else None
        if problem is not None:
            found.append(problem)
    elif expected and not any(exchange.data):
        found.append(f"{name} public value is 0: whoever sent it, everyone knows the secret")
    return found


def _hint(size: int) -> str:
    kinds = guess_mlkem_data(size)
    return f", the size of an {' or '.join(kinds)}" if kinds else ""
