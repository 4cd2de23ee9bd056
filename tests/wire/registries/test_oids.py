import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID, SignatureAlgorithmOID

from ikeanalyze.wire.registries.oids import CURVES, HASHES, KEYS, NAME_PARTS, SIGNATURES
from tests.wire.registries.oracle import normal

#: RFC 8017, appendix B.1, RFC 5758, NIST's register of objects.
KNOWN_HASHES = {
    "2.16.840.1.101.3.4.2.1": hashes.SHA256,
    "2.16.840.1.101.3.4.2.3": hashes.SHA512,
    "1.3.14.3.2.26": hashes.SHA1,
}


def test_signatures_against_cryptography():
    requested = 0
    for name, oid in vars(SignatureAlgorithmOID).items():
        if not isinstance(oid, x509.ObjectIdentifier) or "SHA3" in name or "GOST" in name:
            continue
        if oid.dotted_string not in SIGNATURES:
            continue
        scheme, digest = SIGNATURES[oid.dotted_string]
        kind = scheme.replace("RSASSA-PKCS1-v1_5", "RSA").replace("RSASSA-PSS", "RSASSA_PSS")
        hashed = "" if digest is None else digest.replace("SHA2-", "SHA")
        assert normal(name).replace("WITH", "") == normal(kind + hashed), oid
        requested += 1
    assert requested >= 14


@pytest.mark.parametrize("oid", KNOWN_HASHES)
def test_hash_names_are_those_of_cryptography(oid):
    assert normal(HASHES[oid]).replace("SHA2", "SHA") == normal(KNOWN_HASHES[oid].name)


def test_curves_against_cryptography():
    names = {
        "P-192": "secp192r1",
        "P-224": "secp224r1",
        "P-256": "secp256r1",
        "P-384": "secp384r1",
        "P-521": "secp521r1",
    }
    for oid, name in CURVES.items():
        curve = ec.get_curve_for_oid(x509.ObjectIdentifier(oid))
        assert curve.name.lower() == names.get(name, name).lower()


def test_name_parts_against_cryptography():
    long = {
        "CN": "COMMON_NAME", "SN": "SURNAME", "C": "COUNTRY_NAME", "L": "LOCALITY_NAME", "O": "ORGANIZATION_NAME",
        "ST": "STATE_OR_PROVINCE_NAME", "OU": "ORGANIZATIONAL_UNIT_NAME", "STREET": "STREET_ADDRESS",
        "UID": "USER_ID", "DC": "DOMAIN_COMPONENT", "serialNumber": "SERIAL_NUMBER", "title": "TITLE",
        "givenName": "GIVEN_NAME", "emailAddress": "EMAIL_ADDRESS", "organizationIdentifier": "ORGANIZATION_IDENTIFIER",
    }  # fmt: skip
    assert {name: getattr(NameOID, long[name]).dotted_string for name in long} == {
        name: oid for oid, name in NAME_PARTS.items()
    }


def test_keys_that_are_named_like_their_signature():
    # FIPS 204, FIPS 205: one identifier for both
    assert KEYS["2.16.840.1.101.3.4.3.18"] == "ML-DSA-65"
    assert KEYS["2.16.840.1.101.3.4.3.31"] == "SLH-DSA-SHAKE-256f"
    assert KEYS["1.3.101.112"] == "Ed25519"
