"""The plugin reads damaged key files as Python does: cut logs and tables, and logs that lack or repeat lines."""

import gzip
import re
from pathlib import Path

import pytest

from ikeanalyze.keys.collector import KeyCollector
from ikeanalyze.keys.text_reader import TextReader
from tests.analysis.encrypted_handshakes import Sa, table
from tests.craft import ike
from tests.dissectors.run_plugin import PLUGIN
from tests.keys.mutated_logs import Blocks
from tests.paths import CAPTURES

SCRIPT = Path(__file__).with_name("key_files.lua")
NAMES = ("sk_ei", "sk_er", "sk_ai", "sk_ar")
STARTING = b"00[DMN] Starting IKE charon daemon (strongSwan 6.0.1, Linux, x86_64)\n"


def read_in_plugin(tshark, texts):
    """The keys of each text in hexadecimal digits, and whether something is wrong with it."""
    names = [f"keys{number}" for number in range(len(texts))]
    files = {"ikex": PLUGIN / "ikex", "cases": "\n".join(names) + "\n"} | dict(zip(names, texts, strict=True))
    done = tshark.run("-q", capture=CAPTURES / "psk-classic.pcap", lua=[SCRIPT], files=files)
    assert done.stderr == ""
    return [(keys.split(), problems != "0") for keys, _, problems in (line.rpartition(";") for line in done.lines)]


def read_in_python(text):
    collector = KeyCollector("x")
    TextReader(collector).read(Blocks([text.splitlines(keepends=True)]))
    values = [getattr(keys, name) for keys in collector.join_key_sets() for name in NAMES]
    values += [key.key for key in collector.phase1]
    return [value.hex() for value in values if value]


def agree(tshark, texts):
    for text, (keys, _) in zip(texts, read_in_plugin(tshark, texts), strict=True):
        assert keys == read_in_python(text), text[-200:]


def log_of(name):
    """The part of a log with the first keys, and some lines after them."""
    log = gzip.decompress((CAPTURES / f"{name}.charon.log.gz").read_bytes()).splitlines(keepends=True)
    first, last = (
        next(n for n, line in enumerate(log) if re.search(text, line)) for text in (rb"nonces =>", rb"Sk_pr ")
    )
    return log[first - 2 : last + 7]


@pytest.mark.turns
@pytest.mark.parametrize("name", ["psk-classic", "pq-mlkem768-psk", "invalid-ke"])
def test_logs_of_charon_that_are_cut(tshark, name):
    """At the end, or where the daemon starts again and continues the line."""
    log = b"".join(log_of(name))
    ends = range(0, len(log), 13)
    agree(tshark, [log[:end] + after for after in (b"", b"\n", STARTING, b"1795245670 " + STARTING) for end in ends])


@pytest.mark.turns
@pytest.mark.parametrize("name", ["psk-classic", "pq-mlkem768-psk", "invalid-ke"])
def test_logs_of_charon_that_lack_or_repeat_lines(tshark, name):
    log = log_of(name)
    lost = [b"".join(log[:number] + log[number + 1 :]) for number in range(len(log))]
    repeated = [b"".join(log[: number + 1] + log[number:]) for number in range(len(log))]
    agree(tshark, lost + repeated)


def test_the_plugin_reports_keys_that_a_log_lacks(tshark):
    """The second keys of a log are cut before those of the responder, or lack the label of one dump."""
    log = gzip.decompress((CAPTURES / "pq-mlkem768-psk.charon.log.gz").read_bytes()).splitlines(keepends=True)
    labels = [number for number, line in enumerate(log) if b"Sk_er secret" in line]
    lacking = [log[: labels[1]], log[: labels[1]] + log[labels[1] + 1 :]]
    found = read_in_plugin(tshark, [b"".join(log), *map(b"".join, lacking)])
    assert [(len(keys), has_problem) for keys, has_problem in found] == [(4, False), (2, True), (2, True)]


@pytest.mark.turns
def test_logs_of_libreswan_that_are_cut(tshark):
    log = gzip.decompress((CAPTURES / "tcp-psk.pluto.log.gz").read_bytes()).splitlines(keepends=True)
    rows = b"".join(line for line in log if b"ikev2 I 0x" in line or b"ikev2 R 0x" in line)
    agree(tshark, [b"| pluto\n" + rows[:end] + after for end in range(len(rows)) for after in (b"", b"| pluto\n")])


@pytest.mark.turns
def test_tables_of_wireshark_that_are_cut(tshark):
    """Of IKEv2, of which two columns look like a row of IKEv1, and of IKEv1."""
    rows = table(*Sa(1).key_sets, *Sa(2, proposals=(ike.CLASSIC,)).key_sets).encode()
    first = rows.index(b"\n") + 1
    phase1 = b"904a132d2b087803," + b"a5" * 32 + b"\n"
    texts = [rows[:end] for end in range(first, len(rows))]
    texts += [phase1[:end] for end in range(1, len(phase1)) if end % 16 or end < 33]
    agree(tshark, texts)
