import bz2
import gzip
import io
import json
import lzma
import os
import sys
from contextlib import suppress

import pytest
import zstandard

from ikeanalyze.keys.detect import KeyFileError, read_keys
from ikeanalyze.keys.json_keys import build_key_document
from tests.keys.logs_of import LOGS, RECORDED, expected, lines, plain
from tests.keys.test_text_blocks import SmallReads
from tests.keys.wrapped_logs import WRAPPED, export_journal
from tests.paths import CAPTURES

KEY = "00112233445566778899aabbccddeeff"
ROW = f'904a132d2b087803,f2748b73dae9f971,{KEY},{KEY},"AES-CBC-128 [RFC3602]",,,"NONE [RFC4306]"\n'
LOG = b"\n".join(lines("pq-mlkem768-psk.charon")) + b"\n"


@pytest.fixture
def file(tmp_path):
    def make(content: bytes | str) -> str:
        path = tmp_path / "keys"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return make


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("end", ["charon.log.gz", "keys.json"])
def test_recorded_key_files_are_detected(name, end):
    keys = read_keys(str(CAPTURES / f"{name}.{end}"))
    assert plain(keys.key_sets) == expected(name)
    assert keys.warnings == []
    assert (keys.log is None) == (end == "keys.json")


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (ROW, "Wireshark ikev2_decryption_table"),
        ("# mine\n\n" + ROW, "Wireshark ikev2_decryption_table"),
        (f"904a132d2b087803,{KEY}\n", "Wireshark ikev1_decryption_table"),
        ('"IPv4","*","*","0x1","NULL","","NULL",""\n', "Wireshark esp_sa"),
        (LOG, "charon log"),
        ((LOGS / "libreswan-4.10.secrets").read_bytes(), "tcpdump -E secrets"),
        ('{"schema": "ikeanalyze.keys/1", "key_sets": [{"sk_ei": "00"}]}', "ikeanalyze JSON"),
        (' \n [ {"Sk_ei": "00", "Sk_er": "01"} ]', "list of key sets in JSON"),
    ],
)
def test_the_format_is_found_by_content(file, content, form):
    assert read_keys(file(content)).formats == (form,)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\0\n"),
        lambda data: b"\xff\xfe".join(data.split(b"\n\n")).replace(b"\n", b"\n\xe9\xff\n"),
        lambda data: data.decode().encode("utf-16"),
        gzip.compress,
        lambda data: gzip.compress(data[:5000]) + gzip.compress(data[5000:]),
        lambda data: zstandard.compress(data),
        lambda data: zstandard.compress(data[:5000]) + zstandard.compress(data[5000:]),
        lambda data: b"x" * 200_000 + b"\n" + data,
        lzma.compress,
        lambda data: lzma.compress(data[:5000]) + bytes(8) + lzma.compress(data[5000:]),
        bz2.compress,
        lambda data: bz2.compress(data[:5000]) + bz2.compress(data[5000:]),
    ],
)
def test_ways_to_write_a_log(file, change):
    assert plain(read_keys(file(change(LOG))).key_sets) == expected("pq-mlkem768-psk")


def test_a_compression_that_this_python_lacks(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "lzma", None)
    with pytest.raises(KeyFileError, match=r"compressed, and this Python has no lzma; decompress it first"):
        read_keys(file(lzma.compress(LOG)))


@pytest.mark.parametrize("wrap", WRAPPED)
@pytest.mark.parametrize("name", ["pq-mlkem768-psk.charon", "libreswan-4.10-cbc.i", "charon-5.9.8-rekeys.r"])
def test_logs_of_containers_and_machines(file, wrap, name):
    log = lines(name)
    plain_log = read_keys(file(b"\n".join(log) + b"\n"))
    keys = read_keys(file(WRAPPED[wrap](log)))
    assert [(k.spi_i, k.spi_r, k.encryption) for k in keys.key_sets] == [
        (k.spi_i, k.spi_r, k.encryption) for k in plain_log.key_sets
    ]
    assert plain(keys.key_sets) == plain(plain_log.key_sets)
    assert [k.origin.line for k in keys.key_sets] == [k.origin.line for k in plain_log.key_sets]
    assert (keys.formats, keys.warnings) == (plain_log.formats, plain_log.warnings)


@pytest.mark.parametrize("name", ["journalctl-252.json", "journalctl-252-all.json", "journalctl-252.verbose"])
def test_what_journalctl_writes(file, name):
    """charon-systemd's journal, and without --all what journalctl leaves out of it: octets of AUTH."""
    content = gzip.decompress((LOGS / f"{name}.gz").read_bytes())
    keys = read_keys(file(content))
    assert plain(keys.key_sets) == expected("pq-mlkem768-psk")
    assert [k.spi_i for k in keys.key_sets] == [bytes.fromhex("904a132d2b087803")] * 2
    assert [str(warning).partition(": ")[2] for warning in keys.warnings] == (
        ["journalctl left out messages of more than 4,096 bytes; it writes them with --all (2)"]
        if name == "journalctl-252.json"
        else []
    )
    for key_set in keys.key_sets:  # the line of the file has the SK_d that begins the keys
        line = content.splitlines()[key_set.origin.line - 1]
        assert b"Sk_d secret => 48 bytes" in line


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_the_export_format_of_the_journal(file, monkeypatch, block):
    """In blocks that are cut anywhere."""
    monkeypatch.setattr("ikeanalyze.keys.text_blocks._BLOCK_BYTES", block)
    entries = gzip.decompress((LOGS / "journalctl-252-all.json.gz").read_bytes()).splitlines()
    wanted = [line for line in entries if b" secret => " in line] if block == 1 else entries
    content = export_journal(wanted)
    keys = read_keys(file(content))
    assert plain(keys.key_sets) == expected("pq-mlkem768-psk")
    assert keys.formats == ("charon log",)
    assert keys.warnings == []
    for key_set in keys.key_sets:
        assert b"Sk_d secret => 48 bytes" in content.split(b"\n")[key_set.origin.line - 1]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_json_in_the_encodings_of_windows(file, encoding):
    """Windows PowerShell writes redirected output in UTF-16, and editors begin UTF-8 with a byte order mark."""
    text = json.dumps([{"Sk_ei": "11" * 32, "Sk_er": "22" * 32}], indent=2).replace("\n", "\r\n")
    data = (b"\xff\xfe" if encoding == "utf-16-le" else b"") + text.encode(encoding)
    (keys,) = read_keys(file(data)).key_sets
    assert (keys.sk_ei, keys.sk_er) == (b"\x11" * 32, b"\x22" * 32)


def test_several_formats_in_one_file(file):
    keys = read_keys(file(LOG + b"some other line\n" + ROW.encode() + (LOGS / "libreswan-4.10.secrets").read_bytes()))
    assert keys.formats == ("Wireshark ikev2_decryption_table", "tcpdump -E secrets", "charon log")
    assert len(keys.key_sets) == 1 + 5 + 2
    assert [w.line for w in keys.warnings] == [n + LOG.count(b"\n") + 2 for n in (3, 9)]  # salts


def test_what_is_no_row_among_rows(file):
    keys = read_keys(file("header\n" + ROW + "rubbish, more\n# comment\n"))
    assert [(w.line, w.message) for w in keys.warnings] == [(n, "not a row of a key table; not used") for n in (1, 3)]


def test_warnings_are_bounded(file):
    keys = read_keys(file(ROW + "rubbish\n" * 1000))
    assert len(keys.warnings) == 101
    assert keys.warnings[-1].message == "900 more warnings"


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_compressed_data_that_ends_too_early(file, compress):
    more = b"\n".join(os.urandom(50).hex().encode() for _ in range(5000))  # blocks of zstd have 128 KiB
    keys = read_keys(file(compress(LOG + more)[:-200]))
    assert plain(keys.key_sets) == expected("pq-mlkem768-psk")
    assert "the compressed data ends too early" in keys.warnings[-1].message


def test_damaged_compressed_data(file):
    data = bytearray(gzip.compress(LOG * 20))
    data[-2000] ^= 0xFF
    keys = read_keys(file(bytes(data)))
    assert plain(keys.key_sets)[:2] == expected("pq-mlkem768-psk")
    assert any("compressed data" in w.message for w in keys.warnings)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"", mtime=0), "contains no key"),
        (b"some text\n", "contains no key. Supported are"),
        (bytes(range(256)) * 20, "contains no key. The file is not text"),
        (b"09[IKE] initiating IKE_SA c[1]\n", "it has keys if its filelog section sets ike = 4"),
        (
            b"Nov 21 10:53:36: Starting Pluto (Libreswan Version 4.10)\n",
            "it has keys of IKEv2 with plutodebug=private (all does not include it); libreswan 5.2 logs none of IKEv1",
        ),
        (ROW.replace(KEY, KEY[2:], 1), "contains no usable key. Line 1: SK_ei has 15 bytes"),
        (b'{"schema": "ikeanalyze.keys/1"}', "contains no key. JSON with keys has the schema"),
        (b'{"schema": "ikeanalyze.keys/7"}', "unsupported schema, expected ikeanalyze.keys/1"),
        (b'{"a": ', "contains no usable key. Line 1: invalid JSON"),
        (b"[" * 100_000, "begins as JSON"),
        (b'{"\xff": 1}', "begins as JSON"),
        (b"PK\x03\x04" + bytes(range(256)), "contains no key. The file is compressed or an archive, but not with gzip"),
        (
            b"__CURSOR=s=0\nMESSAGE=09[IKE] initiating IKE_SA c[1]\n",
            "it has keys if its filelog section sets ike = 4",
        ),
        (b"__CURSOR=s=0\nMESSAGE=some text\n", "contains no key. Supported are"),
        (b'{"log":"some text\\n"}\n', "contains no key. Supported are"),
        (b'{"log":"09[IKE] initiating IKE_SA c[1]\\n"}\n', "it has keys if its filelog section sets ike = 4"),
        (b"[12:00] some text\n", "contains no key. Supported are"),
        ((CAPTURES / "psk-classic.pcap").read_bytes(), "is a capture"),
        (gzip.compress((CAPTURES / "eap-md5-radius.pcapng").read_bytes(), mtime=0), "is a capture"),
    ],
)
def test_files_without_keys_are_an_error(file, content, why):
    path = file(content)
    with pytest.raises(KeyFileError) as caught:
        read_keys(path)
    text = str(caught.value)
    assert text.startswith(path)
    assert why in text
    assert "\n" not in text
    assert KEY[2:] not in text


def test_paths_that_are_no_files(tmp_path):
    for path, why in (
        (tmp_path, "is a directory"),
        (tmp_path / "x", "no such file"),
        ("", '^"": no such file'),
        ("a\0b", "cannot be opened"),
    ):
        with pytest.raises(KeyFileError, match=why):
            read_keys(str(path))


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(gzip.compress(LOG)))))
    keys = read_keys("-")
    assert keys.path == "standard input"
    assert plain(keys.key_sets) == expected("pq-mlkem768-psk")
    assert not sys.stdin.closed
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(KeyFileError, match="is closed"):
        read_keys("-")


@pytest.mark.parametrize("size", [1, 100, 5000, 1 << 20])
@pytest.mark.parametrize("name", ["docker, json-file", "keys", "list"])
def test_the_first_piece_of_a_pipe_may_be_short(monkeypatch, size, name):
    data = WRAPPED["docker, json-file"](lines("pq-mlkem768-psk.charon"))
    if name != "docker, json-file":
        key_file = read_keys(str(CAPTURES / "pq-mlkem768-psk.keys.json"))
        document = build_key_document(key_file.key_sets, [], [])
        data = json.dumps(document if name == "keys" else document["key_sets"]).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(SmallReads(data, size))))
    assert plain(read_keys("-").key_sets) == expected("pq-mlkem768-psk")


def test_the_repr_has_no_secret():
    text = repr(read_keys(str(CAPTURES / "pq-mlkem768-psk.charon.log.gz"))).lower()
    assert "charon log" in text
    assert all(value not in text for keys in expected("pq-mlkem768-psk") for value in keys.values())


@pytest.mark.parametrize("name", ["pq-mlkem768-psk.charon", "charon-5.9.8-ikev1.i", "libreswan-4.10-cbc.i"])
def test_any_beginning_of_a_log(file, name):
    log = b"\n".join(lines(name))
    for end in range(0, len(log), max(1, len(log) // 60)):
        with suppress(KeyFileError):
            assert read_keys(file(log[:end])).key_sets is not None
