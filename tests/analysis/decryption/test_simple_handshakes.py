"""Handshakes with one key set, decrypted in Python at once, against the decryption of one message after the other."""

import json
import random
from pathlib import Path

import pytest

from ikeanalyze import core
from ikeanalyze.analysis.decryption import bulk_decryption, decrypt
from tests.analysis.decryption.encrypted_captures import RECORDED, SUITES, describe, make_handshakes, write
from tests.paths import CAPTURES


@pytest.fixture(autouse=True)
def without_core(monkeypatch):
    """tests/core compares with the compiled core."""
    monkeypatch.setattr(core, "compiled", None)


@pytest.fixture
def counted(monkeypatch):
    """How many messages were decrypted in each call."""
    counts: list[int] = []

    def count(*arguments):
        result = decrypt_simple_handshakes(*arguments)
        counts.append(len(result["last"]))
        return result

    decrypt_simple_handshakes = bulk_decryption.decrypt_simple_handshakes
    monkeypatch.setattr(bulk_decryption, "decrypt_simple_handshakes", count)
    return counts


def are_equal(path: Path, keys: Path) -> bool:
    at_once = describe(path, keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            decrypt, "decrypt_in_bulk", lambda *arguments: bulk_decryption._decrypt_nothing(len(arguments[3]))
        )
        one_by_one = describe(path, keys)
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
    ("algorithm", "size", "mac"),
    SUITES,
    ids=[f"{algorithm.name}-{8 * size}-{mac.name if mac else ''}" for algorithm, size, mac in SUITES],
)
def test_every_cipher(algorithm, size, mac, epoch, tmp_path, monkeypatch, counted):
    path, keys = write(tmp_path, make_handshakes(monkeypatch, algorithm, size, mac))
    keep_one_epoch(keys, epoch)
    assert are_equal(path, keys)
    assert counted[0] > 0


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
    assert max(counted) > 0
