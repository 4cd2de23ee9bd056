"""Object identifiers of signature algorithms, public keys, curves, hashes and attributes of names.

From RFC 8017 and RFC 4055 (RSA), RFC 5758 and RFC 5480 (ECDSA), RFC 8410 (EdDSA), RFC 9881 (ML-DSA), RFC 9909
(SLH-DSA), RFC 4514, section 3, and RFC 5280 (names).
"""

from collections.abc import Mapping
from typing import Final

_PKCS1: Final = "1.2.840.113549.1.1"
_X962: Final = "1.2.840.10045"
_NIST_HASHES: Final = "2.16.840.1.101.3.4.2"
_NIST_SIGNATURES: Final = "2.16.840.1.101.3.4.3"
_BRAINPOOL: Final = "1.3.36.3.3.2.8.1.1"

RSA_PSS: Final = f"{_PKCS1}.10"
RSA_KEY: Final = f"{_PKCS1}.1"
EC_KEY: Final = f"{_X962}.2.1"

_SLH_DSA: Final = tuple(
    f"SLH-DSA-{family}-{size}{speed}" for family in ("SHA2", "SHAKE") for size in (128, 192, 256) for speed in "sf"
)

#: Hash algorithms; names as in SIGNATURE_HASH_ALGORITHMS.
HASHES: Final[Mapping[str, str]] = {
    "1.2.840.113549.2.5": "MD5",
    "1.3.14.3.2.26": "SHA1",
    f"{_NIST_HASHES}.4": "SHA2-224",
    f"{_NIST_HASHES}.1": "SHA2-256",
    f"{_NIST_HASHES}.2": "SHA2-384",
    f"{_NIST_HASHES}.3": "SHA2-512",
    f"{_NIST_HASHES}.8": "SHA3-256",
    f"{_NIST_HASHES}.9": "SHA3-384",
    f"{_NIST_HASHES}.10": "SHA3-512",
}

#: Signature algorithms: scheme, and hash if the identifier determines it.
SIGNATURES: Final[Mapping[str, tuple[str, str | None]]] = {
    f"{_PKCS1}.4": ("RSASSA-PKCS1-v1_5", "MD5"),
    f"{_PKCS1}.5": ("RSASSA-PKCS1-v1_5", "SHA1"),
    f"{_PKCS1}.14": ("RSASSA-PKCS1-v1_5", "SHA2-224"),
    f"{_PKCS1}.11": ("RSASSA-PKCS1-v1_5", "SHA2-256"),
    f"{_PKCS1}.12": ("RSASSA-PKCS1-v1_5", "SHA2-384"),
    f"{_PKCS1}.13": ("RSASSA-PKCS1-v1_5", "SHA2-512"),
    RSA_PSS: ("RSASSA-PSS", None),
    "1.2.840.10040.4.3": ("DSA", "SHA1"),
    f"{_NIST_SIGNATURES}.1": ("DSA", "SHA2-224"),
    f"{_NIST_SIGNATURES}.2": ("DSA", "SHA2-256"),
    f"{_X962}.4.1": ("ECDSA", "SHA1"),
    f"{_X962}.4.3.1": ("ECDSA", "SHA2-224"),
    f"{_X962}.4.3.2": ("ECDSA", "SHA2-256"),
    f"{_X962}.4.3.3": ("ECDSA", "SHA2-384"),
    f"{_X962}.4.3.4": ("ECDSA", "SHA2-512"),
    f"{_NIST_SIGNATURES}.10": ("ECDSA", "SHA3-256"),
    f"{_NIST_SIGNATURES}.11": ("ECDSA", "SHA3-384"),
    f"{_NIST_SIGNATURES}.12": ("ECDSA", "SHA3-512"),
    "1.3.101.112": ("Ed25519", None),
    "1.3.101.113": ("Ed448", None),
    f"{_NIST_SIGNATURES}.17": ("ML-DSA-44", None),
    f"{_NIST_SIGNATURES}.18": ("ML-DSA-65", None),
    f"{_NIST_SIGNATURES}.19": ("ML-DSA-87", None),
    **{f"{_NIST_SIGNATURES}.{number}": (name, None) for number, name in enumerate(_SLH_DSA, 20)},
    "1.2.643.7.1.1.3.2": ("GOST3410-2012-256", None),
    "1.2.643.7.1.1.3.3": ("GOST3410-2012-512", None),
}

#: Public key algorithms other than RSA and ECDSA, whose keys also have a size or curve.
KEYS: Final[Mapping[str, str]] = {
    "1.2.840.10040.4.1": "DSA",
    RSA_PSS: "RSA-PSS",
    "1.2.643.7.1.1.1.1": "GOST3410-2012-256",
    "1.2.643.7.1.1.1.2": "GOST3410-2012-512",
    **{
        oid: name
        for oid, (name, digest) in SIGNATURES.items()
        if digest is None and name.startswith(("Ed", "ML-DSA", "SLH-DSA"))
    },
}

#: Named curves.
CURVES: Final[Mapping[str, str]] = {
    f"{_X962}.3.1.1": "P-192",
    "1.3.132.0.33": "P-224",
    f"{_X962}.3.1.7": "P-256",
    "1.3.132.0.34": "P-384",
    "1.3.132.0.35": "P-521",
    "1.3.132.0.10": "secp256k1",
    f"{_BRAINPOOL}.7": "brainpoolP256r1",
    f"{_BRAINPOOL}.11": "brainpoolP384r1",
    f"{_BRAINPOOL}.13": "brainpoolP512r1",
}

#: Attribute types of distinguished names.
NAME_PARTS: Final[Mapping[str, str]] = {
    "2.5.4.3": "CN",
    "2.5.4.4": "SN",
    "2.5.4.5": "serialNumber",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.12": "title",
    "2.5.4.42": "givenName",
    "2.5.4.97": "organizationIdentifier",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "emailAddress",
}
