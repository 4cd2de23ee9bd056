"""AUTH payloads made with keys: the identifiers of RFC 7427, appendix A, and signatures that OpenSSL verifies."""

import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ikeanalyze.crypto.signatures import NoSuitableSignatureError, check_signature, sign_octets
from ikeanalyze.wire.ikev2.payloads import Certificate
from ikeanalyze.wire.registries.ikev2 import CertEncoding

OCTETS = b"message and nonce and MAC"
SHA1, SHA256, SHA384, SHA512, IDENTITY = range(1, 6)
ALL = (SHA256, SHA384, SHA512)
RSA = rsa.generate_private_key(65537, 2048)
CURVES = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
EC = {name: ec.generate_private_key(curve) for name, curve in CURVES.items()}
#: RFC 7427, A.1.1 to A.1.4 and A.3.1 to A.3.4, without tag and length of the outer sequence.
IDENTIFIERS = {
    ("rsa", SHA1): "06092a864886f70d0101050500",
    ("rsa", SHA256): "06092a864886f70d01010b0500",
    ("rsa", SHA384): "06092a864886f70d01010c0500",
    ("rsa", SHA512): "06092a864886f70d01010d0500",
    ("ec", SHA1): "06072a8648ce3d0401",
    ("ec", SHA256): "06082a8648ce3d040302",
    ("ec", SHA384): "06082a8648ce3d040303",
    ("ec", SHA512): "06082a8648ce3d040304",
}
DIGESTS = {SHA1: "sha1", SHA256: "sha256", SHA384: "sha384", SHA512: "sha512"}


def openssl_verifies(key, signature: bytes, digest: str, folder) -> bool:
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for name, content in (("key", public), ("signature", signature), ("octets", OCTETS)):
        (folder / name).write_bytes(content)
    command = ["openssl", "dgst", f"-{digest}", "-verify", "key", "-signature", "signature", "octets"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout == "Verified OK\n"


@pytest.mark.parametrize(("kind", "hash_"), IDENTIFIERS)
def test_openssl_verifies_digital_signatures(tmp_path, kind, hash_):
    key = RSA if kind == "rsa" else EC["P-256"]
    made = sign_octets(key, OCTETS, [hash_])
    assert made.method == 14
    content = bytes.fromhex(IDENTIFIERS[kind, hash_])
    identifier = bytes([0x30, len(content)]) + content
    assert made.data[: 1 + len(identifier)] == bytes([len(identifier)]) + identifier
    assert openssl_verifies(key, made.data[1 + len(identifier) :], DIGESTS[hash_], tmp_path)


@pytest.mark.parametrize(
    ("key", "offered", "chosen"),
    [
        (RSA, ALL, SHA256),
        (RSA, (SHA512, SHA384), SHA384),
        (RSA, (SHA1, SHA512), SHA512),
        (EC["P-256"], ALL, SHA256),
        (EC["P-384"], ALL, SHA384),
        (EC["P-521"], ALL, SHA512),
        (EC["P-521"], (SHA256,), SHA256),
    ],
)
def test_the_hash_that_is_chosen(key, offered, chosen):
    kind = "rsa" if key is RSA else "ec"
    assert IDENTIFIERS[kind, chosen] in sign_octets(key, OCTETS, offered).data.hex()


def test_without_hashes_of_the_peer_rsa_signs_with_method_1(tmp_path):
    made = sign_octets(RSA, OCTETS, None)
    assert made.method == 1
    assert openssl_verifies(RSA, made.data, "sha1", tmp_path)


@pytest.mark.parametrize(
    ("curve", "method", "size", "digest"),
    [("P-256", 9, 32, "sha256"), ("P-384", 10, 48, "sha384"), ("P-521", 11, 66, "sha512")],
)
def test_the_old_methods_of_ecdsa(tmp_path, curve, method, size, digest):
    """RFC 4754: both numbers, of the curve's length, and nothing else."""
    made = sign_octets(EC[curve], OCTETS, None)
    assert (made.method, len(made.data)) == (method, 2 * size)
    signature = encode_dss_signature(int.from_bytes(made.data[:size]), int.from_bytes(made.data[size:]))
    assert openssl_verifies(EC[curve], signature, digest, tmp_path)


@pytest.mark.parametrize(
    ("key", "identifier"),
    [
        (ed25519.Ed25519PrivateKey.generate(), "300506032b6570"),
        (ed448.Ed448PrivateKey.generate(), "300506032b6571"),
    ],
    ids=["Ed25519", "Ed448"],
)
def test_edwards_curves_sign_only_with_the_identity_hash(key, identifier):
    made = sign_octets(key, OCTETS, (SHA256, IDENTITY))
    assert made.data[:8].hex() == "07" + identifier  # RFC 8420, appendix A
    key.public_key().verify(made.data[8:], OCTETS)
    raw = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert check_signature(made, Certificate(CertEncoding.RAW_PUBLIC_KEY, raw), OCTETS) is None
    for offered in (None, ALL):
        with pytest.raises(NoSuitableSignatureError):
            sign_octets(key, OCTETS, offered)


def test_no_common_hash_raises():
    with pytest.raises(NoSuitableSignatureError, match="the peer accepts signatures with STREEBOG_256, 99"):
        sign_octets(RSA, OCTETS, (6, 99))
    with pytest.raises(NoSuitableSignatureError, match="secp256k1"):
        sign_octets(ec.generate_private_key(ec.SECP256K1()), OCTETS, ALL)
