"""Sizes of the keys, ciphertexts and signatures of post-quantum algorithms.

ML-KEM: FIPS 203, table 3. ML-DSA: FIPS 204, table 2. SLH-DSA: FIPS 205, table 2. HQC: the specification of 22 August
2025, on which NIST bases its standard; earlier versions had longer keys or ciphertexts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ikeanalyze.wire.ikev2.key_exchange import ML_KEM_PARAMETER_SETS


@dataclass(frozen=True, slots=True)
class KemSizes:
    """What a key encapsulation mechanism puts into KE payloads."""

    name: str
    encapsulation_key: int  # bytes, sent by the initiator
    ciphertext: int  # bytes, sent by the responder


@dataclass(frozen=True, slots=True)
class SignatureSizes:
    """What a signature algorithm puts into AUTH payloads and certificates."""

    name: str
    public_key: int  # bytes
    signature: int  # bytes


_HQC: Final = (KemSizes("HQC-1", 2241, 4433), KemSizes("HQC-3", 4514, 8978), KemSizes("HQC-5", 7237, 14421))
_ML_DSA: Final = (
    SignatureSizes("ML-DSA-44", 1312, 2420),
    SignatureSizes("ML-DSA-65", 1952, 3309),
    SignatureSizes("ML-DSA-87", 2592, 4627),
)
#: Bytes of keys and signatures of SLH-DSA by security and speed, the same with SHA2 and SHAKE.
_SLH_DSA: Final = (
    ("128s", 32, 7856),
    ("128f", 32, 17088),
    ("192s", 48, 16224),
    ("192f", 48, 35664),
    ("256s", 64, 29792),
    ("256f", 64, 49856),
)

#: By name in lower case.
KEMS: Final[Mapping[str, KemSizes]] = {
    kem.name.lower(): kem
    for kem in (
        *(KemSizes(item.name, item.encapsulation_key, item.ciphertext) for item in ML_KEM_PARAMETER_SETS.values()),
        *_HQC,
    )
}
SIGNATURES: Final[Mapping[str, SignatureSizes]] = {
    algorithm.name.lower(): algorithm
    for algorithm in (
        *_ML_DSA,
        *(
            SignatureSizes(f"SLH-DSA-{digest}-{name}", key, signature)
            for digest in ("SHA2", "SHAKE")
            for name, key, signature in _SLH_DSA
        ),
    )
}
