"""Handshakes with one key set, decrypted in Python at once, against the decryption of one message after the other."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from ikeanalyze import core
from ikeanalyze.analysis.decryption import bulk_decryption, decrypt
from tests.analysis.decryption.encrypted_captures import (
    CIPHERS,
    RECORDED,
    SUITES,
    describe,
    make_handshakes,
    make_handshakes_of_cipher,
    write,
)
from tests.paths import CAPTURES


@pytest.fixture(autouse=True)
def without_core(monkeypatch):
    """tests/core compares with the compiled core."""
    monkeypatch.setattr(core, "compiled", None)


@pytest.fixture
def counted(monkeypatch):
    """How many messages of each handshake were decrypted in each call."""
    counts: list[list[int]] = []

    def count(*arguments):
        result = decrypt_simple_handshakes(*arguments)
        counts.append(np.diff(result["message_ends"], prepend=0).tolist())
        return result

    decrypt_simple_handshakes = bulk_decryption.decrypt_simple_handshakes
    monkeypatch.setattr(bulk_decryption, "decrypt_simple_handshakes", count)
    return counts


def read_both_ways(path: Path, keys: Path):
    """What is read when handshakes are decrypted at once, and when their messages are decrypted one by one."""
    at_once = describe(path, keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            decrypt, "decrypt_in_bulk", lambda *arguments: bulk_decryption._decrypt_nothing(len(arguments[3]))
        )
        return at_once, describe(path, keys)


def are_equal(path: Path, keys: Path) -> bool:
    at_once, one_by_one = read_both_ways(path, keys)
    return at_once == one_by_one


def keep_one_epoch(keys: Path, epoch: int) -> None:
    """Keep one key set of each IKE SA, as Wireshark's table does."""
    document = json.loads(keys.read_text())
    by_sa: dict[str, list[dict[str, str]]] = {}
    for key_set in document["key_sets"]:
        by_sa.setdefault(key_set["spi_i"], []).append(key_set)
    keys.write_text(json.dumps({**document, "key_sets": [key_sets[epoch] for key_sets in by_sa.values()]}))


def damage(path: Path, data: bytes, choices: random.Random) -> None:
    """Flip some bits of a capture."""
    damaged = bytearray(data)
    for _ in range(choices.choice((1, 5, 30))):
        damaged[choices.randrange(60, len(data))] ^= 1 << choices.randrange(8)
    path.write_bytes(damaged)


@pytest.mark.exhaustive
@pytest.mark.parametrize("epoch", [0, -1])
@pytest.mark.parametrize(
    ("algorithm", "size"), CIPHERS, ids=[f"{algorithm.name}-{8 * size}" for algorithm, size in CIPHERS]
)
def test_every_cipher(algorithm, size, epoch, tmp_path, monkeypatch, counted):
    """With every integrity algorithm, in one capture."""
    by_mac = make_handshakes_of_cipher(monkeypatch, algorithm, size)
    path, keys = write(tmp_path, [sa for sas in by_mac.values() for sa in sas])
    keep_one_epoch(keys, epoch)
    at_once, one_by_one = read_both_ways(path, keys)
    for name, sas in by_mac.items():
        left, right = (
            [item for item in contents[0] if item.header[:8] in {sa.spi_i for sa in sas}]
            for contents in (at_once[0], one_by_one[0])
        )
        assert left == right, name
    assert at_once == one_by_one
    assert len(counted[0]) == sum(map(len, by_mac.values()))
    assert all(counted[0])


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(30))
def test_damaged_captures(seed, tmp_path, monkeypatch):
    choices = random.Random(seed)
    path, keys = write(tmp_path, make_handshakes(monkeypatch, *choices.choice(SUITES)))
    keep_one_epoch(keys, choices.choice((0, -1)))
    damage(path, path.read_bytes(), choices)
    assert are_equal(path, keys)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_captures_with_one_key_set_of_each_ike_sa(name, tmp_path, counted):
    (unnamed,) = CAPTURES.glob(f"**/{name}.keys.json")
    (path,) = unnamed.parent.glob(f"{name}.pcap*")
    contents, _, _ = describe(path, unnamed)
    last = {}
    for content in contents[0]:
        if content.keys is not None:
            names = ("sk_ei", "sk_er", "sk_ai", "sk_ar")
            last[content.header[:16]] = {
                "spi_i": content.header[:8].hex(),
                "spi_r": content.header[8:16].hex(),
                **{name: getattr(content.keys, name).hex() for name in names},
            }
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(list(last.values())))
    assert are_equal(path, keys)
    for seed in range(6):
        damage(tmp_path / "damaged", path.read_bytes(), random.Random(seed))
        assert are_equal(tmp_path / "damaged", keys)
    assert max(map(sum, counted)) > 0
