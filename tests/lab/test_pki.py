import pytest
from cryptography import x509

from ikeanalyze.lab.pki import make


@pytest.mark.parametrize(("kind", "bits", "length"), [("ecdsa", 256, 2), ("ecdsa", 384, 4), ("rsa", 2048, 3)])
def test_each_certificate_is_issued_by_the_next(kind, bits, length):
    chain = make(kind, bits, length, "host.lab")
    found = [x509.load_pem_x509_certificate(pem.encode()) for pem in chain.certificates]
    assert len(found) == length
    for below, above in zip(found, [*found[1:], found[-1]], strict=True):
        below.verify_directly_issued_by(above)
    assert all(one.public_key().key_size == bits for one in found)
    assert "PRIVATE" not in repr(chain)
