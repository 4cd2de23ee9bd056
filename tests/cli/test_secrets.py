"""No secret of an IKE SA appears in anything that a command prints or writes without being asked for keys."""

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from ikeanalyze.cli.app import app
from ikeanalyze.view.message_details import inspect_payloads, list_message_facts, render_message
from tests.analysis.verify_recordings import changed_log
from tests.keys.dumps import log
from tests.paths import CAPTURES
from tests.view.driven import browsed

#: One with two epochs and AES-GCM, one with SK_ai and SK_ar.
NAMES = ("pq-mlkem768-psk", "psk-classic")
#: Dumps of the daemon's log that are secret.
LABELS = re.compile(r"(Sk_\w+ |key exchange |additional key exchange )?secret|SKEYSEED|prf\(secret, keypad\)")
#: Enough bytes of a secret to recognise it, and to count as a leak.
PIECE = 8


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, and how it could be written."""

    label: str
    value: bytes

    def forms(self) -> Iterator[bytes]:
        """Its first and its last bytes: raw, as base64 and as Python shows them. `leaked` knows its digits."""
        for piece in (self.value[:PIECE], self.value[-PIECE:]):
            yield piece
            yield repr(piece)[2:-1].encode()
            yield ", ".join(map(str, piece)).encode()
        whole = self.value[: len(self.value) // 3 * 3][:9]  # base64 of these is the same whatever follows
        yield base64.b64encode(whole)
        yield base64.urlsafe_b64encode(whole)


@cache
def secrets_of(name: str) -> tuple[Secret, ...]:
    """All secrets in the log of a recorded capture's daemon."""
    labels = {content: label for label, content in log(name) if content and LABELS.fullmatch(label)}
    return tuple(Secret(label, content) for content, label in labels.items())


def leaked(secrets: Iterable[Secret], data: bytes) -> set[str]:
    """Labels of the secrets that are in these bytes."""
    digits = re.sub(rb"[\s:,x|-]", b"", data.lower())
    runs = re.findall(rb"[0-9a-f]{%d,}" % (2 * PIECE), digits)
    pieces = {run[at : at + 2 * PIECE] for run in runs for at in range(len(run) - 2 * PIECE + 1)}
    result = set()
    for secret in secrets:
        hexed = secret.value.hex().encode()
        windows = {hexed[at : at + 2 * PIECE] for at in range(0, len(hexed) - 2 * PIECE + 1, 2)}
        if windows & pieces or any(form in data for form in secret.forms()):
            result.add(secret.label)
    return result


def capture_of(name: str) -> str:
    return str(CAPTURES / f"{name}.pcap")


def log_of(name: str) -> str:
    return str(CAPTURES / f"{name}.charon.log.gz")


def written(folder: Path) -> bytes:
    """All bytes of the files in a folder, those of tables read as well."""
    parts = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        parts += [str(path).encode(), path.read_bytes()]
        if path.suffix == ".parquet":
            table = pl.read_parquet(path)
            assert pl.Binary not in table.dtypes, "repr of the rows shows no raw bytes"
            parts.append(repr(table.rows()).encode())
    return b"\n".join(parts)


def test_the_logs_have_all_kinds_of_secrets():
    labels = ["Sk_d", "Sk_ei", "Sk_er", "Sk_pi", "Sk_pr", "key exchange", ""]
    for name, more in (("pq-mlkem768-psk", []), ("psk-classic", ["Sk_ai", "Sk_ar"])):
        known = [secret.label for secret in secrets_of(name)]
        assert {f"{label} secret".strip() for label in labels + more} <= set(known)
        assert "SKEYSEED" in known
        assert b"swordfish" in [secret.value for secret in secrets_of(name)]
    # two epochs of SKEYSEED, a shared secret and five keys; the PSK and what AUTH is made with
    assert len(secrets_of("pq-mlkem768-psk")) == 2 * (1 + 1 + 5) + 2
    assert len(secrets_of("psk-classic")) == 1 + 1 + 7 + 2


@pytest.mark.parametrize("name", NAMES)
def test_each_form_of_a_secret_is_recognised(name):
    for secret in secrets_of(name):
        value = secret.value
        encoded = base64.b64encode(value)
        shown = repr({"key": value}).encode()
        digits = value.hex(), value.hex().upper(), value.hex(" "), value.hex(":")
        for text in (value, encoded, shown, *(text.encode() for text in digits)):
            assert secret.label in leaked(secrets_of(name), b"key=" + text + b"\n")


def test_secrets_are_recognised_where_they_are_asked_for(run):
    shown = run("keys", log_of(NAMES[0]), "--show-secrets").stdout.encode()
    exported = run("keys", log_of(NAMES[0]), "--to", "json", "--show-secrets").stdout.encode()
    for text in (shown, exported):
        assert {"Sk_ei secret", "Sk_er secret"} <= leaked(secrets_of(NAMES[0]), text)


#: Each command with keys; FILE is written to.
COMMANDS = {
    **{
        f"report {form}": ("report", "CAPTURE", "--keys", "LOG", "--format", form, "--no-limit", "-o", "FILE")
        for form in ("json", "jsonl", "csv", "markdown", "html", "parquet")
    },
    "report": ("report", "CAPTURE", "--keys", "LOG", "--no-limit"),
    "ladder": ("ladder", "CAPTURE", "--keys", "LOG"),
    "decrypt": ("decrypt", "CAPTURE", "--keys", "LOG", "-o", "FILE.pcapng"),
    "verify": ("verify", "CAPTURE", "--keys", "LOG"),
    "verify json": ("verify", "CAPTURE", "--keys", "LOG", "--format", "json"),
    "verify failed": ("verify", "CAPTURE", "--keys", "CHANGED", "--format", "json", "-o", "FILE"),
    "verify psk": ("verify", "CAPTURE", "--keys", "LOG", "--psk", "PSK"),
    "keys": ("keys", "LOG", "JSON"),
    "keys json": ("keys", "LOG", "JSON", "--format", "json"),
    "keys refused": ("keys", "LOG", "--to", "wireshark"),
    "predict": ("predict", "CAPTURE", "--keys", "LOG", "--rtt", "10", "--runs", "20", "--format", "json"),
    "batch": ("batch", "CAPTURE", "--keys", "LOG", "-o", "FILE", "--workers", "1"),
}


@pytest.fixture
def journal_kept(monkeypatch):
    """`batch` leaves its journal in the dataset, as if it had been killed right before deleting it."""
    unlink = Path.unlink

    def keep(path: Path, missing_ok: bool = False) -> None:
        if path.name != "journal.jsonl":
            unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", keep)


@pytest.mark.usefixtures("journal_kept")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_with_keys_shows_and_writes_no_secret(run, tmp_path, command, name):
    (tmp_path / "psk").write_text("swordfish\n")
    out = tmp_path / "out"
    out.mkdir()
    paths = {"CAPTURE": capture_of(name), "LOG": log_of(name), "JSON": str(CAPTURES / f"{name}.keys.json")}
    paths["PSK"] = str(tmp_path / "psk")
    if "CHANGED" in COMMANDS[command]:
        paths["CHANGED"] = str(changed_log(name, tmp_path / "log", "key exchange secret"))
    arguments = [
        str(out / word.replace("FILE", "file")) if word.startswith("FILE") else paths.get(word, word)
        for word in COMMANDS[command]
    ]
    done = run(*arguments, "--verbose")
    expected = {"keys refused": 2, "verify failed": 1}.get(command, 0)
    assert done.exit_code == expected, done.stderr
    shown = (done.stdout + done.stderr).encode() + written(out)
    assert len(shown) > 100
    assert command != "batch" or (out / "file" / "journal.jsonl").stat().st_size
    assert leaked(secrets_of(name), shown) == set()
    assert b"swordfish" not in shown


@pytest.mark.parametrize("name", NAMES)
def test_the_browser_shows_no_secret(name):
    session = browsed(f"{name}.pcap", f"{name}.charon.log.gz")
    lines = []
    for message in session.load_handshake(1).messages.values():
        lines += [line.text.plain for line in render_message(message)]
        lines += [repr(list_message_facts(message)), repr(inspect_payloads(message))]
    text = "\n".join(lines)
    assert "IDi" in text
    assert leaked(secrets_of(name), text.encode()) == set()
    assert leaked(secrets_of(name), repr(session).encode()) == set()


# ---- key files that cannot be used as they are

#: What happens to each key of a file, such that the rest of it stays readable.
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda digits: digits[: len(digits) // 2],
    "odd": lambda digits: digits[:-1],
    "long": lambda digits: digits + b"00",
    "foreign": lambda digits: digits[:-2] + b"zz",
    "quoted": lambda digits: b'"' + digits,
    "comma": lambda digits: digits + b",",
    "control": lambda digits: digits[:-3] + b"\0\x1b" + digits[-2:],
    "undecodable": lambda digits: digits[:-3] + b"\xff" + digits[-2:],
    "doubled": lambda digits: digits * 2,
    "spaced": lambda digits: digits[:-4] + b"  " + digits[-4:],
}
#: Hexadecimal digits of a key: a row of charon's dump, or all in one.
KEY = re.compile(rb"(?:[0-9A-F]{2} ){8,}|[0-9A-Fa-f]{32,}")
#: Damage that no format takes for a key.
NOTICED = ("foreign", "quoted", "control", "undecodable")


@cache
def key_file(kind: str) -> bytes:
    """A key file of each format with keys of the first capture."""
    keys = json.loads((CAPTURES / f"{NAMES[0]}.keys.json").read_text())
    sk_ei, sk_er = keys[0]["Sk_ei"], keys[0]["Sk_er"]
    spis = "904a132d2b087803", "f2748b73dae9f971"  # as tshark shows them
    match kind:
        case "charon":
            return gzip.decompress(Path(log_of(NAMES[0])).read_bytes())
        case "table":
            names = '"AES-GCM-256 with 16 octet ICV [RFC5282]",,,"NONE [RFC4306]"'
            return f"{','.join(spis)},{sk_ei},{sk_er},{names}\n".encode()
        case "table of IKEv1":
            return f"{spis[0]},{sk_ei}\n".encode()
        case "tcpdump":
            sides = ("I", sk_ei), ("R", sk_er)
            return "".join(
                f"ikev2 {side} 0x{spis[0]} 0x{spis[1]} none: aes_gcm_16256:0x{key}\n" for side, key in sides
            ).encode()
        case "plain json":
            return json.dumps(keys).encode()
        case _:
            arguments = ["keys", log_of(NAMES[0]), "--to", "json", "--show-secrets"]
            return CliRunner().invoke(app, arguments).stdout.encode()


@pytest.mark.parametrize("kind", ["charon", "table", "table of IKEv1", "tcpdump", "plain json", "json"])
def test_a_damaged_key_file_is_not_quoted(run, tmp_path, kind):
    text, secrets = key_file(kind), secrets_of(NAMES[0])
    assert leaked(secrets, text)
    for damage, change in DAMAGE.items():
        path = tmp_path / f"{damage}.keys"
        path.write_bytes(KEY.sub(lambda match, change=change: change(match[0]), text))
        for command in (("keys", str(path)), ("report", capture_of(NAMES[0]), "--keys", str(path))):
            done = run(*command, "--verbose")
            shown = (done.stdout + done.stderr).encode()
            assert leaked(secrets, shown) == set(), damage
            assert b"swordfish" not in shown
            assert "internal error" not in done.stderr
            assert damage not in NOTICED or str(path) in done.stderr, damage
