import gzip
import json
import stat
from pathlib import Path

import pytest

from tests.paths import CAPTURES

PQ = str(CAPTURES / "pq-mlkem768-psk.charon.log.gz")
SECRETS = [
    value for keys in json.loads((CAPTURES / "pq-mlkem768-psk.keys.json").read_text()) for value in keys.values()
]


def test_keys_are_listed(run):
    done = run("keys", PQ)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "904a132d2b087803  f2748b73dae9f971      1" in done.stdout
    assert not any(secret in done.stdout for secret in SECRETS)


def test_keys_are_listed_as_json(run):
    document = json.loads(run("keys", PQ, "--format", "json").stdout)
    assert [keys["epoch"] for keys in document["files"][0]["key_sets"]] == [0, 1]


def test_show_secret_prints_the_keys(run):
    assert all(secret in run("keys", PQ, "--show-secrets").stdout for secret in SECRETS)


def test_some_cannot_be_read(run, tmp_path):
    done = run("keys", str(tmp_path / "x"), PQ)
    assert done.exit_code == 3
    assert done.stderr == f"ikeanalyze: {tmp_path / 'x'}: no such file\n"
    assert "904a132d2b087803" in done.stdout


def test_none_can_be_read(run, tmp_path):
    done = run("keys", str(tmp_path), str(CAPTURES / "psk-classic.pcap"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "is a directory" in done.stderr
    assert "is a capture" in done.stderr


def test_warnings_of_key_files_are_printed(run, tmp_path):
    path = tmp_path / "table"
    row = f'904a132d2b087803,f2748b73dae9f971,{"00" * 16},{"00" * 16},"AES-CBC-128 [RFC3602]",,,"NONE [RFC4306]"\n'
    path.write_text(row + "rubbish\n" * 20)
    done = run("keys", str(path))
    assert done.exit_code == 0
    assert done.stderr.splitlines()[0] == f"ikeanalyze: {path}: line 2: not a row of a key table; not used"
    assert done.stderr.splitlines()[-1] == f"ikeanalyze: {path}: 10 more warnings. --verbose shows all of them"
    assert len(run("keys", str(path), "--verbose").stderr.splitlines()) == 20
    assert run("keys", str(path), "--quiet").stderr == ""


@pytest.mark.parametrize("form", ["wireshark", "json"])
def test_secrets_do_not_go_to_standard_output_unasked(run, form):
    done = run("keys", PQ, "--to", form)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--show-secrets" in done.stderr
    revealed = run("keys", PQ, "--to", form, "--show-secrets").stdout
    assert SECRETS[1] in revealed


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_keys_are_converted_to_wireshark_tables(run, tmp_path):
    done = run("keys", PQ, "--to", "wireshark", "-o", str(tmp_path / "out"))
    assert (done.exit_code, done.stdout) == (0, "")
    tables = sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert [str(path.relative_to(tmp_path / "out")) for path in tables] == [
        "epoch-0/ikev2_decryption_table",
        "epoch-1/ikev2_decryption_table",
    ]
    assert done.stderr == "".join(f"ikeanalyze: wrote {path}\n" for path in tables)
    assert [mode(path) for path in tables] == [0o600, 0o600]
    for path, epoch in zip(tables, (SECRETS[:5], SECRETS[5:]), strict=True):
        assert epoch[1] in path.read_text()
    assert run("keys", PQ, "--to", "wireshark", "-o", str(tmp_path / "out"), "--quiet").stderr == ""


def test_json_keys_are_read_again(run, tmp_path):
    path = tmp_path / "keys.json"
    done = run("keys", PQ, "--to", "json", "-o", str(path))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"ikeanalyze: wrote {path}\n")
    assert mode(path) == 0o600
    assert json.loads(path.read_text())["key_sets"][0]["sk_ei"] == SECRETS[1]
    assert run("keys", str(path)).stdout.count("904a132d2b087803") == 2
    assert run("keys", PQ, "--to", "json", "-o", str(path), "--quiet").stderr == ""


def test_several_files_are_one_output_without_repetitions(run, tmp_path):
    again = tmp_path / "again.log"
    again.write_bytes(gzip.decompress(Path(PQ).read_bytes()))
    run(
        "keys",
        PQ,
        str(again),
        str(CAPTURES / "psk-classic.charon.log.gz"),
        "--to",
        "json",
        "-o",
        str(tmp_path / "x"),
    )
    assert len(json.loads((tmp_path / "x").read_text())["key_sets"]) == 3


def test_what_wireshark_has_no_room_for(run, tmp_path):
    done = run("keys", str(CAPTURES / "psk-classic.keys.json"), "--to", "wireshark", "-o", str(tmp_path / "x"))
    assert done.exit_code == 1
    assert "not in Wireshark's table: the SPIs are unknown" in done.stderr
    assert not (tmp_path / "x").exists()


def test_keys_that_wireshark_has_no_room_for_are_reported_once_for_each_reason(run, tmp_path):
    # the 25 key sets of this file have no SPIs
    done = run("keys", str(CAPTURES / "loss20-classic.keys.json"), "--to", "wireshark", "-o", str(tmp_path / "x"))
    lines = [line for line in done.stderr.splitlines() if "not in Wireshark's table" in line]
    assert len(lines) == 1
    assert lines[0].endswith("(also 24 more keys of this file)")


def test_the_list_is_written_to_a_file(run, tmp_path):
    done = run("keys", PQ, "--show-secrets", "-o", str(tmp_path / "x"))
    assert done.stdout == ""
    assert SECRETS[0] in (tmp_path / "x").read_text()
    assert mode(tmp_path / "x") == 0o600


def test_an_output_that_cannot_be_written(run, tmp_path):
    (tmp_path / "file").touch()
    for arguments, path, problem in (
        (
            ("--to", "json"),
            tmp_path / "no" / "x",
            f"the directory {tmp_path}/no does not exist. Create it first, or name",
        ),
        (("--to", "json"), tmp_path, "is a directory. Name a file with -o"),
        ((), tmp_path, "is a directory. Name a file with -o"),
        (("--embed", str(CAPTURES / "pq-mlkem768-psk.pcap")), tmp_path, "is a directory. Name a file with -o"),
        (
            ("--to", "wireshark"),
            tmp_path / "file",
            "is a file, and this needs a directory. Name another output with -o",
        ),
        (("--to", "wireshark"), tmp_path / "file" / "x", f"{tmp_path}/file is a file, not a directory. Name another"),
    ):
        done = run("keys", PQ, *arguments, "-o", str(path))
        assert done.exit_code == 1
        assert done.stderr.startswith(f"ikeanalyze: {path}: {problem}")
        assert done.stderr.count("\n") == 1


def test_what_is_read_is_not_written_over(run, tmp_path):
    row = f'904a132d2b087803,f2748b73dae9f971,{"00" * 16},{"00" * 16},"AES-CBC-128 [RFC3602]",,,"NONE [RFC4306]"\n'
    path = tmp_path / "ikev2_decryption_table"
    path.write_text(row * 2)
    for arguments in (
        ("--to", "json", "-o", str(path)),
        ("--to", "wireshark", "-o", str(tmp_path)),
        ("-o", str(path)),
    ):
        done = run("keys", str(path), *arguments)
        assert done.exit_code == 2
        assert "would be overwritten" in done.stderr
        assert path.read_text() == row * 2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--to", "pdf", "-o", "x"), "'pdf' is not one of 'wireshark', 'json'"),
        (("--format", "csv"), "'csv' is not one of 'terminal', 'json'"),
        (
            ("--to", "json", "--format", "json", "-o", "x"),
            "--format: is for the list of keys, not for --to and --embed",
        ),
        (("--embed", "x.pcap", "--format", "json", "-o", "x"), "--format: is for the list of keys"),
        (("-", "-"), "only once"),
        (("--no-such",), "No such option"),
    ],
)
def test_wrong_usage_exits_with_2(run, arguments, why):
    done = run("keys", PQ, *arguments)
    assert done.exit_code == 2
    assert why in done.stderr
