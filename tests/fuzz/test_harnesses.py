"""Harnesses accept any bytes, and notice what they are there for."""

import struct
from functools import cache
from random import Random

import pytest

from fuzz import corpus
from fuzz.harness import NAMES, load_harness
from fuzz.harnesses import crypto, plaintexts, toml, wire
from fuzz.laws import check_analysis, check_text
from fuzz.parts import join_parts, split_parts
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.render import Format
from tests.analysis.analyse_captures import analyse
from tests.craft import Handshake, Trace
from tests.paths import CAPTURES

SEEDS = 12
make_seeds = cache(corpus.make_seeds)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", [b"", b"\0", bytes(64), b"\xff" * 64, bytes(range(256))], ids=len)
def test_any_bytes_are_an_input(name, data):
    load_harness(name).run(data)


@pytest.mark.parametrize("name", NAMES)
def test_seeds_and_their_mutations_find_nothing(name):
    harness, rng = load_harness(name), Random(1)
    seeds = list(make_seeds(name).values())
    for seed in rng.sample(seeds, SEEDS):
        harness.run(seed)
        harness.run(harness.mutate(seed, rng)[: harness.max_bytes])


@pytest.mark.parametrize("name", NAMES)
def test_mutations_depend_on_the_random_generator_alone(name):
    harness = load_harness(name)
    seed = next(iter(make_seeds(name).values()))
    first, second = ([harness.mutate(seed, Random(number)) for number in range(20)] for _ in range(2))
    assert first == second
    assert sum(mutated != seed for mutated in first) > 10


def test_every_parser_and_target_has_seeds():
    for name, count in (("wire", len(wire.PARSERS)), ("crypto", len(crypto.TARGETS)), ("toml", len(toml.LOADERS))):
        assert {seed[0] for seed in make_seeds(name).values()} == set(range(count))


def test_seeds_of_keys_have_keys(tmp_path):
    from ikeanalyze.keys.detect import KeyFileError, read_keys

    formats = set()
    for stem, seed in make_seeds("keys").items():
        path = tmp_path / stem
        path.write_bytes(seed)
        try:
            formats.update(read_keys(str(path)).formats)
        except KeyFileError:
            continue
    assert len(formats) >= 4, formats


def test_made_messages_are_those_that_the_product_makes():
    from ikeanalyze.crypto.sk_payload import MessageCipher

    for suite in range(len(crypto.SUITES)):
        for message in crypto.make_valid_messages(suite):
            decrypted = MessageCipher(crypto._make_keys(suite)).decrypt(message, from_initiator=True)
            assert decrypted is not None
            assert (decrypted.first, decrypted.plaintext) in crypto._PLAINTEXTS


def test_hostile_plaintexts_are_decrypted(tmp_path):
    """The messages of the made captures reach the analysis in clear, in one handshake."""
    path = tmp_path / "made.pcap"
    for seed in make_seeds("plaintexts").values():
        records = list(plaintexts.parse_records(seed))
        path.write_bytes(plaintexts.build_capture(iter(records)))
        analysis = read_captures(path, ReadOptions(keys=[plaintexts._KEY_FILE]))
        assert analysis.handshakes["spi_i"].to_list() == ["0123456789abcdef"]
        assert analysis.messages["decrypted"].any()


def test_records_of_plaintexts_survive_packing():
    record = plaintexts.PlaintextRecord(35, 8, 1, 39, 2, b"plaintext")
    assert list(plaintexts.parse_records(record.pack() * 2)) == [record, record]


def test_parts_survive_joining_and_damage():
    parts = [b"first", b"", b"third"]
    assert split_parts(join_parts(parts), 3) == parts
    assert split_parts(b"\xff\xff\xff\xffrest", 3) == [b"rest", b"", b""]


def test_laws_notice_a_lost_frame():
    trace = Trace()
    for number, message in enumerate(Handshake(1).setup()):
        trace.message(number * 1_000_000, message)
    analysis = analyse(trace)
    check_analysis(analysis)
    object.__setattr__(analysis, "frames", analysis.frames[1:])
    with pytest.raises(AssertionError):
        check_analysis(analysis)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Format.JSON, '{"value": NaN}'),
        (Format.JSON, "{"),
        (Format.JSONL, "{}\n{\n"),
        (Format.CSV, "a,b\n1\n"),
        (Format.TERMINAL, "\x1b[31mred\n"),
        (Format.MARKDOWN, "right to left \u202e\n"),
    ],
)
def test_laws_notice_unusable_output(form, text):
    with pytest.raises((AssertionError, ValueError)):
        check_text(form, text)


def test_wire_notices_an_unprintable_text(monkeypatch):
    monkeypatch.setattr(wire, "format_identity", lambda *_: "\x1b")
    with pytest.raises(AssertionError):
        wire.run(bytes([8, 2]) + b"gw.example")


def test_readers_notice_a_packet_that_is_not_counted(monkeypatch):
    from fuzz.harnesses import readers

    right = readers.read_frames

    def read_wrong(*arguments, **options):
        frames = right(*arguments, **options)
        frames.accounting["ike"] -= 1
        return frames

    data = (CAPTURES / "psk-classic.pcap").read_bytes()
    readers.run(data)
    monkeypatch.setattr(readers, "read_frames", read_wrong)
    with pytest.raises(AssertionError, match="packets are lost"):
        readers.run(data)


def test_captures_in_the_corpus_are_whole():
    """Shortening a capture leaves whole records: the lengths in the headers add up to the file."""
    for seed in make_seeds("readers").values():
        if seed[:4] == b"\xd4\xc3\xb2\xa1":
            place = 24
            while place < len(seed):
                place += 16 + struct.unpack_from("<I", seed, place + 8)[0]
            assert place == len(seed)
