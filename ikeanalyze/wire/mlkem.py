"""ML-KEM as a key exchange method (FIPS 203; draft-ietf-ipsecme-ikev2-mlkem): sizes, and whether an encapsulation
key is one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
