"""Against strongSwan in a namespace of the lab: the way that a user goes."""

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace

import polars as pl
import pytest

import ikeanalyze
from ikeanalyze.lab.scenario.expansion import expand_cases
from ikeanalyze.replay.responses import summarise_response
from ikeanalyze.replay.session.recorded_messages import load_recorded_handshakes
from ikeanalyze.replay.session.run import ReplayRunner
from ikeanalyze.replay.transport.open import open_transport
from ikeanalyze.replay.transport.target import parse_target
from ikeanalyze.wire.ikev2.message import parse_init
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from tests.lab.live_responder import run_responder, write_credentials
from tests.paths import CAPTURES

pytestmark = pytest.mark.lab
#: A responder that talks to whoever half-opens IKE SAs by the dozen.
PATIENT = {"block_threshold": "0", "cookie_threshold": "10000", "cookie_threshold_ip": "10000"}
ML_KEM = "aes256gcm16-prfsha384-ecp384-ke1_mlkem768"
#: strongSwan's words for IANA's.
FIELD_NAMES = (
    (r"AES-CBC-(\d+)/", r"aes\1/"),
    (r"AES-GCM-16-(\d+)/", r"aes\1gcm16/"),
    ("CHACHA20-POLY1305", "chacha20poly1305"),
    (r"HMAC-SHA2-(\d+)-\d+/HMAC-SHA2-\1", r"sha\1"),
    ("HMAC-SHA1-96/HMAC-SHA1", "sha1"),
    (r"HMAC-SHA2-(\d+)", r"prfsha\1"),
    (r"ADDKE(\d):ML-KEM-(\d+)", r"ke\1_mlkem\2"),
    (r"ECP-(\d+)", r"ecp\1"),
    (r"MODP-(\d+)", r"modp\1"),
    ("X25519", "x25519"),
)


def case_of(proposals, *, initiator=None, stack="strongswan", **more):
    sides = {"responder": {"stack": stack}} | ({} if initiator is None else {"initiator": initiator})
    return expand_cases({"ike": {"proposals": proposals, **more}, **sides}, "test", "replay")[0]


def in_strongswans_words(proposal):
    for pattern, word in FIELD_NAMES:
        proposal = re.sub(pattern, word, proposal)
    return proposal.replace("/", "-")


def recordings():
    """Each IKE_SA_INIT request between daemons that was answered: its capture's name, what was configured, the request
    with its answer alone, and what that says. One with a COOKIE is left out: it is that of another SPIi and nonce."""
    for path in sorted([*CAPTURES.glob("*.pcap*"), *CAPTURES.glob("lab/*.pcapng")]):
        analysis = ikeanalyze.read(path)
        ids = analysis.handshakes.filter(pl.col("protocol") == "IKEv2")["handshake"].to_list()
        toml = CAPTURES / "scenarios" / f"{path.stem}.toml"
        settings = tomllib.loads(toml.read_text()) if toml.exists() else {}
        known = settings.get("ike", {})
        # an older release answers in its own way; other stacks are compared with strongSwan
        recorded_with = settings.get("responder", {}).get("stack", "")
        stack = recorded_with if str(recorded_with).startswith("strongswan-") else "strongswan"
        for recorded_handshake in load_recorded_handshakes(str(path), analysis, ids):
            # by exchange: a retransmission is the same message again
            requests = {
                message.exchange: message
                for message in reversed(recorded_handshake.requests)
                if message.exchange_type == 34
            }
            answered = [
                (sent, got) for sent in requests.values() if (got := recorded_handshake.response_to(sent)) is not None
            ]
            kinds = [summarise_response(got.data) for _, got in answered]
            chosen = next((kind.proposal for kind in kinds if kind.proposal), None)
            configured = known.get("responder_proposals") or (chosen and in_strongswans_words(chosen))
            for (sent, got), kind in zip(answered, kinds, strict=True):
                if NotifyType.COOKIE not in (notify for notify, _ in parse_init(sent.data).notifies):
                    yield path.stem, (configured, stack), replace(recorded_handshake, messages=(sent, got)), kind


def test_every_recorded_first_message_gets_the_same_kind_of_answer(lab):
    groups = {}
    for name, configured, handshake, recorded in recordings():
        # whoever asked for a cookie had half-open IKE SAs before
        groups.setdefault((configured, recorded.kind == "COOKIE"), []).append((name, handshake, recorded))
    # each is another one
    firsts = [handshake.first.data for some in groups.values() for _, handshake, _ in some]
    assert len(set(firsts)) == len(firsts) > 110
    assert len(groups) > 10
    wrong = []
    for (configured, cookies), some in groups.items():
        settings = {**PATIENT, "cookie_threshold": "1" if cookies else "10000"}
        proposals, stack = configured
        with run_responder(case_of(proposals, stack=stack), settings) as responder:
            if cookies:
                assert len(list(answers_of(responder, some[:1]))) == 1
            for name, kind, recorded in answers_of(responder, some):
                if kind != (recorded.kind, recorded.proposal, recorded.key_exchange):
                    wrong.append((name, configured, recorded.kind, kind))
    assert not wrong


def answers_of(responder, some):
    target = parse_target(responder.remote)
    with responder.enter_initiator_netns():
        transport, why = open_transport(target, lambda *_: None)
    assert why is None
    try:
        runs = ReplayRunner(target, transport, rate=1000, seconds=10, randomness=os.urandom)
        for name, handshake, recorded in some:
            (run,) = runs.run_verbatim(handshake, 1, speed=1, wait_s=3)
            arrived = run.verbatim.sent[0].answers
            answer = arrived[0].answer if arrived else None
            yield name, answer and (answer.kind, answer.proposal, answer.key_exchange), recorded
    finally:
        transport.close()


@pytest.fixture
def ml_kem(lab, tmp_path):
    """A responder with ML-KEM, and a function that replays to it: JSON, standard error."""
    case = case_of(ML_KEM)
    with run_responder(case, PATIENT) as responder:
        credentials = write_credentials(responder, case, tmp_path)

        def replay(*options, status=0):
            command = [sys.executable, "-m", "ikeanalyze", "replay", str(CAPTURES / "pq-mlkem768-psk.pcap")]
            live = [] if "--mode" not in options else ["--credentials", str(credentials)]
            done = subprocess.run(
                responder.host.command(*command, "--target", responder.remote, "--format", "json", *live, *options),
                capture_output=True, text=True, timeout=200, check=False,
            )  # fmt: skip
            assert done.returncode == status, done.stderr
            return json.loads(done.stdout), done.stderr

        replay.responder = responder
        yield replay


@pytest.mark.parametrize("sockets", [False, True])
def test_a_live_handshake_of_the_same_shape(ml_kem, tmp_path, sockets):
    path = tmp_path / "live.pcapng"
    way = ["--udp-sockets"] if sockets else []
    result, reported = ml_kem("--mode", "reenact", "--compare-recorded", "-w", str(path), *way)
    (run,) = result["runs"]
    assert result["way"] == ("UDP" if sockets else "layer 3")
    assert run["handshake"]["established"]
    assert "established between" in ml_kem.responder.log
    assert "a live handshake of the shape of handshake 1" in reported
    # the report of our own capture, with our own keys
    report = ikeanalyze.read(path, keys=[str(tmp_path / "live.keys.json")])
    (row,) = report.handshakes.iter_rows(named=True)
    assert (row["outcome"], row["spi_i"], row["auth_guessed"]) == ("established", run["spi_i"], False)
    assert row["initiator_bytes"] == run["sent"]["bytes"]
    assert row["responder_bytes"] == run["received"]["bytes"]
    compared = run["compared"]
    assert compared["outcome"] == {"recorded": "completed", "live": "established"}
    rows = {exchange["type"]: (exchange["recorded"], exchange["live"]) for exchange in compared["exchanges"]}
    assert list(rows) == ["IKE_SA_INIT", "IKE_INTERMEDIATE", "IKE_AUTH"]
    # the same proposals and fragments: these are of the same size, byte by byte
    for name in ("IKE_SA_INIT", "IKE_INTERMEDIATE"):
        recorded, live = rows[name]
        assert (live["messages"], live["bytes"]) == (recorded["messages"], recorded["bytes"])


def test_a_target_that_is_port_4500(ml_kem):
    """Everything with the non-ESP marker, from the beginning on."""
    target = f"{ml_kem.responder.remote}:4500"
    result, _ = ml_kem("--mode", "reenact", "--target", target)
    assert result["way"] == "layer 3"
    assert result["runs"][0]["handshake"]["established"]


def test_the_responder_keeps_no_ike_sa(ml_kem):
    """The response to IKE_AUTH is dropped, so only the responder has an IKE SA; then the faults apply to our delete."""
    policy = ("--retransmission-policy", "exponential:timeout=0.5,tries=1")
    result, reported = ml_kem("--mode", "impair", "--drop", "IKE_AUTH:response:x*", *policy, status=1)
    assert result["runs"][0]["handshake"]["deleted"] is True
    assert "no IKE SA was established: no answer; the injected faults affected" in reported
    result, _ = ml_kem("--mode", "impair", "--drop", "any:id3:x*", *policy)
    assert result["runs"][0]["handshake"]["deleted"] is True
    log = ml_kem.responder.log
    assert log.count("established between") == log.count("IKE_SA deleted") == 2


def test_twenty_runs_at_a_loss_of_20_percent(ml_kem, tmp_path):
    path = tmp_path / "live.pcapng"
    policy = "exponential:timeout=0.06,base=1.25,tries=14"
    result, _ = ml_kem(
        "--mode", "impair", "--drop", "0.2", "--runs", "20", "--seed", "1", "--retransmission-policy", policy, "-w", str(path)
    )  # fmt: skip
    runs = result["runs"]
    assert len(runs) == 20
    assert all(run["broken_off"] is None for run in runs)
    assert all(run["handshake"]["established"] for run in runs)
    assert sum(run["faults_met"].get("drop", 0) for run in runs) > 20
    report = ikeanalyze.read(path)
    rows = {row["spi_i"]: row for row in report.handshakes.iter_rows(named=True)}
    assert len(rows) == 20
    assert max(run["blowup"] for run in runs) > 1.2
    for run in runs:
        row = rows[run["spi_i"]]
        assert row["blowup"] == pytest.approx(run["blowup"]) == run["report_blowup"]
        # what the initiator itself counts: 28 bytes of headers, 4 of marker after IKE_SA_INIT
        sent = [
            exchange["sent"]["bytes"]
            + exchange["sent"]["datagrams"] * (28 if exchange["type"] == "IKE_SA_INIT" else 32)
            for exchange in run["handshake"]["exchanges"]
            if exchange["type"] != "INFORMATIONAL"
        ]
        assert sum(sent) == run["sent"]["bytes"] == row["initiator_bytes"]
    assert ml_kem.responder.log.count("established between") >= 20


def test_ip_fragments_are_counted_as_the_report_counts_them(lab, tmp_path):
    """Certificates without IKE fragmentation: what they take on the wire has more than one IP header."""
    capture, path = CAPTURES / "lab" / "ip-fragments.pcapng", tmp_path / "live.pcapng"
    case = case_of("aes256-sha512-modp4096", fragment_size=0, initiator={"auth": "rsa", "chain": 3})
    with run_responder(case) as responder:
        command = [
            sys.executable, "-m", "ikeanalyze", "replay", str(capture), "--keys", str(capture.with_suffix(".keys.json")),
            "--target", responder.remote, "--credentials", str(write_credentials(responder, case, tmp_path)),
            "--mode", "impair", "--drop", "IKE_AUTH:response", "--retransmission-policy", "exponential:timeout=1", "-w", str(path),
            "--format", "json",
        ]  # fmt: skip
        done = subprocess.run(responder.host.command(*command), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    (row,) = ikeanalyze.read(path).handshakes.iter_rows(named=True)
    assert row["ip_fragments"] >= 4
    assert (run["sent"]["bytes"], run["received"]["bytes"]) == (
        row["initiator_bytes"],
        row["responder_bytes"],
    )
    assert run["blowup"] == pytest.approx(row["blowup"]) == run["report_blowup"]


def test_a_named_fragment_is_lost_once(ml_kem):
    result, _ = ml_kem(
        "--mode", "impair", "--drop", "IKE_INTERMEDIATE:2/2", "--retransmission-policy", "exponential:timeout=1"
    )  # fmt: skip
    (run,) = result["runs"]
    assert run["faults_met"] == {"drop": 1}
    transmissions = {exchange["type"]: exchange["transmissions"] for exchange in run["handshake"]["exchanges"]}
    assert transmissions["IKE_INTERMEDIATE"] == 2
    assert transmissions["IKE_SA_INIT"] == transmissions["IKE_AUTH"] == 1
    assert run["handshake"]["established"]


def test_two_hundred_mutated_messages_leave_the_responder_up(ml_kem):
    result, reported = ml_kem("--fuzz", "200", "--seed", "1", "--rate", "200")
    mutated = result["mutated"]
    assert (mutated["up"], mutated["sent"]) == (True, 200)
    assert sum(mutated["answered"].values()) > 50
    assert "200 messages with errors, made of 1 recorded first message, 200 a second" in reported
    assert ml_kem.responder.responder.daemon.alive
