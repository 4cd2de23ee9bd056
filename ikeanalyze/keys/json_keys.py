"""Read and write keys as JSON of schema "ikeanalyze.keys/1", which can hold everything that the other formats hold.

    {"schema": "ikeanalyze.keys/1",
     "key_sets": [{"spi_i": "904a132d2b087803", "spi_r": ..., "encryption": "AES-GCM-16", "integrity": "NONE",
                   "sk_d": "7103...", "sk_ai": "", "sk_ar": "", "sk_ei": "33e2...", "sk_er": ..., "sk_pi": ..., "sk_pr": ...,
                   "unchecked_icv": null, "no_salt": false,
                   "derivation": {"secret", "additional": [...], "nonces", "skeyseed", "prf"} | null,
                   "origin": "charon.log:88"}],
     "phase1": [{"cookie_i", "key", "origin"}],
     "esp": [{"protocol", "source", "destination", "spi", "encryption", "encryption_key", "integrity", "integrity_key", "origin"}]}

Bytes are hexadecimal digits, algorithms are IANA names as in the report, or numbers; null or missing means unknown. The
key sets of one IKE SA are its epochs, in their order. "origin" is for people and ignored on reading, as are unknown
keys.

A plain list of objects {"Sk_ei": "...", "Sk_er": "...", ...} is also read.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ikeanalyze.crypto.algorithms import HMAC_SHA2_256_96
from ikeanalyze.keys.collector import KeyCollector, parse_hex
from ikeanalyze.keys.key_set import Derivation, EspKey, KeySet, Phase1Key
from ikeanalyze.wire.registries import Registry, get_name
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity

SCHEMA: Final = "ikeanalyze.keys/1"
OURS: Final = "ikeanalyze JSON"
PLAIN: Final = "list of key sets in JSON"

_HMAC_SHA2_256_96: Final = "HMAC-SHA2-256-96"
_SPI_BYTES: Final = 8
_KEYS: Final = ("sk_ei", "sk_er", "sk_ai", "sk_ar")


class _InvalidObjectError(Exception):
    """An object cannot be used; one clause without its values."""


def parse_key_document(document: object, collector: KeyCollector) -> bool:
    """Collect the keys of a decoded JSON document; returns whether it has this schema or is a plain list of key sets.

    An object that cannot be used becomes a warning.
    """
    if isinstance(document, list):
        if not document or not all(_is_plain_key_set(item) for item in document):
            return False
        collector.add_format(PLAIN)
        _parse_each("key set", document, collector, _parse_plain_key_set)
        return True
    if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
        return False
    schema = document["schema"]
    if schema != SCHEMA:
        if schema.startswith(SCHEMA.rpartition("/")[0]):
            collector.warn(None, f"unsupported schema, expected {SCHEMA}; a later ikeanalyze may read it")
        return False
    collector.add_format(OURS)
    for name, singular, parse in (
        ("key_sets", "key set", _parse_key_set),
        ("phase1", "IKEv1 key", _parse_phase1),
        ("esp", "ESP key", _parse_esp),
    ):
        items = document.get(name, [])
        if isinstance(items, list):
            _parse_each(singular, items, collector, parse)
        else:
            collector.warn(None, f'"{name}" is not a list; not used')
    return True


def build_key_document(
    key_sets: Sequence[KeySet], phase1: Sequence[Phase1Key], esp: Sequence[EspKey]
) -> dict[str, Any]:
    """Return keys, including all secrets, as a document of schema `SCHEMA`."""
    return {
        "schema": SCHEMA,
        "key_sets": [_build_key_set(keys) for keys in key_sets],
        "phase1": [{"cookie_i": key.cookie_i.hex(), "key": key.key.hex(), "origin": str(key.origin)} for key in phase1],
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
                "origin": str(key.origin),
            }
            for key in esp
        ],
    }


def get_encryption_name(transform: int | None) -> str | None:
    """Return the name of an encryption algorithm for output, or its number if it has none."""
    return None if transform is None else get_name(Encryption, transform)


def get_integrity_name(transform: int | None) -> str | None:
    """Return the name of an integrity algorithm for output, or its number if it has none."""
    if transform == HMAC_SHA2_256_96:
        return _HMAC_SHA2_256_96
    return None if transform is None else get_name(Integrity, transform)


def _parse_each(
    singular: str, items: list[Any], collector: KeyCollector, parse: Callable[[Mapping[str, Any], KeyCollector], None]
) -> None:
    for number, item in enumerate(items, 1):
        try:
            if not isinstance(item, dict):
                raise _InvalidObjectError("not an object")
            parse(item, collector)
        except _InvalidObjectError as error:
            collector.warn(None, f"{singular} {number}: {error}; not used")


def _is_plain_key_set(item: object) -> bool:
    return isinstance(item, dict) and {"sk_ei", "sk_er"} <= {str(name).lower() for name in item}


def _parse_plain_key_set(item: Mapping[str, Any], collector: KeyCollector) -> None:
    _parse_key_set({str(name).lower(): value for name, value in item.items()}, collector)


def _parse_key_set(item: Mapping[str, Any], collector: KeyCollector) -> None:
    spi_i, spi_r = (_get_bytes(item, name, _SPI_BYTES) for name in ("spi_i", "spi_r"))
    keys = {name: _get_bytes(item, name) or b"" for name in _KEYS}
    encryption = _get_transform(item, "encryption", Encryption)
    if not keys["sk_ei"] and not keys["sk_er"] and encryption != Encryption.NULL:
        raise _InvalidObjectError('has neither "sk_ei" nor "sk_er"')
    collector.key_sets.append(
        KeySet(
            origin=collector.make_origin(None),
            spi_i=spi_i,
            spi_r=spi_r,
            encryption=encryption,
            integrity=_get_transform(item, "integrity", Integrity),
            **keys,
            sk_d=_get_bytes(item, "sk_d"),
            sk_pi=_get_bytes(item, "sk_pi"),
            sk_pr=_get_bytes(item, "sk_pr"),
            unchecked_icv=_get_icv_bytes(item, "unchecked_icv"),
            no_salt=item.get("no_salt") is True,
            derivation=_parse_derivation(item.get("derivation")),
        )
    )


def _parse_derivation(item: object) -> Derivation | None:
    if item is None:
        return None
    if not isinstance(item, dict):
        raise _InvalidObjectError('"derivation" is not an object')
    additional = item.get("additional") or []
    if not isinstance(additional, list):
        raise _InvalidObjectError('"additional" is not a list')
    secrets = [_parse_bytes("additional", secret) for secret in additional]
    return Derivation(
        secret=_get_bytes(item, "secret"),
        additional=tuple(secret for secret in secrets if secret is not None),
        nonces=_get_bytes(item, "nonces"),
        skeyseed=_get_bytes(item, "skeyseed"),
        prf=_get_text(item, "prf"),
    )


def _parse_phase1(item: Mapping[str, Any], collector: KeyCollector) -> None:
    cookie, key = _get_bytes(item, "cookie_i", _SPI_BYTES), _get_bytes(item, "key")
    if cookie is None or not key:
        raise _InvalidObjectError('lacks "cookie_i" or "key"')
    collector.phase1.append(Phase1Key(collector.make_origin(None), cookie, key))


def _parse_esp(item: Mapping[str, Any], collector: KeyCollector) -> None:
    texts = {name: _get_text(item, name) for name in ("protocol", "source", "destination", "encryption", "integrity")}
    if None in texts.values():
        raise _InvalidObjectError("lacks " + ", ".join(f'"{name}"' for name, value in texts.items() if value is None))
    spi = _get_bytes(item, "spi", 4)
    collector.esp.append(
        EspKey(
            origin=collector.make_origin(None),
            spi=None if spi is None else int.from_bytes(spi),
            encryption_key=_get_bytes(item, "encryption_key") or b"",
            integrity_key=_get_bytes(item, "integrity_key") or b"",
            **{name: value or "" for name, value in texts.items()},
        )
    )


def _get_bytes(item: Mapping[str, Any], name: str, size: int | None = None) -> bytes | None:
    value = _parse_bytes(name, item.get(name))
    if value is not None and size is not None and len(value) != size:
        raise _InvalidObjectError(f'"{name}" has {len(value)} bytes instead of {size}')
    return value


def _parse_bytes(name: str, value: object) -> bytes | None:
    if value is None:
        return None
    octets = parse_hex(value) if isinstance(value, str) else None
    if octets is None:
        raise _InvalidObjectError(f'"{name}" is not whole bytes in hexadecimal')
    return octets


def _get_text(item: Mapping[str, Any], name: str) -> str | None:
    value = item.get(name)
    if value is not None and not isinstance(value, str):
        raise _InvalidObjectError(f'"{name}" is not text')
    return value


def _get_icv_bytes(item: Mapping[str, Any], name: str) -> int | None:
    value = item.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 64):
        raise _InvalidObjectError(f'"{name}" is not a number of bytes from 0 to 64')
    return value


def _get_transform(item: Mapping[str, Any], name: str, registry: type[Registry]) -> int | None:
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
        raise _InvalidObjectError(f'"{name}" is not the IANA name of an IKEv2 algorithm')
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0xFFFF:
        return value
    raise _InvalidObjectError(f'"{name}" is not a transform ID')


def _build_key_set(keys: KeySet) -> dict[str, Any]:
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
        "origin": str(keys.origin),
    }


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
