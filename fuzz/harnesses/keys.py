"""Key files: logs of charon and libreswan, Wireshark's tables, JSON, `tcpdump -E`, and pre-shared keys.

Any bytes are read or refused with one documented error. No text shows a key, and keys survive an export.
"""

from typing import Final

from fuzz.harness import Harness
from fuzz.mutators.text import mutate_text
from fuzz.workspace import write_file
from ikeanalyze.keys.detect import KeyFile, KeyFileError, read_keys
from ikeanalyze.keys.export import build_key_json, build_wireshark_tables
from ikeanalyze.keys.key_ring import KeyRing
from ikeanalyze.keys.key_set import (
    EspKey,
    KeySet,
    Phase1Key,
    compute_fingerprint,
    number_epochs,
    remove_repeated_key_sets,
)
from ikeanalyze.keys.psk import parse_pre_shared_keys

#: Bytes of the shortest key that is searched for in texts; shorter ones appear by chance.
_MIN_SECRET_BYTES: Final = 8


def run(data: bytes) -> None:
    """Read a file as keys and as pre-shared keys."""
    _run_psk(data)
    path = write_file("keys", data)
    try:
        file = read_keys(path)
    except KeyFileError:
        return
    _check_secrets(file)
    _check_export(file)
    KeyRing(file.key_sets).get_sa_keys(bytes(8), bytes(8)).decrypt(data, from_initiator=True)
    assert len(number_epochs(file.key_sets)) == len(file.key_sets)
    assert len(remove_repeated_key_sets(file.key_sets)) <= len(file.key_sets)


def _run_psk(data: bytes) -> None:
    try:
        secrets = parse_pre_shared_keys(data)
    except ValueError:
        return
    assert secrets
    assert all(secrets)


def _check_secrets(file: KeyFile) -> None:
    """No key is in a representation or warning."""
    secrets = [key for keys in file.key_sets for key in (keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar)]
    secrets += [key.key for key in file.phase1]
    secrets += [key for keys in file.esp for key in (keys.encryption_key, keys.integrity_key)]
    text = repr(file) + "".join(str(warning.message) for warning in file.warnings)
    text += "".join(map(repr, [*file.key_sets, *file.phase1, *file.esp]))
    for secret in secrets:
        # a key of one repeated byte may be equal to an SPI, which is shown
        if len(secret) >= _MIN_SECRET_BYTES and len(set(secret)) > 4:
            assert secret.hex() not in text.lower(), "a text shows a key"


def _check_export(file: KeyFile) -> None:
    """The keys that a JSON export is read with are those that were written."""
    written: list[KeySet | Phase1Key | EspKey] = [*file.key_sets, *file.phase1, *file.esp]
    build_wireshark_tables(file.key_sets, file.phase1, file.esp)
    again = read_keys(write_file("exported", build_key_json(file.key_sets, file.phase1, file.esp).encode()))
    read: list[KeySet | Phase1Key | EspKey] = [*again.key_sets, *again.phase1, *again.esp]
    assert list(map(compute_fingerprint, read)) == list(map(compute_fingerprint, written)), "an export changed keys"


HARNESS: Final = Harness(run, mutate_text, max_bytes=32768, share=0.1)
