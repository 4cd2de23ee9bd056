"""The command against targets on the loopback interface, by ordinary UDP sockets."""

import json
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import ikeanalyze
from tests.paths import CAPTURES
from tests.replay.peers import free_port, peer
from tests.replay.responder import Responder
from tests.replay.tcp_peer import framed, tcp_peer

pytestmark = pytest.mark.alone

#: What the tests' own responder can do: AES-CBC-256, HMAC-SHA2-256, ECP-256.
PSK = CAPTURES / "lab" / "ipv6.pcapng"
SILENT = ("--udp-sockets", "--listen", "0.7", "--time-scale", "1000")


def at(target):
    return ["--target", f"{target.address}:{target.port}", "--nat-port", str(target.nat_port)]


class Standing:
    """A responder for each IKE SA, from the RFCs."""

    def __init__(self, **how):
        self.how, self.all = how, {}

    def __call__(self, data, role):
        if data[18] != 34 and data[:8] not in self.all:
            return []  # recorded, of another IKE SA
        one = self.all.setdefault(data[:8], Responder(addresses=("127.0.0.1", "127.0.0.1"), **self.how))
        return one.answer(data)


@pytest.fixture
def credentials(tmp_path):
    path = tmp_path / "credentials.toml"
    path.write_text('[local]\nidentity = "initiator.lab"\npsk = "swordfish"\n')
    path.chmod(0o600)
    return path


def test_messages_are_replayed_verbatim(run, tmp_path):
    live = tmp_path / "live.pcapng"
    with peer(Standing()) as one:
        done = run("replay", str(PSK), *at(one.target), *SILENT, "--compare-recorded", "-w", str(live))
    assert done.exit_code == 0
    assert done.stderr.startswith(f"ikeanalyze: verbatim: sending to 127.0.0.1:{one.target.port} from 127.0.0.1 ports ")
    assert (
        "by ordinary UDP sockets (requested): the 2 datagrams (544 bytes of IKE messages) of handshake 1" in done.stderr
    )
    lines = done.stdout.splitlines()
    assert "  mode       verbatim" in lines
    assert "  outcome   1 of 2 requests answered" in lines
    assert any(line.startswith("Recorded and live") for line in lines)
    # our ports are others where somebody has 500 and 4500 already
    assert len(ikeanalyze.read(live, ports=[one.target.port]).frames) == 3
    assert not live.with_suffix(".keys.json").exists()


def test_a_reenacted_handshake_is_printed_as_json(run, tmp_path, credentials):
    live, behave = tmp_path / "live.pcapng", Standing()
    with peer(behave) as one:
        done = run(
            "replay", str(PSK), *at(one.target), "--mode", "reenact", "--credentials", str(credentials),
            "--udp-sockets", "--runs", "2", "--compare-recorded", "--format", "json", "-w", str(live), "--verbose",
            "--retransmission-policy", "exponential:timeout=2,tries=5",
        )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "reenact: sending to" in done.stderr
    assert (
        "of the shape of handshake 1 (2 messages, 672 bytes in frames were recorded), each message up to 6 times"
        in done.stderr
    )
    assert "run 2 of 2: established" in done.stderr
    result = json.loads(done.stdout)
    assert (result["schema"], result["mode"], result["way"]) == ("ikeanalyze.replay/1", "reenact", "UDP")
    assert all(item.established and item.deleted for item in behave.all.values())
    assert [run_["handshake"]["established"] for run_ in result["runs"]] == [True, True]
    assert [run_["blowup"] for run_ in result["runs"]] == [run_["report_blowup"] for run_ in result["runs"]] == [1, 1]
    assert result["runs"][0]["compared"]["outcome"]["live"].startswith("established")
    assert result["runs"][0]["handshake"]["deleted"] is True
    assert result["policy"] == "exponential:timeout=2,tries=5"
    assert (result["seed"], result["interrupted"]) == (None, False)
    # the line that reads our own capture, as it was said
    options = f"--vantage initiator --keys {live.with_suffix('.keys.json')}"
    line = f"ikeanalyze report {live} {options} --port {one.target.port} --port {one.target.nat_port}"
    assert result["report"] == line
    assert done.stderr.endswith(f"{line}\n")
    reported = run(*line.split()[1:])
    assert reported.exit_code == 0
    assert reported.stdout.count("established") >= 2
    keys = Path(result["keys"])
    assert keys == tmp_path / "live.keys.json"
    assert keys.stat().st_mode & 0o077 == 0
    target = one.target
    report = ikeanalyze.read(live, keys=[str(keys)], ports=[target.port, target.nat_port])
    assert report.handshakes["outcome"].to_list() == ["established"] * 2
    secret = json.loads(keys.read_text())["key_sets"][0]["sk_ei"]
    assert secret not in done.stdout + done.stderr
    assert "swordfish" not in done.stdout + done.stderr


def test_impairments_are_applied(run, credentials):
    with peer(Standing()) as one:
        done = run(
            "replay", str(PSK), *at(one.target), "--mode", "impair", "--credentials", str(credentials), "--udp-sockets",
            "--drop", "IKE_AUTH:response", "--duplicate", "IKE_SA_INIT:request", "--delay", "IKE_SA_INIT:response:20ms",
            "--retransmission-policy", "exponential:timeout=1", "--format", "json", "--quiet",
        )  # fmt: skip
    assert (done.exit_code, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    (run_,) = result["runs"]
    assert result["faults"] == [
        "drop IKE_AUTH:response",
        "duplicate IKE_SA_INIT:request",
        "delay IKE_SA_INIT:response:20ms",
    ]
    assert run_["faults_met"] == {"delay": 1, "drop": 1, "duplicate": 1}
    assert run_["faults_met_by_name"] == dict.fromkeys(result["faults"], 1)
    assert result["seed"] == run_["seed"] is not None
    assert run_["blowup"] == run_["report_blowup"] > 1
    assert [exchange["transmissions"] for exchange in run_["handshake"]["exchanges"]][:2] == [1, 2]


def impaired(run, credentials, *options):
    with peer(Standing()) as one:
        return run(
            "replay", str(PSK), *at(one.target), "--mode", "impair", "--credentials", str(credentials), "--udp-sockets",
            "--retransmission-policy", "exponential:timeout=0.8,tries=1", *options,
        )  # fmt: skip


def test_a_fault_that_nothing_met_is_told(run, credentials):
    done = impaired(run, credentials, "--drop", "IKE_INTERMEDIATE:2/3", "--duplicate", "IKE_AUTH", "--seed", "4")
    assert done.exit_code == 0, done.stderr
    reported = "faults without a matching datagram: drop IKE_INTERMEDIATE:2/3"
    assert f"ikeanalyze: {reported}\n" in done.stderr
    assert f"  note       {reported}" in done.stdout.splitlines()
    assert "  policy     exponential:timeout=0.8,tries=1" in done.stdout.splitlines()
    assert "  seed       4" in done.stdout.splitlines()
    # what is not known is said in words
    assert "identity of the initiator" in done.stderr
    assert "identity_i" not in done.stdout + done.stderr


def test_what_our_own_faults_took_is_not_the_targets_silence(run, credentials):
    done = impaired(run, credentials, "--drop", "any:x*", "--quiet")
    assert done.exit_code == 1
    assert "does not answer; the injected faults affected 2 datagrams (drop any:x*)" in done.stderr


def test_impair_without_any_ike_sa_is_a_failure(run, credentials):
    credentials.write_text('[local]\nidentity = "initiator.lab"\npsk = "swordfisi"\n')
    done = impaired(run, credentials, "--duplicate", "IKE_SA_INIT:request", "--quiet")
    assert done.exit_code == 1
    assert "no IKE SA was established: AUTHENTICATION_FAILED; the injected faults affected 1 datagram (" in done.stderr


def test_mutated_messages_are_sent(run):
    recorded = Standing()

    def sturdy(data, role):
        with suppress(AssertionError, struct.error, IndexError, KeyError, ValueError):
            return recorded(data, role)
        return []

    with peer(sturdy) as one:
        done = run("replay", str(PSK), *at(one.target), "--udp-sockets", "--fuzz", "20", "--seed", "3", "--rate", "500")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert "  mode       mutated first messages" in lines
    assert "  up before  yes: accepted" in lines
    assert "  mutants    20" in lines
    assert "  seed       3" in lines
    assert "  up after   yes: accepted" in lines
    assert len(one.got) == 22


def test_an_unreachable_target_is_reported(run):
    done = run("replay", str(PSK), "--target", f"127.0.0.1:{free_port()}", *SILENT)
    assert done.exit_code == 1
    assert "does not answer; the network reports: Connection refused" in done.stderr


def test_a_silent_target_is_reported(run):
    with peer(lambda *_: []) as one:
        done = run("replay", str(PSK), *at(one.target), *SILENT, "--quiet")
        mutated = run("replay", str(PSK), *at(one.target), "--udp-sockets", "--fuzz", "5")
    assert (done.exit_code, done.stderr) == (1, f"ikeanalyze: 127.0.0.1:{one.target.port} does not answer\n")
    assert mutated.exit_code == 1
    assert "no mutated message was sent" in mutated.stderr


def test_garbage_responses_are_reported(run):
    with peer(lambda *_: [bytes(50)]) as one:
        done = run("replay", str(PSK), *at(one.target), *SILENT, "--quiet")
    assert done.exit_code == 1
    assert "sends 2 datagrams that are not answers" in done.stderr


def test_what_comes_back_as_it_was_sent_is_no_answer(run):
    with peer(lambda data, _: [data]) as one:
        done = run("replay", str(PSK), *at(one.target), *SILENT, "--quiet")
    assert done.exit_code == 1
    assert "sends 2 datagrams that are not answers" in done.stderr


def test_the_reports_blowup_is_of_one_handshake_alone(run):
    """What is behind the first message keeps its SPIs, and so is another handshake for the report."""

    def blowups(capture):
        with peer(Standing()) as one:
            done = run("replay", str(capture), *at(one.target), *SILENT, "--quiet", "--format", "json")
        (run_,) = json.loads(done.stdout)["runs"]
        return run_["blowup"], run_["report_blowup"]

    assert blowups(PSK) == (1, None)
    assert blowups(CAPTURES / "lab" / "no-proposal.pcapng") == (1, 1)


def test_a_secret_that_is_wrong(run, credentials):
    credentials.write_text('[local]\nidentity = "initiator.lab"\npsk = "swordfisi"\n')
    with peer(Standing()) as one:
        done = run(
            "replay", str(PSK), *at(one.target), "--mode", "reenact", "--credentials", str(credentials), "--udp-sockets"
        )  # fmt: skip
    assert done.exit_code == 1
    assert "no IKE SA was established: " in done.stderr
    assert "swordfis" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--target", "192.0.3.1"], "--allow-public-target"),
        (["--target", "nobody"], "is not a target"),
        (
            ["--target", "127.0.0.1", "--mode", "live"],
            "'live' is not one of 'verbatim', 'reenact', 'impair'",
        ),
        (["--target", "127.0.0.1", "--mode", "reenact"], "--credentials"),
        (["--target", "127.0.0.1", "--retransmission-policy", "cisco"], "--retransmission-policy"),
        (["--target", "127.0.0.1", "--mode", "impair", "--credentials", "x", "--drop", "2"], "--drop"),
        (["--target", "127.0.0.1", "--drop", "0.1"], "needs --mode impair"),
        (["--target", "127.0.0.1", "--format", "csv"], "'csv' is not one of 'terminal', 'json'"),
        (["--target", "127.0.0.1", "-w", "-"], "name a file"),
        (["--target", "127.0.0.1", "-w", "new.txt", "-o", "./new.txt"], "are the same file"),
        (["--target", "127.0.0.1", "-w", "new.pcapng", "-o", "new.keys.json"], "are the same file"),
        (["--target", "127.0.0.1", "--credentials", __file__, "-o", __file__], "would be overwritten"),
        (["--target", "127.0.0.1", "--fuzz", "1", "--compare-recorded"], "cannot be combined with --fuzz"),
        (["--target", "127.0.0.1", "--fuzz", "1", "--mode", "reenact", "--credentials", "x"], "--fuzz"),
        ([], "--target"),
    ],
)
def test_wrong_usage_exits_with_2(run, options, what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("replay", str(PSK), *options)
    assert done.exit_code == 2, done.stderr
    assert what in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("written", ["a.pcapng", "link.pcapng", "b.pcapng"])
def test_what_is_read_is_not_overwritten(run, tmp_path, written):
    """The capture, by its name and through a link; and the keys to it, which our own would replace."""
    capture, keys = tmp_path / "a.pcapng", tmp_path / "b.keys.json"
    capture.write_bytes(PSK.read_bytes())
    keys.write_bytes(PSK.with_name(f"{PSK.stem}.keys.json").read_bytes())
    (tmp_path / "link.pcapng").symlink_to(capture)
    before = capture.read_bytes(), keys.read_bytes()
    target = f"127.0.0.1:{free_port()}"
    done = run(
        "replay", str(capture), "--keys", str(keys), "--target", target, "--udp-sockets", "-w", str(tmp_path / written)
    )  # fmt: skip
    assert done.exit_code == 2
    assert "would be overwritten" in done.stderr
    assert (capture.read_bytes(), keys.read_bytes()) == before


@pytest.mark.parametrize(
    ("capture", "options", "what"),
    [
        (CAPTURES / "ikev1-xauth.pcap", [], "no complete IKE_SA_INIT request"),
        (PSK, ["--handshake", "9"], "no IKEv2 handshake 9"),
        ("none.pcap", [], "none.pcap"),
        (PSK, ["--mode", "reenact", "--credentials", "nothing.toml"], "nothing.toml"),
        (PSK, ["--mode", "reenact", "--credentials", str(PSK)], "ipv6.pcapng"),
        (
            CAPTURES / "lab" / "two-additional.pcapng",
            ["--mode", "reenact", "--credentials", "KEYS"],
            "ML-KEM-512",
        ),
    ],
)
def test_impossible_replays_are_errors(run, credentials, capture, options, what):
    options = [str(credentials) if option == "KEYS" else option for option in options]
    done = run("replay", str(capture), "--target", f"127.0.0.1:{free_port()}", "--udp-sockets", *options)
    assert done.exit_code == 1, done.stdout
    assert what in done.stderr
    assert "sending to" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ("/proc/x.pcapng", "/proc/x.pcapng: "),
        ("nowhere/x.pcapng", "Create it first, or name another output with -w"),
        ("taken.pcapng", "taken.keys.json is not one"),
    ],
)
def test_where_our_capture_cannot_be_written(run, tmp_path, credentials, place, what):
    """Found before anything is sent, and told with the option that named it."""
    (tmp_path / "taken.keys.json").mkdir()
    with peer(Standing()) as one:
        done = run(
            "replay", str(PSK), *at(one.target), "--mode", "reenact", "--credentials", str(credentials), "--udp-sockets",
            "-w", str(tmp_path / place),
        )  # fmt: skip
    assert done.exit_code in (1, 2)
    assert what in done.stderr
    assert "-w" in done.stderr
    assert "internal error" not in done.stderr
    assert one.got == []


def test_a_full_disk_is_an_error(run, tmp_path, monkeypatch):
    """/dev/full behind the name of our capture: written to, and refused when it comes to the disk."""

    def opened(path, *arguments, original=open, **more):
        return original("/dev/full" if str(path).endswith(".tmp") else path, *arguments, **more)

    monkeypatch.setattr("builtins.open", opened)
    with peer(Standing()) as one:
        done = run("replay", str(PSK), *at(one.target), *SILENT, "-w", str(tmp_path / "x.pcapng"))
        requested = run("replay", str(PSK), *at(one.target), *SILENT, "--quiet")
    lost = "x.pcapng: cannot be written: No space left on device"
    assert done.exit_code == 1
    assert done.stderr.endswith(f"{lost}. Name another output with -w\n")
    # what was answered is known without it
    assert "  outcome   1 of 2 requests answered" in done.stdout.splitlines()
    assert "  note       " in done.stdout
    assert list(tmp_path.iterdir()) == []
    # nobody asked for the capture: what was asked for is done
    assert requested.exit_code == 0
    assert "live.pcapng: cannot be written: No space left on device" in requested.stderr


def test_a_disk_that_fills_up_during_a_run(run, tmp_path, credentials, monkeypatch):
    """The first packet already meets it: the handshake goes on to its end, and the target is told of the end."""

    def opened(path, mode="r", buffering=-1, *, original=open, **more):
        if str(path).endswith(".tmp") and "b" in mode:
            path, buffering = "/dev/full", 400
        return original(path, mode, buffering, **more)

    monkeypatch.setattr("builtins.open", opened)
    behave = Standing()
    with peer(behave) as one:
        done = run(
            "replay", str(PSK), *at(one.target), "--mode", "reenact", "--credentials", str(credentials), "--udp-sockets",
            "--runs", "2", "--compare-recorded", "--format", "json", "-w", str(tmp_path / "x.pcapng"),
        )  # fmt: skip
    assert done.exit_code == 1
    assert all(one.established and one.deleted for one in behave.all.values())
    found = json.loads(done.stdout)
    assert [(one["outcome"], one["blowup"], one["report_blowup"]) for one in found["runs"]] == [
        ("established", 1, None)
    ] * 2
    assert found["recording"] is found["keys"] is found["report"] is None
    assert found["notes"][-1].endswith("x.pcapng: cannot be written: No space left on device")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["credentials.toml"]


def test_keys_that_cannot_be_written_in_the_end(run, tmp_path, credentials):
    """Something else got their name while the handshake was under way."""
    behave = Standing()

    def occupying(data, role):
        (tmp_path / "x.keys.json").mkdir(exist_ok=True)
        return behave(data, role)

    with peer(occupying) as one:
        done = run(
            "replay", str(PSK), *at(one.target), "--mode", "reenact", "--credentials", str(credentials), "--udp-sockets",
            "--format", "json", "-w", str(tmp_path / "x.pcapng"),
        )  # fmt: skip
    assert done.exit_code == 1
    assert "x.keys.json: cannot be written: not a regular file. Name another output with -w" in done.stderr
    result = json.loads(done.stdout)
    assert (result["runs"][0]["report_blowup"], result["keys"]) == (1, None)
    assert result["report"].startswith(f"ikeanalyze report {tmp_path / 'x.pcapng'} --vantage initiator --port")
    assert (tmp_path / "x.pcapng").stat().st_size > 1000


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_it_gets_what_was_done(tmp_path, how):
    """As another process, which is ended while it waits."""
    live = tmp_path / "live.pcapng"
    with peer(lambda *_: []) as one:
        command = [
            sys.executable, "-m", "ikeanalyze", "replay", str(PSK), *at(one.target), "--udp-sockets", "--listen", "60",
            "--runs", "5", "-w", str(live),
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 20
        while len(one.got) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(how)
        shown, reported = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "  outcome   broken off: interrupted" in shown.splitlines()
    assert reported.count("interrupted") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["live.pcapng"]
    assert len(ikeanalyze.read(live, ports=[one.target.port, one.target.nat_port]).frames) == 2


def test_standard_input_is_refused(run):
    done = run("replay", "-", "--target", "127.0.0.1")
    assert done.exit_code == 2
    assert "standard input" in done.stderr or "read twice" in done.stderr


def test_the_output_is_not_the_file_of_the_retransmission_policy(run, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text('kind = "table"\nwaits = [1, 2]\n')
    done = run("replay", str(PSK), "--target", "127.0.0.1", "--retransmission-policy", str(policy), "-o", str(policy))
    assert done.exit_code == 2
    assert "is an input file, it would be overwritten" in done.stderr
    assert policy.read_text().startswith("kind")


def test_a_shape_file_instead_of_a_capture(run, tmp_path, credentials):
    shape = tmp_path / "shape.toml"
    shape.write_text('proposals = "aes256-sha256-ecp256"\nauth = "psk"\n')
    with peer(Standing()) as one:
        done = run(
            "replay", str(shape), *at(one.target), "--mode", "reenact", "--credentials", str(credentials),
            "--udp-sockets", "--format", "json",
        )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["handshake"] is None
    assert [each["outcome"] for each in result["runs"]] == ["established"]
    assert f"of the shape in {shape}" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("options", "option"), [([], "--mode"), (["--mode", "reenact", "--compare-recorded"], "--compare-recorded")]
)
def test_a_shape_file_has_no_recorded_messages(run, tmp_path, credentials, options, option):
    shape = tmp_path / "shape.toml"
    shape.write_text("")
    done = run("replay", str(shape), "--target", "127.0.0.1", "--credentials", str(credentials), *options)
    assert done.exit_code == 2
    assert option in done.stderr
    assert "shape file" in done.stderr


@pytest.fixture
def shape(tmp_path):
    path = tmp_path / "shape.toml"
    path.write_text('auth = "psk"\nfragment_size = 0\n')
    return path


def test_a_handshake_over_tcp(run, tmp_path, credentials, shape):
    """RFC 9329: all messages on one connection, after the stream prefix."""
    behave = Standing()
    live = tmp_path / "live.pcapng"
    answers = lambda data: [framed(bytes(4) + answer) for answer in behave(data, 4500)]  # noqa: E731
    with tcp_peer(answers) as one:
        done = run(
            "replay", str(shape), "--target", "127.0.0.1", "--nat-port", str(one.port), "--tcp", "--mode", "reenact",
            "--credentials", str(credentials), "--format", "json", "-w", str(live),
        )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert one.prefix == b"IKETCP"
    result = json.loads(done.stdout)
    (replayed,) = result["runs"]
    assert (result["way"], replayed["outcome"], replayed["handshake"]["deleted"]) == ("TCP", "established", True)
    found = ikeanalyze.read(live, ports=[one.port], keys=[tmp_path / "live.keys.json"])
    row = found.handshakes.row(0, named=True)
    assert row["outcome"] == "established"
    assert set(found.frames["encapsulation"]) == {"TCP 4500"}
    assert found.messages["type"].to_list() == ["IKE_SA_INIT"] * 2 + ["IKE_AUTH"] * 2 + ["INFORMATIONAL"] * 2
    assert not found.warnings


def test_tshark_reads_the_capture_of_a_handshake_over_tcp(tshark, run, tmp_path, credentials, shape):
    behave = Standing()
    live = tmp_path / "live.pcapng"
    answers = lambda data: [framed(bytes(4) + answer) for answer in behave(data, 4500)]  # noqa: E731
    with tcp_peer(answers) as one:
        run(
            "replay", str(shape), "--target", "127.0.0.1", "--nat-port", str(one.port), "--tcp", "--mode", "reenact",
            "--credentials", str(credentials), "-w", str(live),
        )  # fmt: skip
    fields = [part for field in ("tcp.payload", "tcp.checksum.status", "tcp.analysis.flags") for part in ("-e", field)]
    done = tshark.run("-n", "-o", "tcp.check_checksum:TRUE", "-Tfields", *fields, capture=live)
    assert done.status == 0, done.stderr
    rows = [line.split("\t") for line in done.lines]
    assert {status for _, status, _ in rows} == {"1"}  # checksums are right
    assert {flags for *_, flags in rows} == {""}  # no gap, no overlap
    stream = b"".join(bytes.fromhex(payload) for payload, *_ in rows)
    messages = [message for sent in one.got for message in (sent, *behave(sent, 4500))]
    assert stream == b"IKETCP" + b"".join(framed(bytes(4) + message) for message in messages)


@pytest.mark.parametrize(
    ("options", "problem"),
    [(["--mode", "impair"], "--mode reenact"), (["--mode", "reenact", "--udp-sockets"], "--udp-sockets")],
)
def test_tcp_is_for_reenact_only(run, credentials, shape, options, problem):
    done = run("replay", str(shape), "--target", "127.0.0.1", "--tcp", "--credentials", str(credentials), *options)
    assert done.exit_code == 2
    assert problem in done.stderr
