import csv
import io
import json
import os
from pathlib import Path

import pytest

from tests.paths import CAPTURES


def test_overheads_are_computed(run):
    done = run(
        "overhead", "compute", "--suite", "aes256gcm16", "--suite", "AES256GCM16", "--size", "64,128", "--format", "csv"
    )
    assert (done.exit_code, done.stderr) == (0, "")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["clear_bytes"], row["esp_packet_bytes"]) for row in rows][:2] == [
        ("64", "120"),
        ("128", "184"),
    ]


def test_all_options_are_used(run, tmp_path):
    path = tmp_path / "x.json"
    done = run(
        "overhead", "compute", "--suite", "aes128-sha256", "--mode", "transport", "--encapsulation", "tcp", "--outer-ip", "6",
        "--size", "100:140:20", "--mtu", "1500", "--mips", "100,200", "--rate", "100k,1M", "--link-rate", "10M",
        "--packet-sizes", "500", "--operations", "aes128-sha256=20", "--format", "json", "-o", str(path),
    )  # fmt: skip
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    computed = json.loads(path.read_text())["computed"]
    assert (computed["mode"], computed["encapsulation"], computed["inner_ip"], computed["outer_ip"]) == (
        "transport",
        "tcp",
        6,
        6,
    )
    assert [packet["clear_bytes"] for packet in computed["packets"]] == [100, 120, 140]
    peer = next(processor for processor in computed["processors"] if processor["suite"] == "aes128-sha256")
    assert peer["ceiling_bps"] == pytest.approx(8 * 500 / (500 * 20 / 100e6))
    assert [delay["rate_bps"] for delay in peer["delays"]] == [1e5, 1e6]


def test_json_names_a_path_that_is_not_utf8(run, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.pcap")
    Path(path).write_bytes((CAPTURES / "psk-classic.pcap").read_bytes())
    done = run("overhead", "measure", path, "--format", "json")
    assert json.loads(done.stdout)["measured"]["capture"] == f"{tmp_path}/\\xff.pcap"
    assert "\\ud" not in done.stdout


def test_the_paper_is_reproduced(run):
    done = run("overhead", "paper", "--mips", "100", "--rate", "700k")
    assert done.exit_code == 0
    assert ["3des-md5", "64", "96", "32", "0.250", "68,480", "684.8"] in [
        line.split() for line in done.stdout.splitlines()
    ]


def test_figures_are_written(run, tmp_path):
    done = run("overhead", "compute", "--suite", "des", "--size", "64,128", "--figures", str(tmp_path / "f"))
    assert (done.exit_code, done.stderr) == (0, f"ikeanalyze: {tmp_path / 'f'}: 6 files\n")
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == [
        f"{name}.{ending}" for name in ("esp-operations", "esp-ratio") for ending in ("pdf", "png", "svg")
    ]


def test_overheads_are_measured(run):
    done = run("overhead", "measure", str(CAPTURES / "lab" / "nat.pcapng"), "--format", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["computed"] is None
    assert [sa["packets"] for sa in document["measured"]["sas"]] == [1, 1]


def test_a_capture_without_esp_is_reported(run):
    path = str(CAPTURES / "invalid-ke.pcap")
    done = run("overhead", "measure", path, "--format", "csv")
    assert (done.exit_code, done.stdout.strip()) == (0, "")
    assert done.stderr == f"ikeanalyze: {path}: no ESP packets\n"


def test_no_esp_has_no_figures(run, tmp_path):
    path = str(CAPTURES / "invalid-ke.pcap")
    done = run("overhead", "measure", path, "--figures", str(tmp_path / "f"), "--quiet")
    assert (done.exit_code, done.stderr, list((tmp_path / "f").iterdir())) == (0, "", [])


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (["--suite", "rot13"], "--suite: 'rot13': unknown cipher 'rot13'; allowed are null, des, 3des"),
        (["--suite", "aes128gcm16-sha1"], "--suite: 'aes128gcm16-sha1': aes128gcm16 has its own authentication"),
        (["--size", "-64"], "--size: -64 is not the size of an IPv4 packet, 20 to 65535 bytes"),
        (["--size", "x"], "--size: 'x' is neither a number nor a range"),
        (["--size", "64.5"], "--size: '64.5': sizes are whole bytes"),
        (["--mode", "x"], "'--mode': 'x' is not one of 'transport', 'tunnel'"),
        (["--encapsulation", "x"], "'--encapsulation': 'x' is not one of 'none', 'udp', 'tcp'"),
        (["--outer-ip", "5"], "'--outer-ip': '5' is not one of '4', '6'"),
        (
            ["--mode", "transport", "--inner-ip", "6"],
            "--inner-ip: in transport mode the packet keeps its IP header",
        ),
        (["--mips", "100"], "--mips: the number of operations of aes256gcm16 is unknown"),
        (["--mips", "0", "--suite", "des"], "--mips: 0 is not in the range 0.001 to 1e+09"),
        (["paper", "--mips", "1e-300"], "--mips: 1e-300 is not in the range"),
        (["paper", "--mips", "1e300"], "--mips: 1e+300 is not in the range"),
        (["--mips", "abc"], "--mips: 'abc' is neither a number nor a range"),
        (["--mips", "1:5000:1"], "--mips: '1:5000:1' has more than 1,000 values"),
        (["--packet-sizes", "480"], "--packet-sizes: needs --mips"),
        (["measure", "x.pcap", "--packet-sizes", "480"], "No such option: --packet-sizes"),
        (
            ["paper", "--mips", "1", "--packet-sizes", "99999"],
            "--packet-sizes: 99999 is not the size of an IPv4 packet",
        ),
        (["paper", "--mips", "1", "--packet-sizes", "9" * 5000], "is neither a size nor pareto"),
        (["--size", "1:5000:1"], "--size: '1:5000:1' has more than 1,000 values"),
        (["--rate", "1M"], "--rate: needs --mips"),
        (["paper", "--mips", "1", "--rate", "fast"], "--rate: invalid rate 'fast'"),
        (["paper", "--mips", "1", "--packet-sizes", "x"], "--packet-sizes: 'x' is neither a size nor pareto"),
        (["paper", "--mips", "1", "--link-rate", "0"], "--link-rate: a rate is more than 0 bit/s"),
        (["paper", "--suite", "des"], "No such option: --suite"),
        (
            ["paper", "--mips", "1:1000:1", "--rate", ",".join(["1k"] * 100)],
            "--rate: rates, processors and suites make more than 100,000 combinations",
        ),
        (["--operations", "des"], "--operations: 'des' is not SUITE=N"),
        (["--operations", "des=2"], "--operations: 'des' is not one of the requested suites"),
        (["measure", "x.pcap", "--size", "64"], "No such option: --size"),
        (["--format", "x"], "'--format': 'x' is not one of 'terminal', 'json', 'csv', 'markdown'"),
    ],
)
def test_wrong_usage_exits_with_2(run, wrong, what):
    done = run("overhead", *([] if wrong[0] in ("paper", "measure") else ["compute"]), *wrong)
    assert (done.exit_code, done.stdout) == (2, "")
    assert what in done.stderr
    assert done.stderr.count("\n") == 1


def test_keys_that_are_of_no_use(run, tmp_path):
    capture = str(CAPTURES / "lab" / "nat.pcapng")
    rows = [
        '"IPv4","*","*","*","AES-CBC [RFC3602]","0x00112233445566778899aabbccddeeff","NULL",""',
        '"IPv4","*","*","*","ROT13","0x00","NULL",""',
    ]
    path = tmp_path / "esp_sa"
    path.write_text("\n".join(rows) + "\n")
    done = run("overhead", "measure", capture, "--keys", str(path), "--format", "csv")
    assert done.exit_code == 0
    named, unusable = done.stderr.splitlines()
    assert named.startswith(f"ikeanalyze: {path}: line 2: Wireshark's esp_sa has no encryption algorithm")
    assert f"{path}, line 1: NULL cannot be checked" in unusable
    assert "00112233" not in done.stderr
    other = str(CAPTURES / "psk-classic.keys.json")
    done = run("overhead", "measure", capture, "--keys", other, "--format", "csv")
    assert done.stderr == f"ikeanalyze: {other}: no key of an ESP SA. Such keys are in Wireshark's esp_sa table\n"
    done = run("overhead", "measure", capture, "--keys", str(tmp_path / "none"))
    assert (done.exit_code, done.stderr.count("\n")) == (3, 1)  # measured all the same, as by report
    assert capture in done.stdout


def test_a_missing_capture_is_an_error(run, tmp_path):
    done = run("overhead", "measure", str(tmp_path / "x.pcap"))
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    (tmp_path / "x.pcap").write_text("nothing")
    done = run("overhead", "measure", str(tmp_path / "x.pcap"))
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "not a pcap or pcapng file" in done.stderr


def test_a_key_file_that_cannot_be_read_is_skipped(run, tmp_path):
    (tmp_path / "keys").write_bytes(b"\xff\xfe no key")
    capture = CAPTURES / "psk-classic.pcap"
    done = run("overhead", "measure", str(capture), "--keys", str(tmp_path / "keys"))
    assert done.exit_code == 3
    assert str(capture) in done.stdout
    assert done.stderr.startswith(f"ikeanalyze: {tmp_path / 'keys'}: ")
