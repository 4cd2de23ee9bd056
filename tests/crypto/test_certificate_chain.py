"""Chains and identities; OpenSSL says the same of the chains."""

import datetime as dt
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from ikeanalyze.crypto.certificate_chain import check_certificate_chain, check_identity
from ikeanalyze.wire.ikev2.payloads import Identification

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
DAY = dt.timedelta(days=1)
CA = x509.BasicConstraints(ca=True, path_length=None)
SHORT = x509.BasicConstraints(ca=True, path_length=0)


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Issuer:
    """Certificates under one another; `last` is the latest."""

    def __init__(self) -> None:
        self.made: list[x509.Certificate] = []
        self.key = None

    def issue(self, subject: str, *extensions: x509.ExtensionType, days: int = 10) -> "Issuer":
        """One more, signed by the one before."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self.made[0].subject if self.made else name(subject)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - 20 * DAY)
            .not_valid_after(NOW + days * DAY)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        self.made.insert(0, builder.sign(self.key or key, hashes.SHA256()))
        self.key = key
        return self

    @property
    def der(self) -> list[bytes]:
        """Without the root."""
        return [item.public_bytes(Encoding.DER) for item in self.made[:-1]]

    @property
    def root(self) -> x509.Certificate:
        return self.made[-1]


def openssl_verifies(chain: Issuer, folder, anchor: x509.Certificate | None = None) -> bool:
    end, *between = chain.made[:-1]
    (folder / "end.pem").write_bytes(end.public_bytes(Encoding.PEM))
    (folder / "root.pem").write_bytes((anchor or chain.root).public_bytes(Encoding.PEM))
    (folder / "between.pem").write_bytes(b"".join(item.public_bytes(Encoding.PEM) for item in between))
    more = ["-untrusted", "between.pem"] if between else []
    command = ["openssl", "verify", "-no-CApath", "-CAfile", "root.pem", *more, "end.pem"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


CHAINS = {
    "by the root": (lambda: Issuer().issue("root", CA).issue("end"), True),
    "between": (lambda: Issuer().issue("root", CA).issue("sub", CA).issue("end"), True),
    "three between": (
        lambda: Issuer().issue("root", CA).issue("a", CA).issue("b", CA).issue("c", CA).issue("end"),
        True,
    ),
    "issued by an end entity": (lambda: Issuer().issue("root", CA).issue("end").issue("forged"), False),
    "issued by one that says that it is none": (
        lambda: Issuer().issue("root", CA).issue("no", x509.BasicConstraints(False, None)).issue("forged"),
        False,
    ),
    "expired": (lambda: Issuer().issue("root", CA).issue("end", days=-1), False),
    "under one that expired": (
        lambda: Issuer().issue("root", CA).issue("sub", CA, days=-1).issue("end"),
        False,
    ),
    "longer than the root allows": (
        lambda: Issuer().issue("root", SHORT).issue("sub", CA).issue("end"),
        False,
    ),
}


@pytest.mark.parametrize("what", CHAINS)
def test_chains_are_accepted_as_by_openssl(tmp_path, what):
    make, good = CHAINS[what]
    chain = make()
    assert openssl_verifies(chain, tmp_path) == good
    assert (check_certificate_chain(chain.der, [chain.root]) is None) == good


def test_another_root_of_the_same_name(tmp_path):
    chain = CHAINS["between"][0]()
    other = Issuer().issue("root", CA).root
    assert not openssl_verifies(chain, tmp_path, other)
    wrong = check_certificate_chain(chain.der, [other])
    assert wrong is not None
    assert "Certificate(" not in wrong
    assert check_certificate_chain(chain.der, [other, chain.root]) is None


def test_the_order_of_those_between_does_not_matter():
    chain = CHAINS["three between"][0]()
    first, *rest = chain.der
    assert check_certificate_chain([first, *reversed(rest)], [chain.root]) is None
    assert check_certificate_chain([first, *rest[1:]], [chain.root]) is not None


def test_certificates_are_checked_at_the_given_time():
    chain = CHAINS["by the root"][0]()
    assert "not valid" in check_certificate_chain(chain.der, [chain.root], NOW + 11 * DAY)
    assert check_certificate_chain(chain.der, [chain.root], NOW + 9 * DAY) is None


def test_a_certificate_that_is_trusted_itself():
    chain = CHAINS["by the root"][0]()
    assert check_certificate_chain(chain.der, [chain.made[0]]) is None


def test_missing_and_malformed_certificates_have_a_reason():
    chain = CHAINS["by the root"][0]()
    assert check_certificate_chain([], [chain.root]) == "the peer sent no certificate"
    assert check_certificate_chain(chain.der, []) == "no authority is trusted"
    assert check_certificate_chain([b"\x30\x03abc"], [chain.root]) == "a certificate cannot be read (ValueError)"


def test_identities_match_subject_alternative_names():
    import ipaddress

    names = x509.SubjectAlternativeName(
        [
            x509.DNSName("gw.example"),
            x509.RFC822Name("admin@gw.example"),
            x509.IPAddress(ipaddress.ip_address("192.0.2.2")),
            x509.IPAddress(ipaddress.ip_address("2001:db8::2")),
        ]
    )
    end = Issuer().issue("root", CA).issue("CN only", names).der[0]
    subject = x509.load_der_x509_certificate(end).subject.public_bytes()
    fits = [
        (2, b"gw.example"),
        (3, b"admin@gw.example"),
        (1, bytes([192, 0, 2, 2])),
        (5, ipaddress.ip_address("2001:db8::2").packed),
        (9, subject),
    ]
    assert [check_identity(end, Identification(*item)) for item in fits] == [None] * 5
    for kind, data in (
        (2, b"other.example"),
        (3, b"gw.example"),
        (2, b"CN only"),
        (9, subject[:-1]),
        (11, b""),
    ):
        assert "does not name" in check_identity(end, Identification(kind, data))
    plain = Issuer().issue("root", CA).issue("plain").der[0]
    assert check_identity(plain, Identification(2, b"plain")) == "the certificate does not name plain"
