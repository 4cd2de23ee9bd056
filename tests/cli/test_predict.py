import csv
import io
import json
import re
import shlex
from pathlib import Path

import pytest

from tests.paths import CAPTURES, ROOT

CLASSIC, PQ = str(CAPTURES / "psk-classic.pcap"), str(CAPTURES / "pq-mlkem768-psk.pcap")
REFUSED = str(CAPTURES / "lab" / "no-proposal.pcapng")


def predictions(run, *arguments):
    """What the document says."""
    done = run("predict", *arguments, "--format", "json", "--runs", "1000", "--quiet")
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)["predictions"]


def test_the_terminal_shows_the_predictions(run):
    done = run("predict", PQ, "--rtt", "600", "--loss", "0.2")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == PQ
    assert "  RTT ms          600" in lines
    assert "  loss %          20" in lines
    assert any(line.startswith("  set-up ms  ") for line in lines)
    assert done.stderr == (
        f"ikeanalyze: {PQ}: unknown capture point: the path delay is counted as processing time. "
        "Set --vantage and --recorded-rtt\n"
        f"ikeanalyze: {PQ}: only one usable handshake: the processing times are constant, so the spread is that of the "
        "link alone\n"
    )


def test_the_document_shows_what_it_does(run, monkeypatch):
    text = (ROOT / "docs" / "predict.md").read_text()
    monkeypatch.chdir(ROOT)
    (example,) = re.findall(r"^```console\n\$ ikeanalyze (.*)\n((?s:.*?))^```$", text, re.MULTILINE)
    assert run(*shlex.split(example[0])).stdout == example[1]


def test_a_link_is_required(run):
    done = run("predict", PQ)
    assert done.exit_code == 2
    assert done.stderr.startswith("ikeanalyze: Invalid value for --rtt: needed without --link.")


@pytest.mark.parametrize(
    ("option", "text"),
    [("--link", "rtt_ms = 700\n"), ("--retransmission-policy", 'kind = "table"\nwaits = [1, 2]\n')],
)
def test_files_of_options_are_not_overwritten(run, tmp_path, option, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    done = run("predict", CLASSIC, "--rtt", "50", "--runs", "10", option, str(path), "-o", str(path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{path} is an input file, it would be overwritten" in done.stderr
    assert path.read_text() == text


def test_lists_are_combined(run):
    result = predictions(
        run, CLASSIC, PQ, "--rtt", "10,600", "--loss", "0:0.2:0.1", "--transport", "udp", "--transport", "tcp"
    )
    assert len(result) == 2 * 2 * 3 * 2
    assert [item["link"]["loss"] for item in result[:4]] == [0, 0.1, 0.2, 0]
    assert {item["transport"] for item in result} == {"udp", "tcp"}
    assert {item["capture"] for item in result} == {CLASSIC, PQ}
    # without loss four messages are two round trips and what was computed
    assert result[0]["setup_ms"]["mean"] == pytest.approx(2 * 10 + 4.282)


def test_all_options_are_used(run, tmp_path):
    policy = tmp_path / "mine.toml"
    policy.write_text('kind = "table"\nwaits = [1, 2]\n')
    (prediction,) = predictions(
        run, PQ, "--rtt", "80", "--loss", "0.1", "--rate", "384kbit/s/7.2Mbit/s", "--mtu", "1280", "--jitter", "5", "--burst", "200ms",
        "--burst-loss", "0.5", "--extra-aaa-rtt", "9", "--drop-ip-fragments", "--fragment-size", "600",
        "--retransmission-policy", str(policy),
        "--responder-retransmit-trigger", "all-fragments",
        "--seed", "7", "--handshake", "1", "--vantage", "responder", "--recorded-rtt", "0.1",
    )  # fmt: skip
    assert prediction["link"] == {
        "scenario": None, "rtt_ms": 80, "loss": 0.1, "jitter_ms": 5, "rate_up": 384e3, "rate_down": 7.2e6, "mtu": 1280,
        "drop_ip_fragments": True, "aaa_rtt_ms": 9, "burst": {"mean": 200, "of_frames": False, "loss": 0.5},
    }  # fmt: skip
    assert prediction["policy"] == {"name": "mine", "waits_s": [1, 2], "jitter": 0}
    assert (prediction["repeats"], prediction["fragment_size"], prediction["seed"], prediction["runs"]) == (
        "all-fragments",
        600,
        7,
        1000,
    )


def test_named_scenarios_are_predicted(run, tmp_path):
    mine = tmp_path / "ship.toml"
    mine.write_text("rtt_ms = 700\nloss = 0.02\n[burst]\nframes = 3\n")
    result = predictions(run, CLASSIC, "--link", "geostationary", "--link", str(mine), "--loss", "0.1", "--burst", "2")
    assert [item["link"]["scenario"] for item in result] == ["geostationary", "ship"]
    assert [item["link"]["rtt_ms"] for item in result] == [600, 700]
    assert [item["link"]["rate_up"] for item in result] == [2e6, None]
    assert {item["link"]["loss"] for item in result} == {0.1}  # the option is stronger
    assert {item["link"]["burst"]["mean"] for item in result} == {2}
    done = run("predict", CLASSIC, "--link", "umts")
    assert done.exit_code == 2
    assert "umts has no round-trip time" in done.stderr


def test_policies_of_one_kind_are_told_apart(run):
    result = predictions(
        run,
        CLASSIC,
        "--rtt",
        "1",
        "--retransmission-policy",
        "strongswan:tries=1",
        "--retransmission-policy",
        "strongswan:tries=2",
    )
    assert [item["policy"]["name"] for item in result] == ["strongswan:tries=1", "strongswan:tries=2"]


def test_output_is_written_to_files(run, tmp_path):
    path = tmp_path / "x.csv"
    done = run("predict", CLASSIC, "--rtt", "10,20", "--format", "csv", "-o", str(path), "--quiet", "--runs", "10")
    assert (done.exit_code, done.stdout) == (0, "")
    assert [row["rtt_ms"] for row in csv.DictReader(io.StringIO(path.read_text()))] == ["10.0", "20.0"]
    page, folder = tmp_path / "x.html", tmp_path / "figures"
    done = run(
        "predict", CLASSIC, "--rtt", "10", "--loss", "0.1,0.2", "--format", "html", "-o", str(page), "--figures", str(folder),
        "--runs", "100",
    )  # fmt: skip
    assert done.exit_code == 0
    assert "<svg" in page.read_text()
    assert (folder / "setup_ms-against-loss.svg").exists()
    assert done.stderr.endswith(f"ikeanalyze: {folder}: {len(list(folder.iterdir()))} files\n")


def test_captures_without_a_whole_handshake(run):
    done = run("predict", REFUSED, "--rtt", "10")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"ikeanalyze: {REFUSED}: no complete and successful handshake among 1: 1 failed\n"
    done = run("predict", REFUSED, CLASSIC, "--rtt", "10", "--quiet")
    assert done.exit_code == 3
    assert CLASSIC in done.stdout
    done = run("predict", "nowhere.pcap", "--rtt", "10")
    assert done.exit_code == 1
    assert "nowhere.pcap" in done.stderr


def test_keys_tell_what_failed(run, tmp_path):
    # charon's log: "received AUTHENTICATION_FAILED notify error"
    refused, keys = (str(CAPTURES / "lab" / f"wrong-psk.{kind}") for kind in ("pcapng", "keys.json"))
    assert run("predict", refused, "--rtt", "10", "--runs", "10").exit_code == 0
    done = run("predict", refused, "--rtt", "10", "--keys", keys)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.endswith("no complete and successful handshake among 1: 1 failed\n")
    missing = str(tmp_path / "nowhere.json")
    done = run("predict", CLASSIC, "--rtt", "10", "--runs", "10", "--keys", missing)
    assert done.exit_code == 3
    assert missing in done.stderr
    assert CLASSIC in done.stdout


def test_the_lab_says_where_it_recorded(run, tmp_path):
    # 600 ms, seen from the responder: contained in the initiator's turn
    name = str(CAPTURES / "lab" / "satellite.pcapng")
    done = run("predict", name, "--rtt", "10", "--runs", "10", "--computation", "one")
    assert done.stderr == ""
    assert "over a path of 600.000 ms: the lab's manifest says so" in done.stdout
    alone = tmp_path / "satellite.pcapng"
    alone.write_bytes(Path(name).read_bytes())
    result = {}
    for path, more in (
        (name, []),
        (str(alone), []),
        (name, ["--vantage", "responder", "--recorded-rtt", "500"]),
    ):
        done = run("predict", path, *more, "--rtt", "10", "--runs", "10", "--format", "json", "--quiet")
        handshake = json.loads(done.stdout)["handshakes"][0]
        result[handshake["path"]] = handshake["initiator_ms"]
    # and at 2 Mbit/s the transmission of two packets in between, which have 347 and 910 bytes
    assert result[None] - result["manifest"] == pytest.approx(600 + (347 + 910) * 8 / 2000)
    assert result[None] - result["given"] == pytest.approx(500)
    for text in ('{"schema": "ikeanalyze.lab/1"}', "[", json.dumps({
        "schema": "ikeanalyze.lab/1", "name": "x", "files": {"capture": "satellite.pcapng"}, "scenario": {"link.rtt_ms": -1},
    })):  # fmt: skip
        (tmp_path / "satellite.manifest.json").write_text(text)
        done = run("predict", str(alone), "--rtt", "10", "--runs", "10")
        assert (done.exit_code, "unknown capture point" in done.stderr) == (0, True)


def test_changed_messages(run):
    name, keys = (str(CAPTURES / "lab" / f"ecdsa.{kind}") for kind in ("pcapng", "keys.json"))
    options = ["--rtt", "10", "--runs", "10", "--signature", "ml-dsa-65", "--kem", "ml-kem-768", "--chain", "2"]
    more = ["--add-kem", "hqc-1", "--replace", "NONCE=64", "--add", "responder:CERT=900"]
    done = run("predict", name, "--keys", keys, *options, *more)
    assert done.exit_code == 0
    assert "  changed            signatures ML-DSA-65; key exchange ML-KEM-768" in done.stdout
    assert "the messages are changed, but the processing times are as recorded" in done.stderr
    done = run("predict", name, "--keys", keys, *options, "--format", "json")
    (handshake,) = json.loads(done.stdout)["handshakes"]
    assert handshake["changes"] == ["signatures ML-DSA-65", "key exchange ML-KEM-768", "2 certificates"]
    done = run("predict", name, *options)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        f"ikeanalyze: {name}: the sizes of the payloads in IKE_AUTH 1 are unknown, because they are encrypted. "
        "Name the keys with --keys\n"
    )


def test_attempts_and_budgets(run):
    options = [
        "--loss",
        "0.3",
        "--retransmission-policy",
        "strongswan:tries=1",
        "--until-established",
        "--budget",
        "50,300",
    ]
    (prediction,) = predictions(run, PQ, "--rtt", "10", *options)
    assert prediction["failures"] == 0
    assert prediction["attempts_mean"] > 1.5
    assert [budget["ms"] for budget in prediction["budgets"]] == [50, 300]
    assert prediction["budgets"][0]["share"] <= prediction["budgets"][1]["share"]


def test_warnings_are_in_all_formats(run, tmp_path):
    def output(form):
        path = tmp_path / form
        done = run("predict", CLASSIC, "--rtt", "10", "--runs", "10", "--format", form, "-o", str(path))
        assert text in done.stderr
        return path.read_text()

    text = "only one usable handshake"
    assert text in output("markdown")
    assert text in output("html")
    (warning,) = [item for item in json.loads(output("json"))["warnings"] if text in item["message"]]
    assert (warning["capture"], warning["frame"]) == (CLASSIC, None)


def test_what_computation_is_not_known(run):
    done = run("predict", str(CAPTURES / "pq-loss15.pcap"), "--rtt", "10", "--runs", "10")
    assert "the round-trip time of the path is an upper estimate" in done.stderr
    assert "unknown processing time where a retransmission was answered (responder in IKE_INTERMEDIATE 1" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--loss", "-0.1"], "--loss: -0.1 is not a share of lost frames"),
        (["--loss", "1"], "--loss: 1 is not a share of lost frames from 0 to less than 1. 20 % is written 0.2"),
        (["--loss", "20"], "20 % is written 0.2"),
        (["--loss", "half"], "--loss: 'half' is neither a number nor a range"),
        (["--rtt", "-5"], "--rtt: -5 is not in the range"),
        (["--rtt", "0:10"], "--rtt: '0:10' is not a range"),
        (["--rate", "fast"], "--rate: invalid rate 'fast'"),
        (["--rate", "1"], "--rate: 1 is not in the range"),
        (["--rate", "64"], "--rate: 64 is not in the range 100 to 1e+12 bit/s. 64 kbit/s is written 64k"),
        (["--mtu", "100"], "--mtu: 100 is not in the range"),
        (["--mtu", "1280.5"], "--mtu: 1280.5 is not a whole number"),
        (["--jitter", "99"], "--jitter: 99 is not in the range"),
        (["--burst", "long"], "--burst: 'long' is not the length of a burst"),
        (["--burst", "nan"], "--burst: nan is not the length of a burst"),
        (["--burst-loss", "0.5"], "--burst-loss: needs --burst"),
        (
            ["--burst", "10ms", "--loss", "0.5", "--burst-loss", "0.4"],
            "--burst-loss: a mean loss of 0.5 needs",
        ),
        (
            ["--retransmission-policy", "cisco"],
            "--retransmission-policy: cisco: neither strongswan, libreswan, exponential nor a readable file",
        ),
        (["--transport", "sctp"], "'--transport': 'sctp' is not one of 'udp', 'tcp'"),
        (["--responder-retransmit-trigger", "never"], "'--responder-retransmit-trigger': 'never' is not one of"),
        (["--link", "mars"], "--link: mars: neither epc-centralized-hsdpa"),
        (["--format", "xml"], "'--format': 'xml' is not one of"),
        (["--handshake", "9"], "--handshake: handshake 9 is not in the capture; complete handshakes: 1"),
        (["--vantage", "middle"], "'--vantage': 'middle' is not one of 'initiator', 'responder'"),
        (["--recorded-rtt", "-1"], "--recorded-rtt: -1.0 is not a time in milliseconds"),
        (["--kem", "kyber"], "--kem: unknown algorithm 'kyber'; known: ml-kem-512"),
        (["--signature", "rsa"], "--signature: unknown algorithm 'rsa'"),
        (["--replace", "AUTH"], "--replace: 'AUTH' is not a payload and its bytes"),
        (["--add", "FOO=9"], "--add: unknown payload 'FOO'"),
        (["--chain", "many"], "--chain: 'many' is not a number of certificates"),
        (["--budget", "0"], "--budget: 0 is not a time in milliseconds"),
        (["--budget", "soon"], "--budget: 'soon' is neither a number nor a range"),
        (["--runs", "0"], "--runs"),
        (["--runs", "1000000", "--loss", "0:0.9:0.001"], "--runs: 901,000,000 runs in total are too many"),
        (["--rtt", "0:999:1", "--loss", "0:0.9:0.001"], "--rtt: these lists make 901,000 links; the limit is"),
    ],
)
def test_wrong_usage_exits_with_2(run, arguments, what):
    done = run("predict", CLASSIC, "--rtt", "10", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("ikeanalyze: ")
    assert done.stderr.count("\n") == 1
    assert what in done.stderr


def test_one_handshake_of_one_capture(run):
    done = run("predict", CLASSIC, PQ, "--rtt", "10", "--handshake", "1")
    assert done.exit_code == 2
    assert "cannot be combined with several captures" in done.stderr


def test_a_message_that_does_not_go_through(run):
    done = run("predict", PQ, "--rtt", "10", "--fragment-size", "92", "--quiet")
    assert (done.exit_code, done.stdout) == (1, "")
    assert (
        done.stderr
        == f"ikeanalyze: {PQ}: packets of 92 bytes have no room for IKE fragments of a message of 1,249 bytes\n"
    )
    done = run("predict", str(CAPTURES / "ikev1-xauth.pcap"), "--rtt", "10", "--transport", "tcp", "--quiet")
    assert done.exit_code == 1
    assert "RFC 9329 puts IKEv2 into TCP, not IKEv1" in done.stderr


def test_each_prediction_advances_the_progress(run, monkeypatch):
    """Each prediction moves the bar, which goes to whoever waits."""
    from contextlib import contextmanager

    from ikeanalyze.cli.models import predict

    reported = []

    @contextmanager
    def bar(**more):
        assert more == {"quiet": False, "label": "predicting", "counts": True}
        yield lambda *done: reported.append(done)

    monkeypatch.setattr(predict, "make_progress_bar", bar)
    assert run("predict", CLASSIC, PQ, "--rtt", "10,600", "--runs", "10").exit_code == 0
    assert reported == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_figures_of_a_single_value_are_none(run, tmp_path):
    done = run("predict", PQ, "--rtt", "10", "--figures", str(tmp_path / "figures"))
    assert f"{tmp_path}/figures: nothing to draw: figures need several values" in done.stderr
