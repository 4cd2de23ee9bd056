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
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa

from ikeanalyze.io.toml import TomlFileError, parse_toml
from ikeanalyze.keys.distinguished import read_name
from ikeanalyze.keys.psk import pre_shared_keys
from ikeanalyze.keys.signing import EdwardsKey, SigningKey
from ikeanalyze.wire.ikev2_payloads import Identification
from ikeanalyze.wire.registries.ikev2 import IdType

_LARGEST: Final = 1 << 20  # bytes of any of the files
_OTHERS_READ: Final = stat.S_IRGRP | stat.S_IROTH
_LONGEST: Final = 1024  # characters of a text
_MOST_AUTHORITIES: Final = 1000  # CERTREQ names each of them
_KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "local": ("identity", "psk", "certificate", "key", "key_password"),
        "remote": ("identity", "authorities"),
        "eap": ("identity", "password"),
    }
)


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
class Loaded:
    """What a file had."""

    credentials: Credentials
    warnings: tuple[str, ...]  # one line each


def load_credentials(path: str | Path) -> Loaded:
    """Read a credentials file. Raises `CredentialsError`."""
    return _File(Path(path)).loaded()


def identification(text: str) -> Identification:
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
        return Identification(IdType.ID_DER_ASN1_DN, read_name(text).public_bytes())
    return Identification(IdType.ID_RFC822_ADDR if "@" in text else IdType.ID_FQDN, text.encode())


def subject(certificate: x509.Certificate) -> Identification:
    """A certificate's owner as identity: its distinguished name."""
    return Identification(IdType.ID_DER_ASN1_DN, certificate.subject.public_bytes())


def der(certificate: x509.Certificate) -> bytes:
    """As it stands in a CERT payload."""
    return certificate.public_bytes(serialization.Encoding.DER)


def public_key_der(certificate: x509.Certificate) -> bytes:
    """SubjectPublicKeyInfo, of which CERTREQ has the SHA-1 (RFC 7296, section 3.7)."""
    return certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def key_family(key: SigningKey | None) -> str | None:
    """Which kind of key it is, in the report's words: rsa, ecdsa, ed25519, ed448."""
    if key is None:
        return None
    if isinstance(key, rsa.RSAPrivateKey):
        return "rsa"
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return "ecdsa"
    return "ed448" if isinstance(key, ed448.Ed448PrivateKey) else "ed25519"


class _File:
    """One file being read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._warnings: list[str] = []
        data = self._bytes(path, "", secret=True)
        try:
            tables = parse_toml(data)
        except TomlFileError as problem:
            raise CredentialsError(f"{path}: {problem.unquoted}") from None
        self._values: dict[str, Any] = {}
        for table, content in tables.items():
            if table not in _KEYS or not isinstance(content, dict):
                raise CredentialsError(f"{path}: there is no {table!r}; there are [{'], ['.join(_KEYS)}]")
            for key, value in content.items():
                if key not in _KEYS[table]:
                    raise self._wrong(f"{table}.{key}", f"is not known; [{table}] has {', '.join(_KEYS[table])}")
                self._values[f"{table}.{key}"] = value

    def loaded(self) -> Loaded:
        certificates = self._certificates("local.certificate")
        key = self._key()
        if key is not None and not certificates:
            raise self._wrong("local.key", "needs local.certificate beside it")
        if certificates and key is None:
            raise self._wrong("local.certificate", "needs local.key beside it")
        if key is not None and key.public_key() != certificates[0].public_key():
            raise self._wrong("local.key", "is not that of the first certificate of local.certificate")
        authorities = tuple(
            one
            for number in range(len(self._list("remote.authorities")))
            for one in self._certificates("remote.authorities", number)
        )
        if len(authorities) > _MOST_AUTHORITIES:
            raise self._wrong("remote.authorities", f"has more than {_MOST_AUTHORITIES:,} certificates")
        user, password = self._text("eap.identity"), self._text("eap.password")
        if (user is None) != (password is None):
            raise CredentialsError(f"{self._path}: [eap] needs both identity and password")
        credentials = Credentials(
            self._identity("local.identity"), self._identity("remote.identity"), self._psk(), key,
            certificates, authorities, user, password,
        )  # fmt: skip
        return Loaded(credentials, tuple(self._warnings))

    def _wrong(self, key: str, what: str) -> CredentialsError:
        return CredentialsError(f"{self._path}: {key} {what}")

    def _bytes(self, path: Path, key: str, *, secret: bool = False) -> bytes:
        about = f" of {key}" if key else ""
        try:
            with open(path, "rb") as stream:
                mode = os.fstat(stream.fileno()).st_mode
                data = stream.read(_LARGEST + 1)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "no file has this name"
            where = f"{self._path}: {key}: " if key else ""
            raise CredentialsError(f"{where}{path}: cannot be read ({why})") from None
        if len(data) > _LARGEST:
            raise CredentialsError(f"{path}{about}: is too large for such a file")
        if secret and mode & _OTHERS_READ:
            self._warnings.append(f"{path}: others can read it, and it has secrets: chmod 600 {path}")
        return data

    def _text(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is not None and not (isinstance(value, str) and 0 < len(value) <= _LONGEST):
            raise self._wrong(key, f"must be a text of 1 to {_LONGEST:,} characters")
        return value

    def _list(self, key: str) -> list[str]:
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self._wrong(key, "must be a list of paths")
        return value

    def _identity(self, key: str) -> Identification | None:
        text = self._text(key)
        try:
            return None if text is None else identification(text)
        except ValueError:
            raise self._wrong(
                key, "is no distinguished name, though it has a = in it; one looks like C=CH, O=Lab, CN=gw"
            ) from None

    def _psk(self) -> bytes | None:
        text = self._text("local.psk")
        if text is None:
            return None
        try:
            return pre_shared_keys(text.encode())[0]
        except ValueError as problem:
            raise self._wrong("local.psk", f"cannot be used: {problem}") from None

    def _certificates(self, key: str, number: int | None = None) -> tuple[x509.Certificate, ...]:
        name = self._text(key) if number is None else self._list(key)[number]
        if name is None:
            return ()
        path = self._path.parent / name
        data = self._bytes(path, key)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return tuple(x509.load_pem_x509_certificates(data))
        except ValueError:
            raise self._wrong(key, f"names {path}, which has no certificate in PEM") from None

    def _key(self) -> SigningKey | None:
        name, password = self._text("local.key"), self._text("local.key_password")
        if name is None:
            return None
        path = self._path.parent / name
        data = self._bytes(path, "local.key", secret=True)
        try:
            key = serialization.load_pem_private_key(data, None if password is None else password.encode())
        except TypeError:
            lacking = "is encrypted: local.key_password is missing"
            what = lacking if password is None else "is not encrypted, but there is a local.key_password"
            raise self._wrong("local.key", f"names {path}, which {what}") from None
        except (ValueError, UnsupportedAlgorithm):
            what = "has no private key in PEM" if password is None else "does not open with local.key_password"
            raise self._wrong("local.key", f"names {path}, which {what}") from None
        if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | EdwardsKey):
            what = "whose key is neither RSA, ECDSA, Ed25519 nor Ed448"
            raise self._wrong("local.key", f"names {path}, {what}")
        return key
