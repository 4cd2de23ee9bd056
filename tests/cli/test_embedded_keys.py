"""`ikeanalyze keys --embed`: a copy of a capture with its keys, which other commands read if it is named in --keys."""

import json
import stat
from pathlib import Path

import pytest

from tests.paths import CAPTURES, LAB_CAPTURES

CAPTURE, LOG = str(CAPTURES / "pq-mlkem768-psk.pcap"), str(CAPTURES / "pq-mlkem768-psk.charon.log.gz")
LAB, LAB_KEYS = str(LAB_CAPTURES / "psk.pcapng"), str(LAB_CAPTURES / "psk.keys.json")


@pytest.fixture
def embed(run, tmp_path):
    """Embeds keys in a copy; its path."""

    def invoke(capture, *keys, name="out.pcapng"):
        out = tmp_path / name
        done = run("keys", *keys, "--embed", capture, "-o", str(out))
        assert (done.exit_code, done.stdout) == (0, ""), done.stderr
        return out

    return invoke


def list_secrets(run, tmp_path, *keys):
    """The values of keys, as hex digits."""
    path = tmp_path / "secrets.json"
    assert run("keys", *keys, "--to", "json", "-o", str(path)).exit_code == 0
    return [row[name] for row in json.loads(path.read_text())["key_sets"] for name in ("sk_ei", "sk_er") if row[name]]


@pytest.mark.parametrize(("capture", "keys"), [(CAPTURE, LOG), (LAB, LAB_KEYS)], ids=["pcap", "pcapng"])
def test_keys_are_used_if_the_capture_is_named_in_keys(run, embed, capture, keys):
    out = embed(capture, keys)
    before = run("report", capture, "--keys", keys, "--format", "json").stdout
    after = run("report", str(out), "--keys", str(out), "--format", "json").stdout
    assert json.loads(after)["totals"] == json.loads(before)["totals"]
    assert json.loads(after)["handshakes"][0]["outcome"] == "established"
    without = json.loads(run("report", str(out), "--format", "json").stdout)
    assert without["handshakes"][0]["outcome"] == "completed"  # not used unless asked for


def test_only_the_owner_can_read_the_copy(embed):
    assert stat.S_IMODE(embed(CAPTURE, LOG).stat().st_mode) == 0o600


def test_no_output_shows_the_keys(run, embed, tmp_path):
    out = embed(CAPTURE, LOG)
    secrets = list_secrets(run, tmp_path, LOG)
    assert len(secrets) == 4
    assert all(secret.encode() in out.read_bytes() for secret in secrets)
    for command in (
        ("keys", str(out)),
        ("report", str(out), "--keys", str(out)),
        ("keys", str(out), "--format", "json"),
    ):
        done = run(*command, "--verbose") if command[0] == "report" else run(*command)
        assert done.exit_code == 0
        assert not [secret for secret in secrets if secret in done.stdout + done.stderr]


def test_only_keys_that_decrypt_the_capture_are_embedded(run, embed, tmp_path):
    out = embed(CAPTURE, LOG, LAB_KEYS)
    others = list_secrets(run, tmp_path, LAB_KEYS)
    assert not [secret for secret in others if secret.encode() in out.read_bytes()]
    assert b"charon" not in out.read_bytes()  # the names of the key files
    assert b'sk_pi": null' in out.read_bytes()


def test_copies_of_a_copy(run, embed, tmp_path):
    """Keys are replaced by new ones; extract and anonymize leave them out."""
    out = embed(LAB, LAB_KEYS)
    again = embed(str(out), str(out), name="again.pcapng")
    assert again.read_bytes().count(b"ikeanalyze.keys/1") == 1
    for command in ("extract", "anonymize"):
        path = tmp_path / f"{command}.pcapng"
        assert run(command, str(out), "-o", str(path)).exit_code == 0
        assert b"ikeanalyze.keys/1" not in path.read_bytes()


def test_tshark_reads_the_copy(embed, tshark):
    fields = ("-n", "-Tfields", "-eframe.time_epoch", "-eframe.len", "-eudp.checksum")
    assert tshark.run(*fields, capture=embed(CAPTURE, LOG)).lines == tshark.run(*fields, capture=Path(CAPTURE)).lines


def test_embedded_keys_of_ikev1_decrypt_the_capture(run, embed):
    capture = LAB_CAPTURES / "ikev1_mode-main.pcapng"
    out = embed(str(capture), str(LAB_CAPTURES / "ikev1_mode-main.keys.json"))
    report = json.loads(run("report", str(out), "--keys", str(out), "--format", "json").stdout)
    assert report["handshakes"][0]["outcome"] == "established"


def test_wrong_usage_is_refused(run, tmp_path):
    out = str(tmp_path / "out.pcapng")
    cases = [
        ((LOG, "--embed", CAPTURE), 2, "name the copy with -o"),
        ((LOG, "--embed", CAPTURE, "--to", "json", "-o", out), 2, "exclude each other"),
        ((LOG, "--embed", "-", "-o", out), 2, "cannot be standard input"),
        ((LOG, "--embed", CAPTURE, "-o", CAPTURE), 2, "it would be overwritten"),
        ((LAB_KEYS, "--embed", CAPTURE, "-o", out), 1, "the keys decrypt no message"),
    ]
    for arguments, status, message in cases:
        done = run("keys", *arguments)
        assert (done.exit_code, message in done.stderr) == (status, True), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_advice_for_keys_that_were_named_as_the_capture(run, tmp_path):
    """`keys` has no option --keys."""
    done = run("keys", LOG, "--embed", LOG, "-o", str(tmp_path / "x.pcapng"))
    assert done.exit_code == 1
    assert done.stderr.endswith("It has keys: name it as FILE, and the capture with --embed\n")
    assert run("keys", LOG, "--embed", CAPTURE, "-o", str(tmp_path / "x.pcapng")).exit_code == 0


def test_a_capture_without_keys_is_still_refused(run):
    for path in (CAPTURE, LAB):
        done = run("report", CAPTURE, "--keys", path)
        assert "this is a capture, not a key file" in done.stderr


def test_the_name_of_a_pcap_file_is_told(run, tmp_path):
    """Who converts the copy to pcap, as of other captures with such a name, loses the keys."""
    done = run("keys", LOG, "--embed", CAPTURE, "-o", str(tmp_path / "x.pcap"))
    assert f"{tmp_path}/x.pcap: written as pcapng, despite its name: pcap has no room for keys" in done.stderr
    assert "editcap" not in done.stderr
