import json

import pytest

from tests.analysis.verify_recordings import capture_of, changed_log, log_of
from tests.keys.dumps import log
from tests.paths import CAPTURES

NAME = "pq-mlkem768-psk"


def arguments(name=NAME, keys=None):
    return ["verify", str(capture_of(name)), "--keys", str(keys or log_of(name))]


def test_recorded_captures_pass_all_checks(run):
    done = run(*arguments())
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1] == "  checks      24 passed"


def test_a_failed_check_sets_the_exit_status(run, tmp_path):
    done = run(*arguments(keys=changed_log(NAME, tmp_path / "log", "key exchange secret")))
    assert done.exit_code == 1
    assert done.stderr == (f"ikeanalyze: {capture_of(NAME)}: 1 check failed: SKEYSEED of epoch 0 (handshake 1)\n")
    assert "23 passed, 1 failed" in done.stdout


def test_a_wrong_psk_fails(run, tmp_path):
    psk = tmp_path / "psk"
    psk.write_text("swordfisi\n")
    done = run(*arguments(), "--psk", str(psk))
    assert done.exit_code == 1
    assert "2 checks failed: AUTH in IKE_AUTH 2 request (handshake 1), AUTH in IKE_AUTH 2 res" in done.stderr
    assert "swordfis" not in done.stdout + done.stderr


def test_a_psk_that_cannot_be_read(run, tmp_path):
    psk = tmp_path / "psk"
    psk.write_text("0xsword")
    done = run(*arguments(), "--psk", str(psk))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"ikeanalyze: {psk}: 0x must be followed by hexadecimal digits\n"


def test_nothing_can_be_checked(run):
    done = run(*arguments("psk-classic", log_of(NAME)), "--quiet")
    assert done.exit_code == 1
    assert "nothing could be checked: the key files have no key of its IKE SA" in done.stderr
    assert "Use --keys with a log of a peer" in done.stderr


def test_nothing_of_ikev1_can_be_checked_whatever_the_keys(run):
    name = "lab/ikev1_mode-main"
    done = run("verify", str(CAPTURES / f"{name}.pcapng"), "--keys", str(CAPTURES / f"{name}.keys.json"), "--quiet")
    assert done.exit_code == 1
    assert done.stderr.endswith("nothing could be checked: messages of IKEv1 have no ICV; only IKEv2 is verified\n")


def test_keys_are_asked_for_if_ikev2_follows_ikev1(run, tmp_path):
    ikev1, ikev2 = (CAPTURES / name for name in ("lab/ikev1_mode-main.pcapng", "eap-md5-radius.pcapng"))
    both = tmp_path / "both.pcapng"
    both.write_bytes(ikev1.read_bytes() + ikev2.read_bytes())  # a pcapng file may have several sections
    done = run("verify", str(both), "--keys", str(log_of("psk-classic")), "--quiet")
    assert done.exit_code == 1
    assert done.stderr.endswith(
        "nothing could be checked: the key files have no key of its IKE SA. Use --keys with a log of a peer, of charon "
        "with ike = 4\n"
    )


def test_a_key_file_that_is_skipped(run, tmp_path):
    bad = tmp_path / "bad.log"
    bad.write_text("x\n")
    done = run(*arguments(), "--keys", str(bad), "--quiet")
    assert done.exit_code == 3
    assert done.stderr.startswith(f"ikeanalyze: {bad}: contains no key.")
    assert "24 passed" in done.stdout


def test_a_missing_capture_is_an_error(run, tmp_path):
    done = run("verify", str(tmp_path / "none.pcap"), "--keys", str(log_of(NAME)))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "none.pcap" in done.stderr


def test_one_handshake_can_be_selected(run):
    done = run(*arguments("loss20-classic"), "--handshake", "7")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "  handshake   7" in done.stdout.splitlines()
    done = run(*arguments(), "--handshake", "2")
    assert done.exit_code == 2
    assert "no handshake 2: choose from 1 to 1" in done.stderr


def test_json_is_written_to_a_file(run, tmp_path):
    path = tmp_path / "x.json"
    done = run(*arguments("rekeys"), "--format", "json", "-o", str(path))
    assert (done.exit_code, done.stdout) == (0, "")
    document = json.loads(path.read_text())
    assert [(handshake["id"], handshake["replaces"]) for handshake in document["handshakes"]] == [
        (1, None),
        (2, 1),
        (3, 2),
    ]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (["verify", "x"], "--keys"),
        ([*arguments(), "--format", "csv"], "'csv' is not one of 'terminal', 'json'"),
        ([*arguments(), "-o", str(log_of(NAME))], "would be overwritten"),
        (["verify", "-", "--keys", "-"], "standard input can be read only once"),
    ],
)
def test_wrong_usage_exits_with_2(run, wrong, what):
    done = run(*wrong)
    assert done.exit_code == 2
    assert what in done.stderr


@pytest.mark.parametrize("form", ["terminal", "json"])
@pytest.mark.parametrize("failing", [False, True])
def test_no_secret_in_what_is_shown(run, tmp_path, form, failing):
    keys = changed_log(NAME, tmp_path / "log", "SKEYSEED", 1) if failing else None
    done = run(*arguments(keys=keys), "--format", form, "--verbose", "--no-limit")
    shown = (done.stdout + done.stderr).lower()
    secrets = [content for label, content in log(NAME) if label in ("SKEYSEED", "SK_p", "secret") or "secret" in label]
    assert len(secrets) > 15
    for secret in filter(None, secrets):
        assert secret.hex()[:12] not in shown
    assert "swordfish" not in shown
