from contextlib import suppress
from datetime import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2.auth_methods import (
    get_auth_method_name,
    get_authentication_name,
    parse_algorithm,
    parse_digital_signature,
)
from ikeanalyze.wire.ikev2.payloads import Authentication

#: AlgorithmIdentifiers as RFC 7427, appendix A prints them, RFC 8420 (Ed25519, Ed448) and RFC 9881.
IDENTIFIERS = {
    "300d06092a864886f70d0101050500": "RSASSA-PKCS1-v1_5 with SHA1",  # A.1.1
    "300d06092a864886f70d01010b0500": "RSASSA-PKCS1-v1_5 with SHA2-256",  # A.1.2
    "300d06092a864886f70d01010c0500": "RSASSA-PKCS1-v1_5 with SHA2-384",
    "300d06092a864886f70d01010d0500": "RSASSA-PKCS1-v1_5 with SHA2-512",
    "300906072a8648ce3804 03".replace(" ", ""): "DSA with SHA1",  # A.2.1
    "300b0609608648016503040302": "DSA with SHA2-256",
    "300906072a8648ce3d0401": "ECDSA with SHA1",  # A.3.1
    "300a06082a8648ce3d040302": "ECDSA with SHA2-256",
    "300a06082a8648ce3d040303": "ECDSA with SHA2-384",
    "300a06082a8648ce3d040304": "ECDSA with SHA2-512",
    "300d06092a864886f70d01010a3000": "RSASSA-PSS with SHA1",  # A.4.1: empty parameters
    "300b06092a864886f70d01010a": "RSASSA-PSS with SHA1",
    "304606092a864886f70d01010a3039a00f300d06096086480165030402010500a11c301a06092a864886f70d010108300d"
    "06096086480165030402010500a203020120a303020101": "RSASSA-PSS with SHA2-256",  # A.4.3
    "300506032b6570": "Ed25519",
    "300506032b6571": "Ed448",
    "300b0609608648016503040311": "ML-DSA-44",
    "300b0609608648016503040312": "ML-DSA-65",
    "300b0609608648016503040313": "ML-DSA-87",
    "300b0609608648016503040314": "SLH-DSA-SHA2-128s",
    "300506032a0304": "1.2.3.4",
}


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_signature_algorithms_have_names(identifier):
    data = bytes.fromhex(identifier)
    name = IDENTIFIERS[identifier]
    assert parse_algorithm(data).name == name
    signed = parse_digital_signature(bytes([len(data)]) + data + b"signature")
    assert (signed.algorithm.name, signed.signature) == (name, b"signature")
    assert get_authentication_name(Authentication(14, bytes([len(data)]) + data + b"s")) == name


@pytest.mark.parametrize(
    ("key", "digest", "pad", "name"),
    [
        (ec.generate_private_key(ec.SECP256R1()), hashes.SHA256(), None, "ECDSA with SHA2-256"),
        (ec.generate_private_key(ec.SECP521R1()), hashes.SHA3_512(), None, "ECDSA with SHA3-512"),
        (ed25519.Ed25519PrivateKey.generate(), None, None, "Ed25519"),
        (ed448.Ed448PrivateKey.generate(), None, None, "Ed448"),
        ("rsa", hashes.SHA384(), None, "RSASSA-PKCS1-v1_5 with SHA2-384"),
        ("rsa", hashes.SHA512(), padding.PSS(padding.MGF1(hashes.SHA512()), 64), "RSASSA-PSS with SHA2-512"),
    ],
)
def test_identifiers_that_cryptography_makes(key, digest, pad, name):
    if key == "rsa":
        key = rsa.generate_private_key(65537, 2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    builder = (
        x509.CertificateBuilder(subject, subject, key.public_key(), 1)
        .not_valid_before(datetime(2026, 1, 1))
        .not_valid_after(datetime(2027, 1, 1))
    )
    tbs = builder.sign(key, digest, rsa_padding=pad).tbs_certificate_bytes
    # behind tag, length and version: the serial number 1, then the signature's algorithm
    start = tbs.index(b"\x02\x01\x01") + 3
    assert parse_algorithm(tbs[start : start + 2 + tbs[start + 1]]).name == name


@pytest.mark.parametrize("data", [b"", b"\x05\x30\x03", b"\x00", b"\x02\x05\x00", b"\x04\x30\x02\x05\x00"])
def test_malformed_signature_data_raises(data):
    with pytest.raises(WireError):
        parse_digital_signature(data)
    assert get_authentication_name(Authentication(14, data)) == "digital signature"


@pytest.mark.parametrize(
    ("method", "name"),
    [(1, "RSA"), (2, "PSK"), (3, "DSS"), (9, "ECDSA P-256"), (11, "ECDSA P-521"), (13, "NULL"), (99, "99")],
)
def test_authentication_methods_have_names(method, name):
    assert get_auth_method_name(method) == get_authentication_name(Authentication(method, b"x")) == name


@given(st.binary(max_size=80))
def test_random_bytes_raise_only_wire_errors(data):
    for read in (parse_digital_signature, parse_algorithm):
        with suppress(WireError):
            read(data)
