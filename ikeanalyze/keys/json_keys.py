"""Our own key files: JSON of schema "ikeanalyze.keys/1". All that other formats have can be kept in it.

    {"schema": "ikeanalyze.keys/1",
     "key_sets": [{"spi_i": "904a132d2b087803", "spi_r": ..., "encryption": "AES-GCM-16", "integrity": "NONE",
                   "sk_d": "7103...", "sk_ai": "", "sk_ar": "", "sk_ei": "33e2...", "sk_er": ..., "sk_pi": ..., "sk_pr": ...,
                   "unchecked_icv": null, "no_salt": false,
                   "derivation": {"secret", "additional": [...], "nonces", "skeyseed", "prf"} | null,
                   "origin": "charon.log:88"}],
     "phase1": [{"cookie_i", "key", "origin"}],
     "esp": [{"protocol", "source", "destination", "spi", "encryption", "encryption_key", "integrity", "integrity_key", "origin"}]}

Bytes are hexadecimal digits, algorithms are IANA's names as the report has them, or numbers; null or missing is unknown. Sets of
one IKE SA are its epochs, in their order. "origin" tells people where a key was found and is not read.

A plain list of objects {"Sk_ei": "...", "Sk_er": "...", ...} is read too.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ikeanalyze.crypto.algorithms import HMAC_SHA2_256_96
from ikeanalyze.keys.collector import KeyCollector, parse_hex
from ikeanalyze.keys.key_set import Derivation, EspKey, KeySet, Origin, Phase1Key
from ikeanalyze.wire.registries import Registry, get_name
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity

SCHEMA: Final = "ikeanalyze.keys/1"
OURS: Final = "ikeanalyze JSON"
PLAIN: Final = "list of key sets in JSON"

_HMAC_SHA2_256_96: Final = "HMAC-SHA2-256-96"
_SPI: Final = 8
_KEYS: Final = ("sk_ei", "sk_er", "sk_ai", "sk_ar")


class _InvalidObjectError(Exception):
    """What is wrong with an object, in one clause, without its values."""


def parse_key_document(document: object, findings: KeyCollector) -> bool:
    """Take keys out of a decoded JSON document; whether it is one of ours, or a plain list of key sets.

    An object in it that cannot be used is a warning.
    """
    if isinstance(document, list):
        if not document or not all(_is_plain(item) for item in document):
            return False
        findings.add_format(PLAIN)
        _each("key set", document, findings, _plain)
        return True
    if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
        return False
    schema = document["schema"]
    if schema != SCHEMA:
        if schema.startswith(SCHEMA.rpartition("/")[0]):
            findings.warn(None, f"its schema is not {SCHEMA} but another one; a later ikeanalyze may read it")
        return False
    findings.add_format(OURS)
    for name, singular, take in (
        ("key_sets", "key set", _key_set),
        ("phase1", "IKEv1 key", _phase1),
        ("esp", "ESP key", _esp),
    ):
        items = document.get(name, [])
        if isinstance(items, list):
            _each(singular, items, findings, take)
        else:
            findings.warn(None, f'"{name}" is no list; not used')
    return True


def build_key_document(
    key_sets: Sequence[KeySet], phase1: Sequence[Phase1Key], esp: Sequence[EspKey]
) -> dict[str, Any]:
    """Keys as a document of our schema, with all secrets."""
    return {
        "schema": SCHEMA,
        "key_sets": [_set_object(keys) for keys in key_sets],
        "phase1": [
            {"cookie_i": key.cookie_i.hex(), "key": key.key.hex(), "origin": _where(key.origin)} for key in phase1
        ],
        "esp": [
            {
                "protocol": key.protocol,
                "source": key.source,
                "destination": key.destination,
                "spi": None if key.spi is None else f"{key.spi:08x}",
                "encryption": key.encryption,
                "encryption_key": key.encryption_key.hex(),
                "integrity": key.integrity,
                "integrity_key": key.integrity_key.hex(),
                "origin": _where(key.origin),
            }
            for key in esp
        ],
    }


def get_encryption_name(transform: int | None) -> str | None:
    """Name of an encryption algorithm in output; its number where it has none."""
    return None if transform is None else get_name(Encryption, transform)


def get_integrity_name(transform: int | None) -> str | None:
    """Name of an integrity algorithm in output; its number where it has none."""
    if transform == HMAC_SHA2_256_96:
        return _HMAC_SHA2_256_96
    return None if transform is None else get_name(Integrity, transform)


def _each(what: str, items: list[Any], findings: KeyCollector, take: Any) -> None:
    for number, item in enumerate(items, 1):
        try:
            if not isinstance(item, dict):
                raise _InvalidObjectError("is no object")
            take(item, findings)
        except _InvalidObjectError as error:
            findings.warn(None, f"{what} {number}: {error}; not used")


def _is_plain(item: object) -> bool:
    return isinstance(item, dict) and {"sk_ei", "sk_er"} <= {str(name).lower() for name in item}


def _plain(item: Mapping[str, Any], findings: KeyCollector) -> None:
    _key_set({str(name).lower(): value for name, value in item.items()}, findings)


def _key_set(item: Mapping[str, Any], findings: KeyCollector) -> None:
    spi_i, spi_r = (_octets(item, name, _SPI) for name in ("spi_i", "spi_r"))
    keys = {name: _octets(item, name) or b"" for name in _KEYS}
    encryption = _transform(item, "encryption", Encryption)
    if not keys["sk_ei"] and not keys["sk_er"] and encryption != Encryption.NULL:
        raise _InvalidObjectError('has neither "sk_ei" nor "sk_er"')
    findings.key_sets.append(
        KeySet(
            origin=findings.make_origin(None),
            spi_i=spi_i,
            spi_r=spi_r,
            encryption=encryption,
            integrity=_transform(item, "integrity", Integrity),
            **keys,
            sk_d=_octets(item, "sk_d"),
            sk_pi=_octets(item, "sk_pi"),
            sk_pr=_octets(item, "sk_pr"),
            unchecked_icv=_number(item, "unchecked_icv"),
            no_salt=item.get("no_salt") is True,
            derivation=_derivation(item.get("derivation")),
        )
    )


def _derivation(item: object) -> Derivation | None:
    if item is None:
        return None
    if not isinstance(item, dict):
        raise _InvalidObjectError('"derivation" is no object')
    additional = item.get("additional") or []
    if not isinstance(additional, list):
        raise _InvalidObjectError('"additional" is no list')
    secrets = [_bytes("additional", secret) for secret in additional]
    return Derivation(
        secret=_octets(item, "secret"),
        additional=tuple(secret for secret in secrets if secret is not None),
        nonces=_octets(item, "nonces"),
        skeyseed=_octets(item, "skeyseed"),
        prf=_text(item, "prf"),
    )


def _phase1(item: Mapping[str, Any], findings: KeyCollector) -> None:
    cookie, key = _octets(item, "cookie_i", _SPI), _octets(item, "key")
    if cookie is None or not key:
        raise _InvalidObjectError('lacks "cookie_i" or "key"')
    findings.phase1.append(Phase1Key(findings.make_origin(None), cookie, key))


def _esp(item: Mapping[str, Any], findings: KeyCollector) -> None:
    texts = {name: _text(item, name) for name in ("protocol", "source", "destination", "encryption", "integrity")}
    if None in texts.values():
        raise _InvalidObjectError("lacks " + ", ".join(f'"{name}"' for name, value in texts.items() if value is None))
    spi = _octets(item, "spi", 4)
    findings.esp.append(
        EspKey(
            origin=findings.make_origin(None),
            spi=None if spi is None else int.from_bytes(spi),
            encryption_key=_octets(item, "encryption_key") or b"",
            integrity_key=_octets(item, "integrity_key") or b"",
            **{name: value or "" for name, value in texts.items()},
        )
    )


def _octets(item: Mapping[str, Any], name: str, size: int | None = None) -> bytes | None:
    value = _bytes(name, item.get(name))
    if value is not None and size is not None and len(value) != size:
        raise _InvalidObjectError(f'"{name}" is {len(value)} bytes long and not {size}')
    return value


def _bytes(name: str, value: object) -> bytes | None:
    if value is None:
        return None
    octets = parse_hex(value) if isinstance(value, str) else None
    if octets is None:
        raise _InvalidObjectError(f'"{name}" is not whole bytes in hexadecimal')
    return octets


def _text(item: Mapping[str, Any], name: str) -> str | None:
    value = item.get(name)
    if value is not None and not isinstance(value, str):
        raise _InvalidObjectError(f'"{name}" is no text')
    return value


def _number(item: Mapping[str, Any], name: str) -> int | None:
    value = item.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 64):
        raise _InvalidObjectError(f'"{name}" is no number of bytes')
    return value


def _transform(item: Mapping[str, Any], name: str, registry: type[Registry]) -> int | None:
    value = item.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        if value.isdecimal() and len(value) <= 5:
            return int(value)
        if value == _HMAC_SHA2_256_96:
            return HMAC_SHA2_256_96
        for member in registry:
            if member.label == value:
                return int(member)
        raise _InvalidObjectError(f'"{name}" is no algorithm of IKEv2 by IANA')
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0xFFFF:
        return value
    raise _InvalidObjectError(f'"{name}" is no transform ID')


def _set_object(keys: KeySet) -> dict[str, Any]:
    derivation = keys.derivation
    return {
        "spi_i": _hex(keys.spi_i),
        "spi_r": _hex(keys.spi_r),
        "encryption": get_encryption_name(keys.encryption),
        "integrity": get_integrity_name(keys.integrity),
        **{f"sk_{name}": _hex(getattr(keys, f"sk_{name}")) for name in ("d", "ai", "ar", "ei", "er", "pi", "pr")},
        "unchecked_icv": keys.unchecked_icv,
        "no_salt": keys.no_salt,
        "derivation": None
        if derivation is None
        else {
            "secret": _hex(derivation.secret),
            "additional": [secret.hex() for secret in derivation.additional],
            "nonces": _hex(derivation.nonces),
            "skeyseed": _hex(derivation.skeyseed),
            "prf": derivation.prf,
        },
        "origin": _where(keys.origin),
    }


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _where(origin: Origin) -> str:
    return origin.path if origin.line is None else f"{origin.path}:{origin.line}"
