"""Read and write keys as JSON of schema "ikeanalyze.keys/1", which can hold everything that the other formats hold.

    {"schema": "ikeanalyze.keys/1",
     "key_sets": [{"spi_i": "904a132d2b087803", "spi_r": ..., "encryption": "AES-GCM-16", "integrity": "NONE",
                   "sk_d": "7103...", "sk_ai": "", "sk_ar": "", "sk_ei": "33e2...", "sk_er": ..., "sk_pi": ...,
                   "sk_pr": ...,
                   "unchecked_icv": null, "no_salt": false,
                   "derivation": {"secret", "additional": [...], "nonces", "skeyseed", "prf"} | null,
                   "origin": "charon.log:88"}],
     "phase1": [{"cookie_i", "key", "origin"}],
     "esp": [{"protocol", "source", "destination", "spi", "encryption", "encryption_key", "integrity", "integrity_key",
              "origin"}]}

Bytes are hexadecimal digits, algorithms are IANA names as in the report, or numbers; null or missing means unknown. The
key sets of one IKE SA are its epochs, in their order. "origin" is for people and ignored on reading, as are unknown
keys.

A plain list of objects {"Sk_ei": "...", "Sk_er": "...", ...} is also read.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import asdict

from ikeanalyze.crypto.algorithms import HMAC_SHA2_256_96, get_encryption_name, get_integrity_name
from ikeanalyze.keys.collector import KeyCollector, parse_hex
from ikeanalyze.keys.key_set import Derivation, EspKey, KeySet, Origin, Phase1Key
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity

SCHEMA: Final = "ikeanalyze.keys/1"
OURS: Final = "ikeanalyze JSON"
PLAIN: Final = "list of key sets in JSON"


class _Hex(bytes):
    """Bytes, in JSON hexadecimal digits."""

    __slots__ = ()
    size: int | None = None  # None: any


class _Spi(_Hex):
    size = 8


class _EspSpi(_Hex):
    size = 4


class _EncryptionId(int):
    """Transform ID, in JSON also a name."""

    ids: Final = {member.label: int(member) for member in Encryption}


class _IntegrityId(int):
    ids: Final = {**{member.label: int(member) for member in Integrity}, "HMAC-SHA2-256-96": HMAC_SHA2_256_96}


class _JsonDerivation(Struct):
    secret: _Hex | None = None
    additional: tuple[_Hex, ...] = ()
    nonces: _Hex | None = None
    skeyseed: _Hex | None = None
    prf: str | None = None


class _JsonKeySet(Struct):
    spi_i: _Spi | None = None
    spi_r: _Spi | None = None
    encryption: _EncryptionId | None = None
    integrity: _IntegrityId | None = None
    sk_d: _Hex | None = None
    sk_ai: _Hex = _Hex()
    sk_ar: _Hex = _Hex()
    sk_ei: _Hex = _Hex()
    sk_er: _Hex = _Hex()
    sk_pi: _Hex | None = None
    sk_pr: _Hex | None = None
    unchecked_icv: Annotated[int, Meta(ge=0, le=64)] | None = None
    no_salt: bool = False
    derivation: _JsonDerivation | None = None

    def __post_init__(self) -> None:
        if not self.sk_ei and not self.sk_er and self.encryption != int(Encryption.NULL):
            raise ValueError('has neither "sk_ei" nor "sk_er"')

    def collect(self, collector: KeyCollector, origin: Origin) -> None:
        derivation = None if self.derivation is None else Derivation(**asdict(self.derivation))
        collector.key_sets.append(KeySet(**{**asdict(self), "derivation": derivation}, origin=origin))


class _JsonPhase1Key(Struct):
    cookie_i: _Spi
    key: _Hex

    def __post_init__(self) -> None:
        if not self.key:
            raise ValueError('"key" is empty')

    def collect(self, collector: KeyCollector, origin: Origin) -> None:
        collector.phase1.append(Phase1Key(origin, self.cookie_i, self.key))


class _JsonEspKey(Struct, kw_only=True):
    protocol: str
    source: str
    destination: str
    spi: _EspSpi | None = None
    encryption: str
    encryption_key: _Hex = _Hex()
    integrity: str
    integrity_key: _Hex = _Hex()

    def collect(self, collector: KeyCollector, origin: Origin) -> None:
        spi = None if self.spi is None else int.from_bytes(self.spi)
        collector.esp.append(EspKey(**{**asdict(self), "spi": spi}, origin=origin))


_JsonKey = _JsonKeySet | _JsonPhase1Key | _JsonEspKey


def parse_key_document(document: object, collector: KeyCollector) -> bool:
    """Collect the keys of a decoded JSON document; returns whether it has this schema or is a plain list of key sets.

    An object that cannot be used becomes a warning.
    """
    if isinstance(document, list):
        if not document or not all(_is_plain_key_set(item) for item in document):
            return False
        collector.add_format(PLAIN)
        key_sets = [{str(name).lower(): value for name, value in item.items()} for item in document]
        _collect_each("key set", key_sets, _JsonKeySet, collector)
        return True
    if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
        return False
    schema = document["schema"]
    if schema != SCHEMA:
        if schema.startswith(SCHEMA.rpartition("/")[0]):
            collector.warn(None, f"unsupported schema, expected {SCHEMA}; a later ikeanalyze may read it")
        return False
    collector.add_format(OURS)
    kinds: tuple[tuple[str, str, type[_JsonKey]], ...] = (
        ("key_sets", "key set", _JsonKeySet),
        ("phase1", "IKEv1 key", _JsonPhase1Key),
        ("esp", "ESP key", _JsonEspKey),
    )
    for name, singular, kind in kinds:
        items = document.get(name, [])
        if isinstance(items, list):
            _collect_each(singular, items, kind, collector)
        else:
            collector.warn(None, f'"{name}" is not a list; not used')
    return True


def build_key_document(
    key_sets: Sequence[KeySet], phase1: Sequence[Phase1Key], esp: Sequence[EspKey]
) -> dict[str, Any]:
    """Return keys, including all secrets, as a document of schema `SCHEMA`."""
    return {
        "schema": SCHEMA,
        "key_sets": [_build_key_set(keys) | {"origin": str(keys.origin)} for keys in key_sets],
        "phase1": [_build(key, _JsonPhase1Key) | {"origin": str(key.origin)} for key in phase1],
        "esp": [
            _build(key, _JsonEspKey, spi=None if key.spi is None else key.spi.to_bytes(4)) | {"origin": str(key.origin)}
            for key in esp
        ],
    }


def _collect_each(singular: str, items: list[Any], kind: type[_JsonKey], collector: KeyCollector) -> None:
    for number, item in enumerate(items, 1):
        try:
            convert(_drop_nulls(item), kind, dec_hook=_decode).collect(collector, collector.make_origin(None))
        except ValidationError as error:  # without the value
            reason, _, path = str(error).partition(" - at `$.")
            problem = f'"{path.rstrip("`")}": {reason}' if path else reason
            collector.warn(None, f"{singular} {number}: {problem}; not used")


def _drop_nulls(value: Any, depth: int = 2) -> Any:
    """Remove nulls, so that the defaults apply; `depth`: levels of objects, as unknown keys may nest any number."""
    if isinstance(value, dict) and depth:
        return {name: _drop_nulls(item, depth - 1) for name, item in value.items() if item is not None}
    return [item for item in value if item is not None] if isinstance(value, list) else value


def _decode(kind: type[Any], value: object) -> Any:
    """Convert a value to one of the types that msgspec does not know; the errors do not contain it."""
    if issubclass(kind, _Hex):
        octets = parse_hex(value) if isinstance(value, str) else None
        if octets is None:
            raise ValueError("not whole bytes in hexadecimal")
        if kind.size not in (None, len(octets)):
            raise ValueError(f"{len(octets)} bytes instead of {kind.size}")
        return kind(octets)
    if isinstance(value, str):
        transform = int(value) if value.isdecimal() and len(value) <= 5 else kind.ids.get(value)
        if transform is None:
            raise ValueError("not the IANA name of an IKEv2 algorithm")
        return kind(transform)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 0xFFFF:
        raise ValueError("not a transform ID")
    return kind(value)


def _is_plain_key_set(item: object) -> bool:
    return isinstance(item, dict) and {"sk_ei", "sk_er"} <= {str(name).lower() for name in item}


def _build_key_set(keys: KeySet) -> dict[str, Any]:
    derivation = None
    if keys.derivation is not None:
        additional = [secret.hex() for secret in keys.derivation.additional]
        derivation = _build(keys.derivation, _JsonDerivation, additional=additional)
    return _build(
        keys,
        _JsonKeySet,
        encryption=get_encryption_name(keys.encryption),
        integrity=get_integrity_name(keys.integrity),
        derivation=derivation,
    )


def _build(keys: object, kind: type[Struct], **values: object) -> dict[str, Any]:
    """The fields of a Struct, from `values` or else from `keys`."""
    document = {name: values[name] if name in values else getattr(keys, name) for name in kind.__struct_fields__}
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in document.items()}
