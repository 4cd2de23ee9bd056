"""The compiled core finds the lines of a log that matter, and reads dumps as Python does."""

import random
from dataclasses import asdict
from typing import Any

import pytest

from ikeanalyze import core
from ikeanalyze.keys import text_blocks
from ikeanalyze.keys.detect import KeyFileError, read_keys
from tests.keys.mutated_logs import LAB_PATHS, MUTATIONS, PATHS, cut, load, read


def compare(blocks: list[list[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    with_core = read(blocks)
    with monkeypatch.context() as patch:
        patch.setattr(core, "compiled", None)
        assert with_core == read(blocks)


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name.removesuffix(".log.gz"))
def test_logs_give_the_same_keys_and_warnings(path, mutation, monkeypatch):
    chance = random.Random(f"{path.name} {mutation}")
    compare(cut(MUTATIONS[mutation](load(path), chance), chance), monkeypatch)


@pytest.mark.parametrize("path", LAB_PATHS, ids=lambda path: path.name.removesuffix(".log.gz"))
def test_logs_of_the_lab_give_the_same_keys_and_warnings(path, monkeypatch):
    chance = random.Random(path.name)
    lines = load(path)
    for _ in range(3):
        mutations = chance.choices(list(MUTATIONS.values()), k=2)  # one after another
        changed = lines
        for mutation in mutations:
            changed = mutation(list(changed), chance) or lines
        compare(cut(changed, chance), monkeypatch)


def test_whole_dumps_are_read_at_once():
    """Most dumps are, or else the core would gain nothing."""
    block = b"".join(load(next(path for path in PATHS if path.name.startswith("psk-classic"))))
    labels = [b"SKEYSEED", b"Sk_d secret", b"octets = message + nonce + prf(Sk_px, IDx')"]
    lines = core.compiled.find_log_lines(block, 0, labels, [])
    assert lines
    for start, text, end, number, is_message, dump in lines:
        label, data, indented = dump
        first, *rest = block[start:end].splitlines()
        assert first[text - start :].startswith(labels[label] + b" => %d bytes @ " % len(data))
        assert len(rest) == -(-len(data) // 16)
        assert (number, is_message, indented) == (block.count(b"\n", 0, start), False, False)
        assert b" ".join(b"%02X" % byte for byte in data[:16]) in rest[0]


@pytest.mark.parametrize("block", [1 << 12, 1 << 16])
@pytest.mark.parametrize("mutation", ["none", "no newline at the end", "swapped lines", "two daemons", "journal"])
def test_files_read_in_two_threads_give_the_same_keys_and_warnings(mutation, block, tmp_path, monkeypatch):
    """Blocks begin and end within dumps."""
    chance = random.Random(f"{mutation} {block}")
    path = tmp_path / "charon.log"
    for recorded in PATHS:
        path.write_bytes(b"".join(MUTATIONS[mutation](load(recorded), chance)))
        monkeypatch.setattr(text_blocks, "_BLOCK_BYTES", block)
        with monkeypatch.context() as patch:
            patch.setattr(core, "compiled", None)
            without_core = read_file(path)
        assert read_file(path) == without_core


def read_file(path) -> dict[str, Any] | str:
    try:
        return asdict(read_keys(str(path)))
    except KeyFileError as error:
        return str(error)
