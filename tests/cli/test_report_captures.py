"""The report about recorded captures: counts as the daemons' own logs have them."""

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.json_schemas import list_errors
from tests.paths import CAPTURES

ONE_HANDSHAKE = ["psk-classic.pcap", "pq-mlkem768-psk.pcap", "invalid-ke.pcap", "eap-md5-radius.pcapng"]


def run(*arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ikeanalyze", *map(str, arguments)]
    options = {"cwd": CAPTURES.parent, **options}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def report(*arguments: str | Path) -> dict:
    done = run("report", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_psk_handshake_has_the_counts_of_the_log():
    document = report(CAPTURES / "psk-classic.pcap")
    (handshake,) = document["handshakes"]
    (link,) = handshake["links"]
    assert link["a_to_b"] == {"messages": 2, "frames": 2, "bytes": 314 + 318}
    assert link["b_to_a"] == {"messages": 2, "frames": 2, "bytes": 322 + 270}
    assert list(handshake["phases"]) == ["IKE_SA_INIT", "IKE_AUTH"]
    assert handshake["outcome"] in ("established", "completed")
    assert handshake["blowup"] == 1.0


def test_the_post_quantum_handshake_has_the_counts_of_the_log():
    (handshake,) = report(CAPTURES / "pq-mlkem768-psk.pcap")["handshakes"]
    assert list(handshake["phases"]) == ["IKE_SA_INIT", "IKE_INTERMEDIATE", "IKE_AUTH"]
    assert handshake["phases"]["IKE_INTERMEDIATE"]["frames"] == 3
    assert handshake["fragmentation"]["ike_fragments"] == 2
    methods = [slot["id"] for slot in handshake["proposal"]["additional_key_exchanges"]]
    assert methods == [36]


def test_the_invalid_ke_handshake_has_the_counts_of_the_log():
    (handshake,) = report(CAPTURES / "invalid-ke.pcap")["handshakes"]
    assert handshake["extra_round_trips"] == ["INVALID_KE_PAYLOAD"]
    assert handshake["phases"]["IKE_SA_INIT"]["messages"] == 4


def test_the_eap_handshake_has_the_counts_of_the_log():
    (handshake,) = report(CAPTURES / "eap-md5-radius.pcapng")["handshakes"]
    assert [link["name"] for link in handshake["links"]] == ["initiator-responder", "responder-aaa"]
    assert sum(e["type"] == "IKE_AUTH" for e in handshake["exchanges"]) == 4


def test_lossy_handshakes_have_the_counts_of_the_logs():
    document = report(CAPTURES / "loss20-classic.pcap")
    assert len(document["handshakes"]) == 25
    assert document["totals"]["retransmissions"]["messages"] > 0
    assert document["totals"]["blowup"] > 1


@pytest.mark.parametrize("name", [*ONE_HANDSHAKE, "loss20-classic.pcap"])
def test_sums_equal_the_bytes_of_the_frames(name):
    document = report(CAPTURES / name)
    for capture in document["captures"]:
        assert sum(capture["accounting"].values()) == capture["packets"]
        assert sum(capture["accounting_bytes"].values()) == capture["bytes"]
    for handshake in document["handshakes"]:
        link = handshake["links"][0]
        for what in ("messages", "frames", "bytes"):
            phases = sum(phase[what] for phase in handshake["phases"].values())
            assert phases == link["a_to_b"][what] + link["b_to_a"][what]


@pytest.mark.parametrize("name", ONE_HANDSHAKE)
def test_text_of_recorded_captures_fits_into_80_columns(name):
    for command in ("report", "ladder"):
        done = run(command, CAPTURES / name)
        assert done.returncode == 0, done.stderr
        assert "IKE_AUTH" in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80


def test_several_of_which_one_is_bad(tmp_path):
    (tmp_path / "bad.pcap").write_bytes(b"no capture at all, but some bytes")
    done = run("report", CAPTURES / "psk-classic.pcap", tmp_path / "bad.pcap", tmp_path / "none", "--format", "json")
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert len(document["captures"]) == 1
    assert [item["path"] for item in document["skipped"]] == [
        str(tmp_path / "bad.pcap"),
        str(tmp_path / "none"),
    ]
    for path in (tmp_path / "bad.pcap", tmp_path / "none"):
        assert f"ikeanalyze: {path}: " in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_to_read(tmp_path):
    for path in (tmp_path / "none.pcap", tmp_path):
        done = run("report", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith(f"ikeanalyze: {path}: ")


def test_a_truncated_capture_is_reported(tmp_path):
    path = tmp_path / "cut.pcap"
    path.write_bytes((CAPTURES / "psk-classic.pcap").read_bytes()[:-20])
    done = run("report", path, "--format", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["captures"][0]["damaged"] is True
    assert done.stderr.startswith(f"ikeanalyze: {path}: ")


def test_standard_input_and_gzip(tmp_path):
    data = (CAPTURES / "psk-classic.pcap").read_bytes()
    plain = report(CAPTURES / "psk-classic.pcap")
    for given in (data, gzip.compress(data)):
        command = [sys.executable, "-m", "ikeanalyze", "report", "-", "--format", "json"]
        done = subprocess.run(command, input=given, capture_output=True, timeout=120, cwd=CAPTURES.parent)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["captures"][0]["path"] == "-"
        assert document["totals"] == plain["totals"]


def test_the_library_returns_the_same_tables():
    code = (
        "import ikeanalyze; a = ikeanalyze.read('captures/psk-classic.pcap');"
        "print(a.handshakes.height, a.messages['bytes'].sum() >= 1224)"
    )
    environment = {**os.environ, "PYTHONPATH": str(CAPTURES.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=CAPTURES.parent, env=environment
    )
    assert done.stdout == "1 True\n", done.stderr


@pytest.mark.parametrize("form", ["terminal", "json", "jsonl", "csv", "markdown", "html", "parquet"])
def test_a_name_that_is_no_utf8(form, tmp_path):
    """It is written with its bytes, in every format and beside others."""
    odd = os.fsencode(tmp_path) + b"/caf\xe9.pcap"
    Path(os.fsdecode(odd)).write_bytes((CAPTURES / "psk-classic.pcap").read_bytes())
    missing = os.fsencode(tmp_path) + b"/\xff.pcap"
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-m", "ikeanalyze", "report", odd, missing, "--format", form, "-o", out],
        capture_output=True, text=True, timeout=120, cwd=CAPTURES.parent,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (3, f"ikeanalyze: {tmp_path}/\\xff.pcap: no such file\n")
    if form == "parquet":
        assert pl.read_parquet(out / "handshakes.parquet")["capture"].to_list() == [f"{tmp_path}/caf\\xe9.pcap"]
        return
    text = out.read_text("utf-8")
    assert "caf\\" in text
    if form == "json":
        document = json.loads(text)
        assert document["captures"][0]["path"] == f"{tmp_path}/caf\\xe9.pcap"
        assert document["handshakes"][0]["capture"] == f"{tmp_path}/caf\\xe9.pcap"
        assert document["skipped"] == [{"path": f"{tmp_path}/\\xff.pcap", "reason": "no such file"}]


@pytest.mark.parametrize("name", ["=cmd|'C calc'!A0.pcap", "\x1b]0;title\x07.pcap", "\u202egpj.pcap"])
def test_names_that_are_formulas_or_change_the_terminal(tmp_path, name):
    """In every format for people or programs, only printable text is written, and no cell is a formula."""
    (tmp_path / name).write_bytes((CAPTURES / "psk-classic.pcap").read_bytes())
    for form in ("terminal", "json", "jsonl", "csv", "markdown"):
        done = run("report", name, "--format", form, cwd=tmp_path)
        assert done.returncode == 0
        text = done.stdout
        assert all(line.isprintable() for line in text.split("\n")), form
        if form == "csv":
            assert not any(cell.startswith(("=", "+", "@")) for line in csv.reader(text.splitlines()) for cell in line)
        if form == "json":
            assert json.loads(text)["handshakes"][0]["capture"] == name


def test_files_of_a_ring_buffer_are_joined(tmp_path):
    subprocess.run(["editcap", "-c", "50", CAPTURES / "loss20-classic.pcap", tmp_path / "ring.pcapng"], check=True)
    files = sorted(map(str, tmp_path.glob("ring*")))
    assert len(files) > 3
    whole, joined = report(CAPTURES / "loss20-classic.pcap"), report("--join", *reversed(files))
    (capture,) = joined["captures"]
    assert (capture["path"], capture["files"]) == (f"{files[0]} and {len(files) - 1} more", files)
    for handshake in (*whole["handshakes"], *joined["handshakes"]):
        del handshake["capture"]
    assert joined["handshakes"] == whole["handshakes"]
    assert len(whole["handshakes"]) == 25
    # each alone has the parts of handshakes that the ends of files cut
    assert len(report(*files)["handshakes"]) > 25


def test_joined_files_of_both_formats(tmp_path):
    done = run(
        "report", "--join", "--format", "json", CAPTURES / "psk-classic.pcap", CAPTURES / "eap-md5-radius.pcapng"
    )
    document = json.loads(done.stdout)
    assert document["captures"][0]["format"] == "pcap+pcapng"
    assert list_errors(document) == []


def test_files_that_cannot_be_joined(tmp_path):
    done = run("report", "--join", "-", CAPTURES / "psk-classic.pcap")
    assert (done.returncode, "standard input cannot be joined" in done.stderr) == (2, True)
    done = run("report", "--join", tmp_path / "absent", CAPTURES / "psk-classic.pcap")
    assert (done.returncode, "absent: no such file" in done.stderr) == (3, True)
    done = run("report", "--join", tmp_path / "absent", tmp_path / "lost")
    assert (done.returncode, done.stderr.count("no such file")) == (1, 2)
    os.mkfifo(tmp_path / "first")
    os.mkfifo(tmp_path / "second")
    done = run("report", "--join", tmp_path / "first", tmp_path / "second")
    assert (done.returncode, done.stderr.count("cannot be read twice")) == (1, 2)
