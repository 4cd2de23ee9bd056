"""Decryption by the compiled core, against that by the key ring in Python: every cipher, and damaged captures."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from fuzz.equality import both, without_core
from ikeanalyze.analysis.decryption import decrypt
from ikeanalyze.analysis.decryption.payloads.columns import PayloadColumns
from ikeanalyze.analysis.decryption.payloads.forms import find_forms
from ikeanalyze.crypto.algorithms import HMAC_SHA2_256_96
from ikeanalyze.wire.registries.ikev2 import PayloadType
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity
from tests.analysis.decryption.encrypted_captures import (
    CIPHERS,
    RECORDED,
    SUITES,
    describe,
    list_macs,
    make_handshakes,
    make_handshakes_of_cipher,
    write,
)
from tests.paths import CAPTURES

#: What the core decrypts: the rest goes back to Python.
CIPHERS_OF_THE_CORE = {
    Encryption.AES_CBC, Encryption.AES_CTR, Encryption.AES_CCM_8, Encryption.AES_CCM_12, Encryption.AES_CCM_16,
    Encryption.AES_GCM_12, Encryption.AES_GCM_16, Encryption.CHACHA20_POLY1305,
}  # fmt: skip
MACS_OF_THE_CORE = {
    Integrity.HMAC_MD5_96, Integrity.HMAC_SHA1_96, Integrity.HMAC_MD5_128, Integrity.HMAC_SHA1_160,
    Integrity.HMAC_SHA2_256_128, Integrity.HMAC_SHA2_384_192, Integrity.HMAC_SHA2_512_256, HMAC_SHA2_256_96,
}  # fmt: skip


@pytest.fixture
def counted(monkeypatch):
    """How many messages the core decrypted in each call."""
    counts: list[int] = []

    def count(*arguments):
        done = decrypt_in_bulk(*arguments)
        counts.append(len(done.records))
        return done

    decrypt_in_bulk = decrypt.decrypt_in_bulk
    monkeypatch.setattr(decrypt, "decrypt_in_bulk", count)
    return counts


def are_equal(path: Path, keys: Path) -> bool:
    compiled, plain = both(lambda: describe(path, keys))
    return compiled == plain


@pytest.mark.parametrize(
    ("algorithm", "size"), CIPHERS, ids=[f"{algorithm.name}-{8 * size}" for algorithm, size in CIPHERS]
)
def test_every_cipher(algorithm, size, tmp_path, monkeypatch, counted):
    """With every integrity algorithm, in one capture."""
    by_mac = make_handshakes_of_cipher(monkeypatch, algorithm, size)
    path, keys = write(tmp_path, [sa for sas in by_mac.values() for sa in sas])
    compiled = describe(path, keys)
    with without_core():
        plain = describe(path, keys)
    assert not compiled[2]
    in_core = 0
    for mac, (name, sas) in zip(list_macs(algorithm), by_mac.items(), strict=True):
        put = {(sa.spi_i, key): put.plaintext for sa in sas for key, put in sa.inside.items()}
        of_compiled, of_plain = (
            [item for item in contents[0] if item.header[:8] in {sa.spi_i for sa in sas}]
            for contents in (compiled[0], plain[0])
        )
        opened = {
            (item.header[:8], (item.message_id, item.exchange_type, item.from_initiator, item.response)): item.plaintext
            for item in of_compiled
            if item.encrypted
        }
        assert opened == put, name
        assert of_compiled == of_plain, name
        if algorithm.transform in CIPHERS_OF_THE_CORE and (mac is None or mac.transform in MACS_OF_THE_CORE):
            in_core += len(put)
    assert counted[0] == in_core
    assert compiled == plain


@pytest.mark.parametrize("seed", range(30))
def test_damaged_captures_and_keys(seed, tmp_path, monkeypatch):
    choices = random.Random(seed)
    algorithm, size, mac = choices.choice(SUITES)
    path, keys = write(tmp_path, make_handshakes(monkeypatch, algorithm, size, mac))
    data = bytearray(path.read_bytes())
    for _ in range(choices.choice((1, 4, 20))):
        data[choices.randrange(60, len(data))] ^= 1 << choices.randrange(8)
    path.write_bytes(data)
    assert are_equal(path, keys)
    document = json.loads(keys.read_text())
    listed = document["key_sets"]
    choices.shuffle(listed)
    del listed[choices.randrange(len(listed))]
    changed = choices.choice(listed)
    changed["sk_ei"] = changed["sk_ei"][:-2] + ("00" if changed["sk_ei"][-2:] != "00" else "01")
    keys.write_text(json.dumps(document))
    assert are_equal(path, keys)


@pytest.mark.parametrize("seed", range(20))
def test_forms_of_payloads_of_any_kind(seed):
    choices = np.random.default_rng(seed)
    count = 400
    heap = choices.choice(np.array([0, 1, 14, 64, 255], np.uint8), 2_000)
    size = choices.integers(0, 40, count)
    types = np.array([PayloadType.SA, PayloadType.KE, PayloadType.NONCE, PayloadType.AUTH, PayloadType.NOTIFY,
                      PayloadType.CERTREQ, PayloadType.VENDOR_ID, 200], np.uint8)  # fmt: skip
    payloads = PayloadColumns(
        heap=heap,
        message=np.sort(choices.integers(0, 100, count)),
        type=choices.choice(types, count),
        critical=choices.random(count) < 0.1,
        begin=choices.integers(0, len(heap) - size - 4),
        size=size,
        starts=np.zeros(101, np.int64),
        regular=np.ones(100, np.bool_),
    )
    # of a NAT hash only the size counts
    hash_at = payloads.begin[payloads.type == PayloadType.NOTIFY]
    heap[hash_at + 2], heap[hash_at + 3] = 0x40, 4
    response = choices.random(100) < 0.5
    compiled, plain = both(lambda: find_forms(payloads, response))
    for found in (compiled, plain):
        assert found.form.max() < len(found.forms)
    assert [compiled.forms[form] for form in compiled.form] == [plain.forms[form] for form in plain.form]
    # the numbers may differ, but not which payloads have the same ones
    for name in ("form", "kind"):
        pairs = set(zip(getattr(compiled, name).tolist(), getattr(plain, name).tolist(), strict=True))
        assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_captures_with_keys_that_name_their_ike_sas(name, tmp_path, counted):
    (unnamed,) = CAPTURES.glob(f"**/{name}.keys.json")
    (path,) = unnamed.parent.glob(f"{name}.pcap*")
    contents, _, _ = describe(path, unnamed)
    used = {}
    for content in contents[0]:
        if content.keys is not None:
            spis = {"spi_i": content.header[:8].hex(), "spi_r": content.header[8:16].hex()}
            values = {name: getattr(content.keys, name).hex() for name in ("sk_ei", "sk_er", "sk_ai", "sk_ar")}
            used[*spis.values(), values["sk_ei"]] = spis | values
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(list(used.values())))
    counted.clear()
    data = path.read_bytes()
    assert are_equal(path, keys)
    assert counted[0] > 0
    for seed in range(6):
        choices, damaged = random.Random(seed), bytearray(data)
        for _ in range(choices.choice((1, 5, 30))):
            damaged[choices.randrange(60, len(data))] ^= 1 << choices.randrange(8)
        copy = tmp_path / "damaged"
        copy.write_bytes(damaged)
        assert are_equal(copy, keys)
