"""Who we are, and whom we trust: secrets, keys and certificates out of a TOML file.

    [local]
    identity = "initiator.example"      # name, mail or IP address; "C=CH, O=Lab, CN=gw", in this order, for a distinguished name
    psk = "..."                         # the secret itself, hex digits behind 0x, base64 behind 0s
    certificate = "initiator.pem"       # PEM: ours first, then those of the authorities between
    key = "initiator.key"               # PEM; RSA, ECDSA, Ed25519 or Ed448
    key_password = "..."                # if the key is encrypted

    [remote]
    identity = "responder.example"      # who the target has to be
    authorities = ["root.pem"]          # PEM: whose certificates we trust

    [eap]
    identity = "user"
    password = "..."

All of it may be left out, as far as the handshake does without. Paths are relative to the file. Whatever is wrong is said
with the file and the key, and never with a secret.
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

from ikeanalyze.crypto.certificate_chain import encode_distinguished_name
from ikeanalyze.crypto.signatures import EdwardsKey, SigningKey
from ikeanalyze.io.toml import TomlFileError, decode_toml
from ikeanalyze.keys.psk import parse_pre_shared_keys
from ikeanalyze.wire.ikev2.payloads import Identification
from ikeanalyze.wire.registries.ikev2 import IdType

_MAX_BYTES: Final = 1 << 20  # bytes of any of the files
_OTHERS_READ: Final = stat.S_IRGRP | stat.S_IROTH
_MAX_AUTHORITIES: Final = 1000  # CERTREQ names each of them
_Text = Annotated[str, Meta(min_length=1, max_length=1024)]


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


class _Tables(Struct, forbid_unknown_fields=True):
    local: _Local = msgspec.field(default_factory=_Local)
    remote: _Remote = msgspec.field(default_factory=_Remote)
    eap: _Eap = msgspec.field(default_factory=_Eap)


class CredentialsError(ValueError):
    """The credentials cannot be used; one line with file and key, and no secret."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What we authenticate ourselves with, and check the responder by."""

    local_identity: Identification | None = None
    remote_identity: Identification | None = None  # the responder has to be this one; None: anybody
    psk: bytes | None = field(default=None, repr=False)
    key: SigningKey | None = field(default=None, repr=False)
    certificates: tuple[x509.Certificate, ...] = ()  # ours first, then its authorities
    authorities: tuple[x509.Certificate, ...] = ()
    eap_identity: str | None = None
    eap_password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class LoadedCredentials:
    """What a file had."""

    credentials: Credentials
    warnings: tuple[str, ...]  # one line each


def load_credentials(path: str | Path) -> LoadedCredentials:
    """Read a credentials file. Raises `CredentialsError`."""
    return _File(Path(path)).loaded()


def parse_identity(text: str) -> Identification:
    """An identity as people write it: IP address, mail address, distinguished name with "=", else a name.

    A distinguished name is in the order of strongSwan (`keys.distinguished`), which is not that of RFC 4514.

    `ValueError` for a distinguished name that is none.
    """
    try:
        address = ip_address(text)
    except ValueError:
        pass
    else:
        kind = IdType.ID_IPV4_ADDR if address.version == 4 else IdType.ID_IPV6_ADDR
        return Identification(kind, address.packed)
    if "=" in text:
        return Identification(IdType.ID_DER_ASN1_DN, encode_distinguished_name(text).public_bytes())
    return Identification(IdType.ID_RFC822_ADDR if "@" in text else IdType.ID_FQDN, text.encode())


def get_certificate_subject(certificate: x509.Certificate) -> Identification:
    """A certificate's owner as identity: its distinguished name."""
    return Identification(IdType.ID_DER_ASN1_DN, certificate.subject.public_bytes())


def certificate_to_der(certificate: x509.Certificate) -> bytes:
    """As it stands in a CERT payload."""
    return certificate.public_bytes(serialization.Encoding.DER)


def public_key_to_der(certificate: x509.Certificate) -> bytes:
    """SubjectPublicKeyInfo, of which CERTREQ has the SHA-1 (RFC 7296, section 3.7)."""
    return certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def get_key_type(key: SigningKey | None) -> str | None:
    """Which kind of key it is, in the report's words: rsa, ecdsa, ed25519, ed448."""
    if key is None:
        return None
    if isinstance(key, rsa.RSAPrivateKey):
        return "rsa"
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return "ecdsa"
    return "ed448" if isinstance(key, ed448.Ed448PrivateKey) else "ed25519"


class _File:
    """A credentials file, read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._warnings: list[str] = []
        data = self._read(path, "", secret=True)
        try:
            self._tables = decode_toml(data, _Tables)
        except TomlFileError as problem:
            raise CredentialsError(f"{path}: {problem.unquoted}") from None

    def loaded(self) -> LoadedCredentials:
        local, remote, eap = self._tables.local, self._tables.remote, self._tables.eap
        certificates = self._certificates(local.certificate, "local.certificate") if local.certificate else ()
        key = self._key(local.key, local.key_password) if local.key else None
        if key is not None and not certificates:
            raise self._wrong("local.key", "needs local.certificate beside it")
        if certificates and key is None:
            raise self._wrong("local.certificate", "needs local.key beside it")
        if key is not None and key.public_key() != certificates[0].public_key():
            raise self._wrong("local.key", "is not that of the first certificate of local.certificate")
        authorities = tuple(
            certificate for name in remote.authorities for certificate in self._certificates(name, "remote.authorities")
        )
        if len(authorities) > _MAX_AUTHORITIES:
            raise self._wrong("remote.authorities", f"has more than {_MAX_AUTHORITIES:,} certificates")
        if (eap.identity is None) != (eap.password is None):
            raise CredentialsError(f"{self._path}: [eap] needs both identity and password")
        credentials = Credentials(
            local_identity=self._identity(local.identity, "local.identity"),
            remote_identity=self._identity(remote.identity, "remote.identity"),
            psk=self._psk(local.psk),
            key=key,
            certificates=certificates,
            authorities=authorities,
            eap_identity=eap.identity,
            eap_password=eap.password,
        )
        return LoadedCredentials(credentials, tuple(self._warnings))

    def _wrong(self, key: str, problem: str) -> CredentialsError:
        return CredentialsError(f"{self._path}: {key} {problem}")

    def _read(self, path: Path, key: str, *, secret: bool = False) -> bytes:
        about = f" of {key}" if key else ""
        try:
            with open(path, "rb") as stream:
                mode = os.fstat(stream.fileno()).st_mode
                data = stream.read(_MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "no file has this name"
            where = f"{self._path}: {key}: " if key else ""
            raise CredentialsError(f"{where}{path}: cannot be read ({why})") from None
        if len(data) > _MAX_BYTES:
            raise CredentialsError(f"{path}{about}: is too large for such a file")
        if secret and mode & _OTHERS_READ:
            self._warnings.append(f"{path}: others can read it, and it has secrets: chmod 600 {path}")
        return data

    def _identity(self, text: str | None, key: str) -> Identification | None:
        try:
            return None if text is None else parse_identity(text)
        except ValueError:
            raise self._wrong(
                key, "is no distinguished name, though it has a = in it; one looks like C=CH, O=Lab, CN=gw"
            ) from None

    def _psk(self, text: str | None) -> bytes | None:
        try:
            return None if text is None else parse_pre_shared_keys(text.encode())[0]
        except ValueError as problem:
            raise self._wrong("local.psk", f"cannot be used: {problem}") from None

    def _certificates(self, name: str, key: str) -> tuple[x509.Certificate, ...]:
        path = self._path.parent / name
        data = self._read(path, key)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return tuple(x509.load_pem_x509_certificates(data))
        except ValueError:
            raise self._wrong(key, f"names {path}, which has no certificate in PEM") from None

    def _key(self, name: str, password: str | None) -> SigningKey:
        path = self._path.parent / name
        data = self._read(path, "local.key", secret=True)
        try:
            key = serialization.load_pem_private_key(data, None if password is None else password.encode())
        except TypeError:
            encrypted = "is encrypted: local.key_password is missing"
            problem = encrypted if password is None else "is not encrypted, but there is a local.key_password"
            raise self._wrong("local.key", f"names {path}, which {problem}") from None
        except (ValueError, UnsupportedAlgorithm):
            problem = "has no private key in PEM" if password is None else "does not open with local.key_password"
            raise self._wrong("local.key", f"names {path}, which {problem}") from None
        if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | EdwardsKey):
            raise self._wrong("local.key", f"names {path}, whose key is neither RSA, ECDSA, Ed25519 nor Ed448")
        return key
