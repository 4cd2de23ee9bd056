"""Keys to files: Wireshark's tables and our JSON. Such a file is its owner's alone from its first byte on.

Wireshark's table has room for one key set of an IKE SA, and the keys of an IKE SA change with each additional key exchange
(RFC 9370). So where an IKE SA has several epochs, there is a directory for each of them, `epoch-0`, `epoch-1`..., with tables
under the names by which Wireshark looks for them: each can be its profile. In `epoch-n` are for every IKE SA the keys after n
additional key exchanges, or its last ones if it had fewer: so the last directory reads IKE_AUTH and all that follows, the ones
before it the IKE_INTERMEDIATE exchanges.
"""

import json
import os
import secrets
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.keys.json_keys import build_key_document, get_encryption_name, get_integrity_name
from ikeanalyze.keys.key_set import EspKey, KeySet, Origin, Phase1Key
from ikeanalyze.keys.wireshark import get_wireshark_encryption_name, get_wireshark_integrity_name

IKEV2_TABLE: Final = "ikev2_decryption_table"
IKEV1_TABLE: Final = "ikev1_decryption_table"
ESP_TABLE: Final = "esp_sa"

_PRIVATE: Final = 0o600


@dataclass(frozen=True, slots=True)
class UnexportedKey:
    """A key that Wireshark's tables have no room for."""

    origin: Origin
    why: str  # one clause


@dataclass(frozen=True, slots=True)
class WiresharkTables:
    """Contents of files by their paths, relative to a directory."""

    files: dict[str, str] = field(repr=False)
    left_out: tuple[UnexportedKey, ...]


def build_wireshark_tables(
    key_sets: Sequence[KeySet], phase1: Sequence[Phase1Key], esp: Sequence[EspKey]
) -> WiresharkTables:
    """Keys as Wireshark's tables, a directory for each epoch if there are several."""
    left_out: list[UnexportedKey] = []
    chains: dict[tuple[bytes, bytes], list[tuple[KeySet, str]]] = {}
    for keys in key_sets:
        row = _row(keys)
        if isinstance(row, UnexportedKey):
            left_out.append(row)
        elif keys.spi_i is not None and keys.spi_r is not None:
            chain = chains.setdefault((keys.spi_i, keys.spi_r), [])
            if row not in (known for _, known in chain):  # both peers' files may have it
                chain.append((keys, row))
    common: dict[str, str] = {}
    if phase1:
        common[IKEV1_TABLE] = _lines(f"{key.cookie_i.hex()},{key.key.hex()}" for key in phase1)
    if esp:
        common[ESP_TABLE] = _lines(map(_esp_row, esp))
    epochs = max((len(chain) for chain in chains.values()), default=0)
    files: dict[str, str] = {}
    for epoch in range(max(epochs, 1)):
        directory = f"epoch-{epoch}/" if epochs > 1 else ""
        if chains:
            rows = (chain[min(epoch, len(chain) - 1)][1] for chain in chains.values())
            files[f"{directory}{IKEV2_TABLE}"] = _lines(rows)
        files |= {f"{directory}{name}": content for name, content in common.items()}
    return WiresharkTables(files, tuple(left_out))


def build_key_json(key_sets: Sequence[KeySet], phase1: Sequence[Phase1Key], esp: Sequence[EspKey]) -> str:
    """Keys as our JSON, see `ikejson`."""
    return json.dumps(build_key_document(key_sets, phase1, esp), indent=1) + "\n"


def write_private(path: str, content: str) -> None:
    """Write a file that only its owner may read and write; what was there under its name is replaced at once.

    A link is written through. Raises `OSError` where the system refuses.
    """
    target = os.path.realpath(path)
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(target).st_mode):
            raise FileExistsError(17, "is no regular file", path)
    # not made of the name, which may be as long as a name can be
    temporary = os.path.join(os.path.dirname(target), f".ikeanalyze-{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            os.fchmod(stream.fileno(), _PRIVATE)  # a umask may have taken more
            stream.write(content)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def write_tables(directory: str, written: WiresharkTables) -> None:
    """Write tables below a directory, which is made if need be. Raises `OSError`."""
    for name, content in written.files.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_private(path, content)


def _row(keys: KeySet) -> str | UnexportedKey:
    """A row of ikev2_decryption_table."""
    if keys.spi_i is None or keys.spi_r is None:
        return UnexportedKey(keys.origin, "the SPIs are not known, and Wireshark's table needs them")
    if keys.no_salt:
        return UnexportedKey(keys.origin, "the salt is not known")
    if keys.encryption is None or (keys.integrity is None and keys.unchecked_icv is None):
        return UnexportedKey(keys.origin, "the algorithms are not known, and Wireshark's table needs them")
    encryption = get_wireshark_encryption_name(keys.encryption, len(keys.sk_ei))
    integrity = get_wireshark_integrity_name(keys.integrity, keys.unchecked_icv)
    if len(keys.sk_ei) != len(keys.sk_er) or len(keys.sk_ai) != len(keys.sk_ar):
        return UnexportedKey(keys.origin, "there are keys of one direction only, and Wireshark's table needs both")
    if encryption is None:
        label = get_encryption_name(keys.encryption)
        return UnexportedKey(keys.origin, f"Wireshark has no name for {label} with a key of {len(keys.sk_ei)} bytes")
    if integrity is None:
        return UnexportedKey(keys.origin, f"Wireshark has no name for {get_integrity_name(keys.integrity)}")
    return ",".join(
        (
            keys.spi_i.hex(),
            keys.spi_r.hex(),
            keys.sk_ei.hex(),
            keys.sk_er.hex(),
            f'"{encryption}"',
            keys.sk_ai.hex(),
            keys.sk_ar.hex(),
            f'"{integrity}"',
        )
    )


def _esp_row(key: EspKey) -> str:
    spi = "*" if key.spi is None else f"0x{key.spi:08x}"
    cells = (key.protocol, key.source, key.destination, spi, key.encryption, _prefixed(key.encryption_key))
    return ",".join(f'"{_quoted(cell)}"' for cell in (*cells, key.integrity, _prefixed(key.integrity_key)))


def _prefixed(key: bytes) -> str:
    return f"0x{key.hex()}" if key else ""


def _quoted(text: str) -> str:
    return "".join(c for c in text if c.isprintable() and c not in '"\\')


def _lines(rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in rows)
