"""Names authentication methods of the AUTH payload, and parses the digital signatures of method 14 (RFC 7427)."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.ikev2.payloads import Authentication
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import AuthMethod
from ikeanalyze.wire.registries.oids import HASHES, RSA_PSS, SIGNATURES
from ikeanalyze.wire.x509.der import SEQUENCE, parse_element, read_element, read_oid

#: Tag of the hash in the parameters of RSASSA-PSS.
_PSS_HASH_TAG: Final = 0xA0
_PSS_DEFAULT_HASH: Final = "SHA1"

#: Short names of methods.
_SHORT_NAMES: Final[Mapping[int, str]] = {
    AuthMethod.RSA: "RSA",
    AuthMethod.SHARED_KEY: "PSK",
    AuthMethod.DSS: "DSS",
    AuthMethod.ECDSA_256: "ECDSA P-256",
    AuthMethod.ECDSA_384: "ECDSA P-384",
    AuthMethod.ECDSA_521: "ECDSA P-521",
    AuthMethod.SECURE_PASSWORD: "secure password",
    AuthMethod.NULL: "NULL",
    AuthMethod.DIGITAL_SIGNATURE: "digital signature",
}


class SignatureAlgorithm(Struct, frozen=True):
    """An AlgorithmIdentifier (RFC 5280, section 4.1.1.2) of a signature."""

    oid: str  # dotted
    scheme: str | None  # RSASSA-PKCS1-v1_5, RSASSA-PSS, ECDSA, Ed25519, ML-DSA-65 ...; None: unknown
    hash: str | None  # SHA2-256 ...; None: part of the scheme, or unknown

    @property
    def name(self) -> str:
        """Name such as "ECDSA with SHA2-256" or "Ed25519"; the dotted identifier of an unknown algorithm."""
        if self.scheme is None:
            return self.oid
        return self.scheme if self.hash is None else f"{self.scheme} with {self.hash}"


class DigitalSignature(Struct, frozen=True):
    """Authentication data of method 14 (RFC 7427, section 3)."""

    algorithm: SignatureAlgorithm
    signature: bytes


def parse_algorithm(data: bytes) -> SignatureAlgorithm:
    """Parse a DER AlgorithmIdentifier.

    Raises:
        WireError: the data are not an AlgorithmIdentifier, or more data follow.
    """
    return read_algorithm(parse_element(data, SEQUENCE).content)


def read_algorithm(content: bytes) -> SignatureAlgorithm:
    """Parse the content of an AlgorithmIdentifier, without its tag and length; raises as `parse_algorithm`."""
    cursor = Cursor(content)
    oid = read_oid(cursor)
    scheme, digest = SIGNATURES.get(oid, (None, None))
    if oid == RSA_PSS:
        digest = _pss_hash(cursor)
    return SignatureAlgorithm(oid, scheme, digest)


def _pss_hash(cursor: Cursor) -> str:
    """Hash from the parameters of RSASSA-PSS (RFC 4055, section 3.1)."""
    if cursor.remaining():
        parameters = Cursor(read_element(cursor, SEQUENCE).content)
        while parameters.remaining():
            parameter = read_element(parameters)
            if parameter.tag == _PSS_HASH_TAG:
                oid = read_oid(Cursor(parse_element(parameter.content, SEQUENCE).content))
                return HASHES.get(oid, oid)
    return _PSS_DEFAULT_HASH


def parse_digital_signature(data: bytes) -> DigitalSignature:
    """Parse the authentication data of method 14 (RFC 7427, section 3).

    Raises:
        WireError: the data are truncated, or the algorithm identifier is not valid DER.
    """
    cursor = Cursor(data)
    size = cursor.read_uint8()
    return DigitalSignature(parse_algorithm(cursor.read_bytes(size)), cursor.read_remaining())


def get_auth_method_name(method: int) -> str:
    """Short name of an authentication method: PSK, RSA, ECDSA P-256; its number if it has no name."""
    return _SHORT_NAMES.get(method) or get_name(AuthMethod, method)


def get_authentication_name(authentication: Authentication) -> str:
    """As `get_auth_method_name`, but for method 14 the name of the algorithm: ECDSA with SHA2-256."""
    if authentication.method == AuthMethod.DIGITAL_SIGNATURE:
        try:
            return parse_digital_signature(authentication.data).algorithm.name
        except WireError:
            pass
    return get_auth_method_name(authentication.method)
