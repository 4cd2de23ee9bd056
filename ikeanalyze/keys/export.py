"""Export keys as Wireshark tables and as JSON. Only the owner can ever read the written files.

Wireshark's table holds one key set per IKE SA, but the keys of an IKE SA change with each additional key exchange (RFC
9370) and with a PPK (RFC 9867) in IKE_INTERMEDIATE. If an IKE SA has several epochs, each epoch gets a directory,
`epoch-0`, `epoch-1`..., whose tables have the names that Wireshark expects in a profile. `epoch-n` has for every IKE SA
the keys after n changes, or its last keys if it had fewer. So the last directory decrypts IKE_AUTH and everything after
it, the others decrypt the IKE_INTERMEDIATE exchanges.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.crypto.algorithms import get_encryption_name, get_integrity_name
from ikeanalyze.io.atomic_write import write_private
from ikeanalyze.keys.json_keys import build_key_document
from ikeanalyze.keys.key_set import EspKey, KeySet, Origin, Phase1Key
from ikeanalyze.keys.wireshark import get_wireshark_encryption_name, get_wireshark_integrity_name

IKEV2_TABLE: Final = "ikev2_decryption_table"
IKEV1_TABLE: Final = "ikev1_decryption_table"
ESP_TABLE: Final = "esp_sa"


@dataclass(frozen=True, slots=True)
class UnexportedKey:
    """A key that Wireshark's tables cannot hold."""

    origin: Origin
    reason: str  # one clause


@dataclass(frozen=True, slots=True)
class WiresharkTables:
    """Contents of Wireshark's tables, by path relative to a directory."""

    files: dict[str, str] = field(repr=False)
    unexported: tuple[UnexportedKey, ...]


def build_wireshark_tables(
    key_sets: Sequence[KeySet], phase1: Sequence[Phase1Key], esp: Sequence[EspKey]
) -> WiresharkTables:
    """Build Wireshark's tables, with a directory for each epoch if an IKE SA has several."""
    unexported: list[UnexportedKey] = []
    chains: dict[tuple[bytes, bytes], list[tuple[KeySet, str]]] = {}
    for keys in key_sets:
        row = _format_ikev2_row(keys)
        if isinstance(row, UnexportedKey):
            unexported.append(row)
        elif keys.spi_i is not None and keys.spi_r is not None:
            chain = chains.setdefault((keys.spi_i, keys.spi_r), [])
            if row not in (known for _, known in chain):  # the logs of both peers repeat key sets
                chain.append((keys, row))
    common: dict[str, str] = {}
    if phase1:
        common[IKEV1_TABLE] = _join_lines(f"{key.cookie_i.hex()},{key.key.hex()}" for key in phase1)
    if esp:
        common[ESP_TABLE] = _join_lines(map(_format_esp_row, esp))
    epochs = max((len(chain) for chain in chains.values()), default=0)
    files: dict[str, str] = {}
    for epoch in range(max(epochs, 1)):
        directory = f"epoch-{epoch}/" if epochs > 1 else ""
        if chains:
            rows = (chain[min(epoch, len(chain) - 1)][1] for chain in chains.values())
            files[f"{directory}{IKEV2_TABLE}"] = _join_lines(rows)
        files |= {f"{directory}{name}": content for name, content in common.items()}
    return WiresharkTables(files, tuple(unexported))


def build_key_json(key_sets: Sequence[KeySet], phase1: Sequence[Phase1Key], esp: Sequence[EspKey]) -> str:
    """Return keys as the JSON text that `json_keys` describes."""
    return json.dumps(build_key_document(key_sets, phase1, esp), indent=1) + "\n"


def write_tables(directory: str, tables: WiresharkTables) -> None:
    """Write tables below a directory, which is created if necessary. Raises `OSError`."""
    for name, content in tables.files.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_private(path, content)


def _format_ikev2_row(keys: KeySet) -> str | UnexportedKey:
    if keys.spi_i is None or keys.spi_r is None:
        return UnexportedKey(keys.origin, "the SPIs are unknown, and Wireshark's table requires them")
    if keys.no_salt:
        return UnexportedKey(keys.origin, "the salt is unknown")
    if keys.encryption is None or (keys.integrity is None and keys.unchecked_icv is None):
        return UnexportedKey(keys.origin, "the algorithms are unknown, and Wireshark's table requires them")
    encryption = get_wireshark_encryption_name(keys.encryption, len(keys.sk_ei))
    integrity = get_wireshark_integrity_name(keys.integrity, keys.unchecked_icv)
    if len(keys.sk_ei) != len(keys.sk_er) or len(keys.sk_ai) != len(keys.sk_ar):
        return UnexportedKey(
            keys.origin, "only the keys of one direction are known, and Wireshark's table requires both"
        )
    if encryption is None:
        label = get_encryption_name(keys.encryption)
        return UnexportedKey(keys.origin, f"Wireshark has no name for {label} with a key of {len(keys.sk_ei)} bytes")
    if integrity is None:
        return UnexportedKey(keys.origin, f"Wireshark has no name for {get_integrity_name(keys.integrity)}")
    values = (keys.spi_i, keys.spi_r, keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar)
    spi_i, spi_r, sk_ei, sk_er, sk_ai, sk_ar = (value.hex() for value in values)
    return f'{spi_i},{spi_r},{sk_ei},{sk_er},"{encryption}",{sk_ai},{sk_ar},"{integrity}"'


def _format_esp_row(key: EspKey) -> str:
    spi = "*" if key.spi is None else f"0x{key.spi:08x}"
    keys = [f"0x{value.hex()}" if value else "" for value in (key.encryption_key, key.integrity_key)]
    cells = (key.protocol, key.source, key.destination, spi, key.encryption, keys[0], key.integrity, keys[1])
    printable = ("".join(c for c in cell if c.isprintable() and c not in '"\\') for cell in cells)
    return ",".join(f'"{cell}"' for cell in printable)


def _join_lines(rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in rows)
