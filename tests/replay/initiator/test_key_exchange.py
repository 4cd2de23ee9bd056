"""Key exchanges with a peer: OpenSSL's program for Diffie-Hellman, the library's own encapsulation for ML-KEM."""

import subprocess

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, mlkem, x448, x25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec.structs import replace

from ikeanalyze.replay.initiator.interface import RefusedError
from ikeanalyze.replay.initiator.key_exchange import PRIMES, explain_unsupported, start_key_exchange
from ikeanalyze.replay.initiator.negotiation import select_proposals
from ikeanalyze.wire.ikev2.payloads import KeyExchange
from tests.replay import driving

#: Method, bytes of our data, what OpenSSL calls it, how the payload's data become its key.
ELLIPTIC = {
    19: (64, "EC", "group:P-256", ec.SECP256R1()),
    20: (96, "EC", "group:P-384", ec.SECP384R1()),
    21: (132, "EC", "group:P-521", ec.SECP521R1()),
}
EDWARDS = {31: (32, "X25519", x25519.X25519PublicKey), 32: (56, "X448", x448.X448PublicKey)}


def openssl(*arguments: str, folder) -> bytes:
    return subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, check=True).stdout


def secret_of_openssl(public, folder) -> bytes:
    (folder / "peer.pem").write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return openssl("pkeyutl", "-derive", "-inkey", "key.pem", "-peerkey", "peer.pem", folder=folder)


def own_of_openssl(folder) -> bytes:
    """SubjectPublicKeyInfo."""
    return openssl("pkey", "-in", "key.pem", "-pubout", "-outform", "DER", folder=folder)


@pytest.mark.parametrize("method", ELLIPTIC)
def test_ecp_secrets_agree_with_the_peer(tmp_path, method):
    size, kind, group, curve = ELLIPTIC[method]
    openssl("genpkey", "-algorithm", kind, "-pkeyopt", group, "-out", "key.pem", folder=tmp_path)
    ours = start_key_exchange(method)
    assert len(ours.data) == size
    public = ec.EllipticCurvePublicKey.from_encoded_point(curve, b"\4" + ours.data)
    expected = secret_of_openssl(public, tmp_path)
    assert len(expected) == size // 2  # RFC 5903, section 7: the x-coordinate
    assert ours.compute_secret(KeyExchange(method, own_of_openssl(tmp_path)[-size:])) == expected


@pytest.mark.parametrize("method", EDWARDS)
def test_x25519_and_x448_secrets_agree_with_the_peer(tmp_path, method):
    size, kind, public = EDWARDS[method]
    openssl("genpkey", "-algorithm", kind, "-out", "key.pem", folder=tmp_path)
    ours = start_key_exchange(method)
    assert len(ours.data) == size
    expected = secret_of_openssl(public.from_public_bytes(ours.data), tmp_path)
    assert ours.compute_secret(KeyExchange(method, own_of_openssl(tmp_path)[-size:])) == expected


@pytest.mark.parametrize(("method", "size"), [(14, 256), (15, 384), (16, 512)])
@pytest.mark.filterwarnings("error")
def test_modp_secrets_agree_with_the_definition(method, size):
    """By the definition; with a secret that begins with a zero byte, which has to stay (RFC 7296, section 2.14)."""
    ours, prime = start_key_exchange(method), PRIMES[method]
    assert len(ours.data) == size
    secret, exponent = int.from_bytes(ours.data), 1
    while exponent < 2 or secret >> 8 * (size - 1):
        secret, exponent = secret * int.from_bytes(ours.data) % prime, exponent + 1
    theirs = pow(2, exponent, prime)
    assert ours.compute_secret(KeyExchange(method, theirs.to_bytes(size))) == secret.to_bytes(size)


@pytest.mark.parametrize(
    ("method", "kind", "size"),
    [(36, mlkem.MLKEM768PublicKey, 1184), (37, mlkem.MLKEM1024PublicKey, 1568)],
)
def test_ml_kem_secrets_agree_with_the_peer(method, kind, size):
    ours = start_key_exchange(method)
    assert len(ours.data) == size
    secret, ciphertext = kind.from_public_bytes(ours.data).encapsulate()
    assert ours.compute_secret(KeyExchange(method, ciphertext)) == secret
    # implicit rejection (FIPS 203, section 6.3): another ciphertext gives another secret and no error
    other = bytes([ciphertext[0] ^ 1]) + ciphertext[1:]
    assert ours.compute_secret(KeyExchange(method, other)) != secret


def test_each_has_a_key_of_its_own():
    for method in (14, 19, 31, 36):
        assert start_key_exchange(method).data != start_key_exchange(method).data


@pytest.mark.parametrize(
    ("method", "data"),
    [
        (31, bytes(32)),  # RFC 7748, section 6.1: the secret would be zero
        (31, bytes(31)),
        (32, bytes(56)),
        (19, b"\1" * 64),  # no point of the curve
        (19, bytes(64)),
        (14, bytes(255) + b"\1"),
        (14, (PRIMES[14] - 1).to_bytes(256)),
        (14, PRIMES[14].to_bytes(256)),
        (14, b"\2" * 255),
        (36, bytes(1184)),  # the size of an encapsulation key
        (36, b""),
    ],
)
def test_invalid_peer_data_is_rejected(method, data):
    with pytest.raises(RefusedError) as caught:
        start_key_exchange(method).compute_secret(KeyExchange(method, data))
    assert "\n" not in str(caught.value)


def test_another_method_than_the_one_begun():
    with pytest.raises(RefusedError, match="X448, but X25519 was negotiated"):
        start_key_exchange(31).compute_secret(KeyExchange(32, bytes(56)))


@pytest.mark.parametrize("method", [0, 1, 5, 22, 33, 35, 999])
def test_unsupported_methods_are_rejected(method):
    assert explain_unsupported(method)
    with pytest.raises(RefusedError, match=r"."):
        start_key_exchange(method)
    assert ("does not implement" in explain_unsupported(method)) == (method == 35)


def test_a_library_without_it_is_known_before_anything_is_offered(monkeypatch):
    """As with one that was built on an OpenSSL without ML-KEM."""

    def generate():
        raise UnsupportedAlgorithm("ML-KEM")

    monkeypatch.setattr(mlkem.MLKEM768PrivateKey, "generate", generate)
    explain_unsupported.cache_clear()
    try:
        hybrid, plain = (driving.proposal(31, *more) for more in ((36,), ()))
        offered = select_proposals((hybrid, replace(plain, number=2)), 31)
        assert [proposal.number for proposal in offered.proposals] == [1]
        assert offered.proposals[0].transforms == plain.transforms
        assert "lacks ML-KEM-768" in offered.left_out[0]
        with pytest.raises(RefusedError, match="lacks ML-KEM-768"):
            start_key_exchange(36)
    finally:
        explain_unsupported.cache_clear()


def test_the_repr_has_no_secret():
    ours = start_key_exchange(31)
    assert "derive" not in repr(ours)
