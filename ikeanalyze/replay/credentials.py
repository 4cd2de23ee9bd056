"""Credentials of a replay: our secrets, keys and certificates and the trusted authorities, from a TOML file.

    [local]
    identity = "initiator.example"      # name, mail or IP address; distinguished name: "C=CH, O=Lab, CN=gw"
    psk = "..."                         # the secret itself, hex digits after 0x, or base64 after 0s
    certificate = "initiator.pem"       # PEM: ours first, then the intermediate authorities
    key = "initiator.key"               # PEM; RSA, ECDSA, Ed25519 or Ed448
    key_password = "..."                # if the key is encrypted

    [remote]
    identity = "responder.example"      # required identity of the target
    authorities = ["root.pem"]          # PEM: trusted authorities

    [eap]
    identity = "user"
    password = "..."                    # for EAP-MD5 and EAP-MSCHAPv2
    imsi = "001010000000001"            # for EAP-AKA; the identity is 0 and the IMSI unless it is given
    ki = "..."                          # the subscriber's key for Milenage, 32 hex digits
    opc = "..."                         # the operator's value for this key, 32 hex digits; or `op`

Every key is optional unless the handshake needs it. Paths are relative to the file. Errors name the file and the key,
and never have a secret.
"""

import os
import stat
import warnings
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from msgspec import Meta, Struct

from ikeanalyze.crypto.aka.milenage import Milenage, derive_opc
from ikeanalyze.crypto.certificate_chain import encode_distinguished_name
from ikeanalyze.crypto.signatures import EdwardsKey, SigningKey
from ikeanalyze.io.toml import TomlFileError, decode_toml
from ikeanalyze.keys.psk import parse_pre_shared_keys
from ikeanalyze.wire.ikev2.payloads import Identification
from ikeanalyze.wire.registries.ikev2 import IdType

_MAX_BYTES: Final = 1 << 20  # bytes of any of the files
_OTHERS_READ: Final = stat.S_IRGRP | stat.S_IROTH
_MAX_AUTHORITIES: Final = 1000  # CERTREQ has a hash of each
#: Prefix of the identity that is made of an IMSI (RFC 4187, section 4.1.1.6).
_PERMANENT_IDENTITY: Final = "0"
_Text = Annotated[str, Meta(min_length=1, max_length=1024)]
_Imsi = Annotated[str, Meta(pattern=r"^[0-9]{6,15}\Z", description="6 to 15 digits")]
_Key128 = Annotated[str, Meta(pattern=r"^[0-9A-Fa-f]{32}\Z", description="32 hex digits")]


class _Local(Struct, forbid_unknown_fields=True):
    identity: _Text | None = None
    psk: _Text | None = None
    certificate: _Text | None = None
    key: _Text | None = None
    key_password: _Text | None = None


class _Remote(Struct, forbid_unknown_fields=True):
    identity: _Text | None = None
    authorities: Annotated[list[_Text], Meta(description="a list of paths")] = []


class _Eap(Struct, forbid_unknown_fields=True):
    identity: _Text | None = None
    password: _Text | None = None
    imsi: _Imsi | None = None
    ki: _Key128 | None = None
    opc: _Key128 | None = None
    op: _Key128 | None = None


class _Tables(Struct, forbid_unknown_fields=True):
    local: _Local = msgspec.field(default_factory=_Local)
    remote: _Remote = msgspec.field(default_factory=_Remote)
    eap: _Eap = msgspec.field(default_factory=_Eap)


class CredentialsError(ValueError):
    """The credentials are invalid; one line with file and key, without secrets."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How we authenticate, and how we verify the responder."""

    local_identity: Identification | None = None
    remote_identity: Identification | None = None  # required of the responder; None: any
    psk: bytes | None = field(default=None, repr=False)
    key: SigningKey | None = field(default=None, repr=False)
    certificates: tuple[x509.Certificate, ...] = ()  # ours first, then its authorities
    authorities: tuple[x509.Certificate, ...] = ()
    eap_identity: str | None = field(default=None, repr=False)  # may contain the IMSI
    eap_password: str | None = field(default=None, repr=False)
    milenage: Milenage | None = None  # for EAP-AKA


@dataclass(frozen=True, slots=True)
class LoadedCredentials:
    """Contents of a credentials file."""

    credentials: Credentials
    warnings: tuple[str, ...]  # one line each


def load_credentials(path: str | Path) -> LoadedCredentials:
    """Read a credentials file. Raises `CredentialsError`."""
    return _CredentialsLoader(Path(path)).load()


def parse_identity(text: str) -> Identification:
    """Parse an identity: IP address, mail address, distinguished name (if it has a "="), or domain name.

    A distinguished name is in strongSwan's order, which is the reverse of RFC 4514.

    Raises:
        ValueError: the distinguished name is invalid.
    """
    try:
        address = ip_address(text)
    except ValueError:
        pass
    else:
        id_type = IdType.ID_IPV4_ADDR if address.version == 4 else IdType.ID_IPV6_ADDR
        return Identification(id_type, address.packed)
    if "=" in text:
        return Identification(IdType.ID_DER_ASN1_DN, encode_distinguished_name(text).public_bytes())
    return Identification(IdType.ID_RFC822_ADDR if "@" in text else IdType.ID_FQDN, text.encode())


def get_certificate_subject(certificate: x509.Certificate) -> Identification:
    """Return the distinguished name of a certificate's subject as an identity."""
    return Identification(IdType.ID_DER_ASN1_DN, certificate.subject.public_bytes())


def certificate_to_der(certificate: x509.Certificate) -> bytes:
    """Return the certificate as in a CERT payload."""
    return certificate.public_bytes(serialization.Encoding.DER)


def public_key_to_der(certificate: x509.Certificate) -> bytes:
    """Return the SubjectPublicKeyInfo; CERTREQ has its SHA-1 (RFC 7296, section 3.7)."""
    return certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def get_key_type(key: SigningKey | None) -> str | None:
    """Return the type of the key in the report's words: rsa, ecdsa, ed25519, ed448."""
    if key is None:
        return None
    if isinstance(key, rsa.RSAPrivateKey):
        return "rsa"
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return "ecdsa"
    return "ed448" if isinstance(key, ed448.Ed448PrivateKey) else "ed25519"


class _CredentialsLoader:
    """Parses a credentials file and loads the files that it names."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._warnings: list[str] = []
        data = self._read(path, "", secret=True)
        try:
            self._tables = decode_toml(data, _Tables)
        except TomlFileError as problem:
            raise CredentialsError(f"{path}: {problem.unquoted}") from None

    def load(self) -> LoadedCredentials:
        """Load the credentials. Raises `CredentialsError`."""
        local, remote, eap = self._tables.local, self._tables.remote, self._tables.eap
        certificates = self._load_certificates(local.certificate, "local.certificate") if local.certificate else ()
        key = self._load_key(local.key, local.key_password) if local.key else None
        if key is not None and not certificates:
            raise self._make_error("local.key", "needs local.certificate")
        if certificates and key is None:
            raise self._make_error("local.certificate", "needs local.key")
        if key is not None and key.public_key() != certificates[0].public_key():
            raise self._make_error("local.key", "does not match the first certificate of local.certificate")
        authorities = tuple(
            certificate
            for name in remote.authorities
            for certificate in self._load_certificates(name, "remote.authorities")
        )
        if len(authorities) > _MAX_AUTHORITIES:
            raise self._make_error("remote.authorities", f"has more than {_MAX_AUTHORITIES:,} certificates")
        eap_identity, milenage = self._load_eap(eap)
        credentials = Credentials(
            local_identity=self._parse_identity(local.identity, "local.identity"),
            remote_identity=self._parse_identity(remote.identity, "remote.identity"),
            psk=self._parse_psk(local.psk),
            key=key,
            certificates=certificates,
            authorities=authorities,
            eap_identity=eap_identity,
            eap_password=eap.password,
            milenage=milenage,
        )
        return LoadedCredentials(credentials, tuple(self._warnings))

    def _make_error(self, key: str, problem: str) -> CredentialsError:
        return CredentialsError(f"{self._path}: {key} {problem}")

    def _read(self, path: Path, key: str, *, secret: bool = False) -> bytes:
        about = f" of {key}" if key else ""
        try:
            with open(path, "rb") as stream:
                mode = os.fstat(stream.fileno()).st_mode
                data = stream.read(_MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "invalid file name"
            where = f"{self._path}: {key}: " if key else ""
            raise CredentialsError(f"{where}{path}: cannot be read ({why})") from None
        if len(data) > _MAX_BYTES:
            raise CredentialsError(f"{path}{about}: larger than {_MAX_BYTES >> 20} MiB")
        if secret and mode & _OTHERS_READ:
            self._warnings.append(f"{path}: has secrets, but other users can read it: chmod 600 {path}")
        return data

    def _load_eap(self, eap: _Eap) -> tuple[str | None, Milenage | None]:
        """Return the identity for EAP, and the functions of the subscriber for EAP-AKA."""
        if eap.ki is None:
            if eap.imsi or eap.opc or eap.op:
                raise CredentialsError(f"{self._path}: [eap] needs ki for EAP-AKA")
            if (eap.identity is None) != (eap.password is None):
                raise CredentialsError(f"{self._path}: [eap] needs both identity and password")
            return eap.identity, None
        if (eap.opc is None) == (eap.op is None):
            raise CredentialsError(f"{self._path}: [eap] needs either opc or op for EAP-AKA")
        if eap.imsi is None and eap.identity is None:
            raise CredentialsError(f"{self._path}: [eap] needs imsi or identity for EAP-AKA")
        ki = bytes.fromhex(eap.ki)
        opc = derive_opc(ki, bytes.fromhex(eap.op)) if eap.op else bytes.fromhex(eap.opc or "")
        return eap.identity or f"{_PERMANENT_IDENTITY}{eap.imsi}", Milenage(ki, opc)

    def _parse_identity(self, text: str | None, key: str) -> Identification | None:
        try:
            return None if text is None else parse_identity(text)
        except ValueError:
            problem = "is not a distinguished name such as C=CH, O=Lab, CN=gw, although it has a ="
            raise self._make_error(key, problem) from None

    def _parse_psk(self, text: str | None) -> bytes | None:
        try:
            return None if text is None else parse_pre_shared_keys(text.encode())[0]
        except ValueError as problem:
            raise self._make_error("local.psk", f"cannot be used: {problem}") from None

    def _load_certificates(self, name: str, key: str) -> tuple[x509.Certificate, ...]:
        path = self._path.parent / name
        data = self._read(path, key)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return tuple(x509.load_pem_x509_certificates(data))
        except ValueError:
            raise self._make_error(key, f"names {path}, which has no PEM certificate") from None

    def _load_key(self, name: str, password: str | None) -> SigningKey:
        path = self._path.parent / name
        data = self._read(path, "local.key", secret=True)
        try:
            key = serialization.load_pem_private_key(data, None if password is None else password.encode())
        except TypeError:
            encrypted = "is encrypted: local.key_password is missing"
            problem = encrypted if password is None else "is not encrypted, but local.key_password is set"
            raise self._make_error("local.key", f"names {path}, which {problem}") from None
        except (ValueError, UnsupportedAlgorithm):
            problem = "has no PEM private key" if password is None else "cannot be decrypted with local.key_password"
            raise self._make_error("local.key", f"names {path}, which {problem}") from None
        if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | EdwardsKey):
            raise self._make_error("local.key", f"names {path}, whose key is neither RSA, ECDSA, Ed25519 nor Ed448")
        return key
