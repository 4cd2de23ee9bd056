"""The JSON document of a list of keys, schema "ikeanalyze.keylist/1"."""

from typing import Any, Final

from ikeanalyze.crypto.algorithms import get_encryption_name, get_integrity_name
from ikeanalyze.keys.detect import KeyFile
from ikeanalyze.keys.key_set import compute_fingerprint, number_epochs
from ikeanalyze.render.core.json import select_attributes
from ikeanalyze.render.keys.text import SECRETS, KeyList, key_bits

SCHEMA: Final = "ikeanalyze.keylist/1"


def build_document(listing: KeyList) -> dict[str, Any]:
    """Return the document. It has secrets only if `listing.reveal` is set."""
    return {
        "schema": SCHEMA,
        "files": [_build_file(file, reveal=listing.reveal) for file in listing.files],
        "skipped": [{"path": path, "reason": reason} for path, reason in listing.skipped],
    }


def _build_file(file: KeyFile, *, reveal: bool) -> dict[str, Any]:
    return {
        "path": file.path,
        "formats": list(file.formats),
        "key_sets": [
            {
                "spi_i": None if keys.spi_i is None else keys.spi_i.hex(),
                "spi_r": None if keys.spi_r is None else keys.spi_r.hex(),
                "epoch": epoch,
                "encryption": get_encryption_name(keys.encryption),
                "key_bits": key_bits(keys),
                "integrity": get_integrity_name(keys.integrity),
                **select_attributes(keys, "unchecked_icv", "no_salt"),
                "bytes": {name: len(getattr(keys, name) or b"") for name in SECRETS},
                "fingerprint": compute_fingerprint(keys),
                "line": keys.origin.line,
                **({name: (getattr(keys, name) or b"").hex() for name in SECRETS} if reveal else {}),
            }
            for keys, epoch in zip(file.key_sets, number_epochs(file.key_sets), strict=True)
        ],
        "phase1": [
            {
                "cookie_i": key.cookie_i.hex(),
                "bytes": len(key.key),
                "fingerprint": compute_fingerprint(key),
                "line": key.origin.line,
                **({"key": key.key.hex()} if reveal else {}),
            }
            for key in file.phase1
        ],
        "esp": [
            {
                **select_attributes(key, "protocol", "source", "destination"),
                "spi": None if key.spi is None else f"{key.spi:08x}",
                **select_attributes(key, "encryption", "integrity"),
                "fingerprint": compute_fingerprint(key),
                "line": key.origin.line,
                **({name: getattr(key, name).hex() for name in ("encryption_key", "integrity_key")} if reveal else {}),
            }
            for key in file.esp
        ],
        "warnings": [select_attributes(warning, "line", "message") for warning in file.warnings],
    }
