"""Text that a peer, or whoever made the capture, chose reaches terminals, pages and spreadsheets as text only.

Each of many hostile texts is in all places of one capture: clear and encrypted payloads, with a key table for those,
interface name, packet comment and file name.
"""

import csv
import json
import os
import re
import struct
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.keys.detect import read_keys
from ikeanalyze.view.message_details import render_message
from ikeanalyze.view.session import CaptureSession
from tests.analysis.encrypted_handshakes import CHILD, Sa, table
from tests.craft import Interface, Message, Trace, eap, ike, pcapng_file

#: What is put in each place. MARK tells where it appears.
MARK = "INJ"
PAYLOADS = {
    "title": b"\x1b]0;INJ\x07",
    "screen": b"\x1b[2J\x1b[31mINJ",
    "C1 controls": "\x9b31mINJ\x9d0;x\x9c".encode(),
    "script": b"INJ</script><script>alert(1)</script>",
    "image": b"INJ\"'><img src=x onerror=alert(1)>",
    "svg": b"INJ<svg onload=alert(1)><!--",
    "formula": b"=cmd|'/C calc'!A0 INJ",
    "formula of a name": b"@SUM(1+1)*INJ",
    "markdown": b"INJ |[x](javascript:alert(1)) `**![x](//x)`\\",
    "NUL": b"INJ\0INJ",
    "override": "INJ\u202egnp.exe".encode(),
    "isolate": "INJ\u2066x\u2069\u200b\ufeff".encode(),
    "lines": "INJ\r\nikeanalyze: done\u2028x\u2029\x85\tx".encode(),
    "bytes": b"INJ\xff\xfe\xc3(\xed\xa0\x80",
    "private use": "INJ\ue000\U000f0000\U000e0041".encode(),
    "template": b"INJ{{7*7}}${7*7}<%= 7*7 %>#{7*7}",
    "format": b"INJ%s%n{0.__class__}{path!r:>9}",
    "SQL": b"INJ'; DROP TABLE handshakes; --",
}
#: Categories of Unicode of characters that a terminal could obey, or that hide or reorder others.
UNPRINTABLE = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
SIMPLE = ike.Proposal(
    [
        ike.Transform(ike.ENCR, ike.ENCR_AES_GCM_16, 256),
        ike.Transform(ike.PRF, ike.PRF_HMAC_SHA2_256),
        ike.Transform(ike.DH, ike.CURVE25519),
    ]
)
FQDN, RFC822, KEY_ID = 2, 3, 11
NOTIFICATION = 2  # type of EAP
PRIVATE_ERROR, PRIVATE_STATUS = 8192, 40960


def certificate(data: bytes) -> ike.Payload:
    """A certificate whose CN and O are these bytes; its signature is wrong, as of one that a stranger changed."""
    key = ec.derive_private_key(7, ec.SECP256R1())
    names = [x509.NameAttribute(oid, "?" * len(data)) for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)]
    builder = x509.CertificateBuilder(x509.Name(names), x509.Name(names), key.public_key(), 1)
    builder = builder.not_valid_before(datetime(2026, 1, 1)).not_valid_after(datetime(2027, 1, 1))
    der = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    return ike.CERT, b"\x04" + der.replace(b"?" * len(data), data)


def configuration(kind: int, data: bytes) -> ike.Payload:
    """A CP payload with an application version and a domain name (RFC 7296, section 3.15.1)."""
    entries = b"".join(struct.pack(">HH", attribute, len(data)) + data for attribute in (7, 25))
    return ike.CONFIGURATION, bytes([kind, 0, 0, 0]) + entries


def redirect(data: bytes) -> ike.Payload:
    """REDIRECT to a gateway by name (RFC 5685, section 7.2)."""
    return ike.notify(ike.REDIRECT, bytes([3, len(data)]) + data)


def eap_payload(code: int, identifier: int, kind: int, data: bytes) -> ike.Payload:
    return ike.EAP, eap.eap(code, identifier, kind, data)


def messages_with(data: bytes, sa: Sa) -> Iterator[Message]:
    """All messages of an IKE SA with these bytes wherever a peer may choose."""
    yield from sa.init()
    known = [ike.notify(PRIVATE_STATUS, data), (ike.VENDOR_ID, data), redirect(data)]
    yield from sa.swap(
        ike.IKE_AUTH,
        [
            ike.identification(ike.ID_I, data, FQDN),
            ike.identification(ike.ID_R, data, KEY_ID),
            (ike.CERTREQ, b"\x04" + data),
            configuration(1, data),
            *CHILD,
            *known,
        ],
        [
            ike.identification(ike.ID_R, data, RFC822),
            certificate(data),
            ike.auth(14, data),
            eap_payload(eap.REQUEST, 1, eap.IDENTITY, data),
        ],
    )
    yield from sa.swap(
        ike.IKE_AUTH,
        [eap_payload(eap.RESPONSE, 1, eap.IDENTITY, data)],
        [eap_payload(eap.REQUEST, 2, NOTIFICATION, data)],
    )
    yield from sa.swap(
        ike.IKE_AUTH, [eap_payload(eap.RESPONSE, 2, NOTIFICATION, b"")], [(ike.EAP, eap.eap(eap.SUCCESS, 2))]
    )
    yield from sa.swap(
        ike.IKE_AUTH, [ike.auth(2, data)], [ike.auth(2, data), configuration(2, data), *CHILD, redirect(data)]
    )
    padded = data + bytes(-len(data) % 4)
    spis = [padded[at : at + 4] for at in range(0, len(padded), 4)]
    yield from sa.swap(
        ike.INFORMATIONAL,
        [ike.delete(3, spis), ike.notify(ike.INVALID_SYNTAX, data), (ike.DELETE, data)],
        [ike.notify(PRIVATE_ERROR, data), (99, data)],
    )


@dataclass(frozen=True, slots=True)
class Hostile:
    """Names of a capture, of its key table and of a damaged one, relative to the current folder."""

    capture: str
    keys: str
    damaged: str


def names_of(data: bytes) -> Hostile:
    """Names that begin with these bytes, as far as a file system permits."""
    name = os.fsdecode(data.replace(b"\0", b"").replace(b"/", b""))
    return Hostile(f"{name}.pcapng", f"{name}.keys", f"{name}.damaged")


def write_hostile(data: bytes) -> None:
    """Write a capture with these bytes in all places, a key table for it, and a damaged one, to the current folder."""
    files = names_of(data)
    clear = [(ike.VENDOR_ID, data), ike.notify(PRIVATE_STATUS, data), redirect(data)]
    sa = Sa(1, proposals=[SIMPLE], notifies=clear)
    trace = Trace()
    trace.play(messages_with(data, sa))
    text = data.decode("utf-8", "surrogateescape")
    packets = [replace(packet, comment=text) for packet in trace.packets]
    Path(files.capture).write_bytes(pcapng_file.pcapng(packets, interfaces=[Interface(name=text)]))
    rows = table(*sa.key_sets)
    Path(files.keys).write_text(rows)
    wrong = rows.encode().replace(b"AES-GCM-256 with 16 octet ICV [RFC5282]", data)
    Path(files.damaged).write_bytes(rows.encode() + wrong + data + b"\n" + b"ikev2 I " + data + b"\n{" + data + b"}\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the hostile captures."""
    path = tmp_path_factory.mktemp("hostile")
    before = Path.cwd()
    os.chdir(path)
    for data in PAYLOADS.values():
        write_hostile(data)
    os.chdir(before)
    return path


@pytest.fixture
def hostile(folder, monkeypatch) -> list[Hostile]:
    """The hostile captures, all in the current folder."""
    monkeypatch.chdir(folder)
    return [names_of(data) for data in PAYLOADS.values()]


# ---- what output must not have


def find_unprintable(text: str) -> set[str]:
    """The characters of a text that are not for a terminal, other than line feeds."""
    return {c for c in text if c != "\n" and unicodedata.category(c) in UNPRINTABLE}


class Page(HTMLParser):
    """The tags of an HTML page, and the program text in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.program = ""
        self.text = ""
        self._in_program = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._in_program = tag == "style" or (tag == "script" and dict(attributes).get("type") != "application/json")

    def handle_endtag(self, tag):
        self._in_program = False

    def handle_data(self, data):
        if self._in_program:
            self.program += data
        else:
            self.text += data


def check_html(text: str) -> None:
    page = Page(text)
    names = {tag for tag, _ in page.tags}
    assert not names & {"img", "iframe", "object", "embed", "base", "link", "form"}
    values = [(name, value or "") for _, attributes in page.tags for name, value in attributes.items()]
    assert not [name for name, _ in values if name.startswith("on")]
    assert not [value for name, value in values if name in ("href", "src") and value.startswith("javascript:")]
    assert MARK not in page.program
    assert "alert(1)" not in page.program
    assert page.text.count("{{7*7}}") >= 1
    assert page.text.count("<img src=x onerror=alert(1)>") >= 1, "it is shown as text"


def check_markdown(text: str) -> None:
    """No markup but that of tables and headings: what begins a tag, link, image or code has a backslash before it."""
    plain = re.sub(r"\\.", "", text)
    assert MARK in plain
    assert not set(plain) & set("<>[]`")
    for before, line in zip(["", *plain.split("\n")], plain.split("\n"), strict=False):
        assert not (before.startswith("|") and line.startswith("|")) or before.count("|") == line.count("|")


def check_csv(text: str) -> None:
    """Each row has the columns of the head, and a cell that begins as a formula is a number."""
    head, *rows = csv.reader(StringIO(text))
    assert {len(row) for row in rows} == {len(head)}
    assert all(float(cell) <= 0 for row in rows for cell in row if cell[:1] in ("=", "+", "-", "@"))


def check_json(text: str) -> None:
    assert text.isascii()
    assert MARK in text
    for line in text.splitlines() if text.count("\n{") else [text]:
        json.loads(line)


CHECKS = {"html": check_html, "markdown": check_markdown, "csv": check_csv, "json": check_json, "jsonl": check_json}


def check(done, form: str, exit_code: int = 0) -> None:
    """The output of a command is printable, and what its format asks for."""
    assert done.exit_code == exit_code, done.stderr
    for stream in (done.stdout_bytes, done.stderr_bytes):
        assert find_unprintable(stream.decode("utf-8", "strict")) == set()
    assert "internal error" not in done.stderr
    assert all(line.startswith("ikeanalyze: ") for line in done.stderr.splitlines()), "a text makes no line of its own"
    if form in CHECKS:
        CHECKS[form](done.stdout)


def with_keys(hostile: list[Hostile]) -> list[str]:
    return [word for files in hostile for word in ("--keys", files.keys)]


# ---- the commands


def test_the_captures_have_the_texts_where_they_are_meant_to_be(hostile):
    """The browser shows the payloads of all messages, in clear and decrypted, each text on one line."""
    assert len(hostile) == len(PAYLOADS) == 18
    for files in hostile:
        keys = [read_keys(files.keys)]
        session = CaptureSession(files.capture, read_captures(files.capture, ReadOptions(keys=keys)), keys)
        lines = [
            line.text.plain
            for message in session.load_handshake(1).messages.values()
            for line in render_message(message)
        ]
        assert find_unprintable("\n".join(lines)) == set()
        assert not [line for line in lines if "\n" in line]
        assert sum("decrypted   yes" in line for line in lines) == 10
        marked = {line.split()[0].partition("(")[0] for line in lines if MARK in line}
        assert {"N", "IDi", "IDr", "CERT", "CP", "EAP", "identity", "text", "subject"} <= marked


@pytest.mark.parametrize("form", ["terminal", "json", "jsonl", "csv", "markdown", "html"])
def test_reports_are_harmless(run, hostile, form):
    captures = [files.capture for files in hostile]
    done = run("report", *captures, *with_keys(hostile), "--format", form, "--no-limit", "--verbose")
    check(done, form)
    assert MARK in done.stdout
    assert done.stderr.count(MARK) >= len(hostile)


@pytest.mark.parametrize("form", ["terminal", "json", "csv", "markdown", "html"])
def test_predictions_are_harmless(run, hostile, form):
    captures = [files.capture for files in hostile]
    arguments = ["--rtt", "10", "--runs", "2", "--format", form, "--no-limit"]
    check(run("predict", *captures, *with_keys(hostile), *arguments), form)


@pytest.mark.parametrize(
    ("form", "arguments"),
    [
        ("terminal", ["ladder", "CAPTURE", "--keys", "KEYS"]),
        ("terminal", ["verify", "CAPTURE", "--keys", "KEYS"]),
        ("json", ["verify", "CAPTURE", "--keys", "KEYS", "--format", "json"]),
        ("terminal", ["decrypt", "CAPTURE", "--keys", "KEYS", "-o", "out"]),
        ("terminal", ["overhead", "measure", "CAPTURE"]),
        ("json", ["overhead", "measure", "CAPTURE", "--format", "json"]),
        ("terminal", ["keys", "KEYS", "DAMAGED"]),
        ("json", ["keys", "KEYS", "DAMAGED", "--format", "json"]),
    ],
    ids=lambda value: " ".join(value[:1]) if isinstance(value, list) else value,
)
def test_commands_of_one_capture_are_harmless(run, hostile, form, arguments):
    for files in hostile:
        names = {"CAPTURE": files.capture, "KEYS": files.keys, "DAMAGED": files.damaged}
        check(run(*(names.get(word, word) for word in arguments), "--verbose"), form)


def test_names_of_files_that_cannot_be_read_are_harmless(run, hostile):
    for files in hostile:
        for name in (files.keys, files.damaged, f"{files.capture}.missing"):
            check(run("report", name), "terminal", exit_code=1)
        check(run("report", files.capture, "--keys", f"{files.keys}.missing"), "terminal", exit_code=3)


def test_datasets_are_harmless(run, hostile, tmp_path):
    """File names are labels of a dataset, and groups of a comparison."""
    captures = [files.capture for files in hostile]
    out = str(tmp_path / "dataset")
    arguments = ["-o", out, "--workers", "1", "--verbose", "--label", "{config}.pcapng"]
    done = run("batch", *captures, *arguments)
    check(done, "terminal", exit_code=3)
    assert "its path is not UTF-8" in done.stderr
    for form in ("terminal", "json", "csv", "markdown", "html"):
        check(
            run(
                "compare",
                out,
                "--by",
                "config",
                "--metric",
                "bytes",
                "--resamples",
                "100",
                "--format",
                form,
                "--no-limit",
            ),
            form,
        )
