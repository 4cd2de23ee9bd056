"""`--keys` with recorded captures: what the daemons' own logs say, and none of their secrets."""

import csv
import gzip
import io
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.paths import CAPTURES

LOGGED = {
    "psk-classic": ".pcap",
    "pq-mlkem768-psk": ".pcap",
    "invalid-ke": ".pcap",
    "eap-md5-radius": ".pcapng",
}
TEXTS = ("terminal", "markdown", "json", "jsonl", "csv")

DUMP = re.compile(r"\[\w+\] (?P<label>[^\n]*) => (?P<size>\d+) bytes")
ROW = re.compile(r"\] +\d+: (?P<hex>(?:[0-9A-F]{2} )+)")
SECRET = re.compile(r".*secret|SKEYSEED|SK_p|encryption \w+ key|prf\(secret, keypad\)")


def given(name: str) -> list[str]:
    return [
        str(CAPTURES / (name + LOGGED.get(name, ".pcap"))),
        "--keys",
        str(CAPTURES / f"{name}.charon.log.gz"),
    ]


def secrets(name: str) -> Iterator[bytes]:
    """What the log has under a label that tells of a secret, 16 bytes or more."""
    data: bytearray | None = None
    for line in gzip.decompress((CAPTURES / f"{name}.charon.log.gz").read_bytes()).decode().splitlines():
        if head := DUMP.search(line):
            if data:
                yield bytes(data)
            data = bytearray() if SECRET.fullmatch(head["label"]) and int(head["size"]) >= 16 else None
        elif data is not None and (row := ROW.search(line)):
            data += bytes.fromhex(row["hex"])
    if data:
        yield bytes(data)


def read(run, name: str) -> dict:
    done = run("report", *given(name), "--format", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_the_post_quantum_handshake_is_decrypted(run):
    (handshake,) = read(run, "pq-mlkem768-psk")["handshakes"]
    assert handshake["outcome"] == "established"
    assert handshake["auth"] == {"initiator": "psk", "responder": "psk", "eap": None, "guessed": False}
    # sizes: RFC 5903, section 7, and FIPS 203, table 3
    assert [
        (
            key_exchange["exchange"],
            key_exchange["slot"],
            key_exchange["method"],
            key_exchange["request"],
            key_exchange["request_bytes"],
        )
        for key_exchange in handshake["key_exchanges"]
    ] == [
        ("IKE_SA_INIT", 0, "ECP-384", "public value", 96),
        ("IKE_INTERMEDIATE", 1, "ML-KEM-768", "encapsulation key", 1184),
    ]
    assert [
        (key_exchange["response"], key_exchange["response_bytes"]) for key_exchange in handshake["key_exchanges"]
    ] == [
        ("public value", 96),
        ("ciphertext", 1088),
    ]
    assert not any(key_exchange["findings"] for key_exchange in handshake["key_exchanges"])
    assert [(exchange["epoch"], exchange["decrypted"]) for exchange in handshake["exchanges"]] == [
        (None, None),
        (0, True),
        (1, True),
    ]
    link = handshake["links"][0]
    assert sum(part["bytes"] for part in handshake["payload_bytes"]) == (
        link["a_to_b"]["bytes"] + link["b_to_a"]["bytes"]
    )


@pytest.mark.parametrize("name", LOGGED)
def test_payloads_are_those_that_the_daemons_made(run, name):
    truth = json.loads((CAPTURES / f"{name}.truth.json").read_text())
    made: dict = {}
    for _, kind, half, number, payloads in (
        item for side in ("ini", "res") for item in truth.get(side, ()) if item[0] == "gen"
    ):
        names = tuple(text.split("/")[0] for text in re.sub(r"\(.*?\)", "", payloads).split())
        if names != ("EF",):  # a fragment
            made.setdefault((kind, number, half), []).append(names)
    reported: dict = {}
    (handshake,) = read(run, name)["handshakes"]
    for exchange in handshake["exchanges"]:
        for half in ("request", "response"):
            names = tuple(text.split("(")[0] for text in exchange[half]["payloads"])
            reported.setdefault((exchange["type"], exchange["message_id"], half), []).append(names)
    common = set(made) & set(reported)
    assert len(common) >= 4
    assert {key: reported[key] for key in common} == {key: made[key] for key in common}


def test_eap_is_matched_to_radius(run):
    (handshake,) = read(run, "eap-md5-radius")["handshakes"]
    assert handshake["auth"]["eap"] == "EAP-MD5"
    packets = [item for exchange in handshake["exchanges"] for item in exchange["radius"]]
    # the codes as tshark shows them
    assert [(packet["code"], packet["frame"]) for packet in packets] == [
        ("Access-Request", 6),
        ("Access-Challenge", 7),
        ("Access-Request", 10),
        ("Access-Accept", 11),
    ]
    assert {packet["matched_by"] for packet in packets} == {"EAP"}
    ladder = run("ladder", *given("eap-md5-radius")).stdout
    assert "AAA: 198.51.100.2, packets matched by EAP" in ladder
    assert "EAP(Response Identity carol)" in ladder


def test_many_handshakes_are_decrypted(run):
    document = read(run, "loss20-classic")
    assert document["totals"]["outcomes"]["established"] == 25
    assert {handshake["auth"]["initiator"] for handshake in document["handshakes"]} == {"ecdsa-384"}
    for handshake in document["handshakes"]:
        assert [certificate["side"] for certificate in handshake["certificates"]] == ["initiator", "responder"]
    rows = list(csv.DictReader(io.StringIO(run("report", *given("loss20-classic"), "--format", "csv").stdout)))
    assert all(row["key_exchange_bytes"] == "192" for row in rows)
    assert all(int(row["payload_CERT_bytes"]) > int(row["certificate_bytes"]) > 0 for row in rows)


@pytest.mark.parametrize("name", [*LOGGED, "loss20-classic"])
def test_no_secret_is_printed(run, name, tmp_path):
    reported = []
    for form in TEXTS:
        done = run("report", *given(name), "--format", form, "--no-limit", "--verbose")
        reported += [done.stdout, done.stderr]
    done = run("ladder", *given(name), "--verbose")
    reported += [done.stdout, done.stderr]
    assert run("report", *given(name), "--format", "parquet", "-o", str(tmp_path / "p")).exit_code == 0
    reported += [pl.read_parquet(path).write_ndjson() for path in (tmp_path / "p").iterdir()]
    digits = re.sub(r"[^0-9a-f]", "", "".join(reported).lower())
    text = "".join(reported)
    result = list(secrets(name))
    assert len(result) >= 7, "SKEYSEED and the SK_*"
    for secret in result:
        assert secret.hex()[:32] not in digits
        assert b64encode(secret).decode()[:20] not in text


def test_keys_of_another_handshake(run):
    capture, keys = given("psk-classic")[0], given("pq-mlkem768-psk")[2]
    done = run("report", capture, "--keys", keys)
    assert done.exit_code == 0
    said = f"ikeanalyze: {capture}: none of the keys fits any of its encrypted messages: they are of other IKE SAs, such as "
    assert done.stderr.startswith(said)
    assert "Handshake 1: completed" in done.stdout


def test_a_file_without_keys_is_skipped(run, tmp_path):
    capture, none = given("psk-classic")[0], str(tmp_path / "none")
    rubbish = tmp_path / "rubbish"
    rubbish.write_text("no key at all\n")
    for command in ("report", "ladder"):
        done = run(command, *given("psk-classic"), "--keys", none, "--keys", str(rubbish), "--keys", capture)
        assert done.exit_code == 3
        assert "Handshake 1: established" in done.stdout
        lines = done.stderr.splitlines()
        assert lines[0] == f"ikeanalyze: {none}: no such file"
        assert lines[1].startswith(f"ikeanalyze: {rubbish}: contains no key.")
        assert len(lines) == 3


def test_a_capture_as_keys_and_keys_as_a_capture(run):
    capture, _, keys = given("psk-classic")
    other = given("pq-mlkem768-psk")[0]
    done = run("report", capture, "--keys", other)
    assert done.exit_code == 3
    assert done.stderr.endswith(f"{other}: this is a capture, not a key file. Name it as CAPTURE, without --keys\n")
    done = run("report", capture, keys)
    assert done.exit_code == 3
    assert done.stderr.endswith("it looks like text. It has keys: name it with --keys\n")


def test_keys_on_standard_input(run):
    import subprocess
    import sys

    capture, _, keys = given("psk-classic")
    command = [sys.executable, "-m", "ikeanalyze", "report", capture, "--keys", "-", "--format", "json"]
    log = gzip.decompress(Path(keys).read_bytes())
    done = subprocess.run(command, input=log, capture_output=True, timeout=60, cwd=CAPTURES.parent)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["handshakes"][0]["outcome"] == "established"
    done = subprocess.run(command, input=b"nothing", capture_output=True, timeout=60, cwd=CAPTURES.parent)
    assert done.returncode == 3
    assert done.stderr.startswith(b"ikeanalyze: standard input: contains no key.")
