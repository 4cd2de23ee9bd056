import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from ikeanalyze.lab.daemons.certificates import encode_pkcs12 as ours
from ikeanalyze.lab.daemons.certificates import make_certificate_chain


@pytest.mark.parametrize(("kind", "bits", "length"), [("ecdsa", 256, 2), ("ecdsa", 384, 4), ("rsa", 2048, 3)])
def test_each_certificate_is_issued_by_the_next(kind, bits, length):
    chain = make_certificate_chain(kind, bits, length, "host.lab")
    result = [x509.load_pem_x509_certificate(pem.encode()) for pem in chain.certificates]
    assert len(result) == length
    for below, above in zip(result, [*result[1:], result[-1]], strict=True):
        below.verify_directly_issued_by(above)
    assert all(item.public_key().key_size == bits for item in result)
    assert "PRIVATE" not in repr(chain)


@pytest.mark.parametrize(
    ("kind", "bits", "authority_bits", "signature"),
    [("rsa", 4096, 2048, (256, "sha256")), ("ecdsa", 256, 384, (None, "sha384"))],
)
def test_authorities_may_have_keys_of_another_size(kind, bits, authority_bits, signature):
    chain = make_certificate_chain(kind, bits, 3, "host.lab", authority_bits=authority_bits)
    end, middle, root = (x509.load_pem_x509_certificate(pem.encode()) for pem in chain.certificates)
    assert [item.public_key().key_size for item in (end, middle, root)] == [bits, authority_bits, authority_bits]
    end.verify_directly_issued_by(middle)
    middle.verify_directly_issued_by(root)
    length, digest = signature
    assert end.signature_hash_algorithm.name == digest
    assert length in (None, len(end.signature))


@pytest.mark.parametrize("bits", [256, 384, 521])
def test_certificates_of_equal_contents_have_equal_sizes(bits):
    """The DER of an ECDSA signature has a random length; without the choice, half of all runs would differ."""
    chains = [make_certificate_chain("ecdsa", bits, 2, "host.lab") for _ in range(20)]
    for pems in zip(*(chain.certificates for chain in chains), strict=True):
        sizes = {
            len(x509.load_pem_x509_certificate(pem.encode()).public_bytes(serialization.Encoding.DER)) for pem in pems
        }
        assert len(sizes) == 1


def test_all_in_one_file():
    chain = make_certificate_chain("ecdsa", 256, 3, "host.lab")
    key, end, others = pkcs12.load_key_and_certificates(ours(chain, "name", "password"), b"password")
    assert key.private_numbers() == serialization.load_pem_private_key(chain.key.encode(), None).private_numbers()
    result = [item.public_bytes(serialization.Encoding.PEM).decode() for item in (end, *others)]
    assert result == list(chain.certificates)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("valid", None),
        ("expired", "not valid at validation time"),
        ("not-yet-valid", "not valid at"),
        ("untrusted", "candidates exhausted"),
    ],
)
def test_a_faulty_certificate_is_refused_by_a_verifier(fault, reason):
    chain = make_certificate_chain("ecdsa", 256, 3, "host.lab", fault=fault)
    end, middle, root = (x509.load_pem_x509_certificate(pem.encode()) for pem in chain.certificates)
    verifier = PolicyBuilder().store(Store([root])).build_server_verifier(x509.DNSName("host.lab"))
    if reason is None:
        assert verifier.verify(end, [middle]) == [end, middle, root]
    else:
        with pytest.raises(VerificationError, match=reason):
            verifier.verify(end, [middle])
