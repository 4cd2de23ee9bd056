"""The JSON document has what docs/report.md says of it, and nothing that stands nowhere there."""

import json
import re

import pytest
from typer.testing import CliRunner

from ikeanalyze.cli.app import app
from tests.paths import LAB_CAPTURES, ROOT

LAB = LAB_CAPTURES
#: Objects whose keys are values of the protocol, or are listed in words.
OPEN = {"phases"}

MESSAGES = {"messages", "frames", "bytes"}
PARTS = {"network_ms", "initiator_ms", "responder_ms", "aaa_ms", "retransmission_wait_ms"}


def document(*arguments: str) -> dict:
    done = CliRunner().invoke(app, ["report", *arguments, "--format", "json"], prog_name="ikeanalyze")
    assert done.exit_code in (0, 3), done.stderr
    return json.loads(done.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def keys_of(value: object) -> set[str]:
    """The names of all keys, wherever they are."""
    if isinstance(value, list):
        return {key for item in value for key in keys_of(item)}
    if not isinstance(value, dict):
        return set()
    inner = {key for name, entry in value.items() if name not in OPEN for key in keys_of(entry)}
    return {*value, *inner}


CASES = {
    "eap-tls_initiator-chain-2_aaa-chain-2": [
        "--keys",
        str(LAB / "eap-tls_initiator-chain-2_aaa-chain-2.keys.json"),
    ],
    "followup": ["--keys", str(LAB / "followup.keys.json")],
    "loss20": ["missing.pcap"],
    "no-proposal": [],
}


@pytest.fixture(scope="module")
def documents():
    return {name: document(str(LAB / f"{name}.pcapng"), *more) for name, more in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_every_key_is_described(documents, name):
    page = (ROOT / "docs" / "report.md").read_text()
    described = set(re.findall(r"[`\"]([A-Za-z_0-9-]+)[`\"]", page))
    assert keys_of(documents[name]) - described == set()


@pytest.mark.parametrize("name", CASES)
def test_parts_add_up_to_the_set_up_time(documents, name):
    result = documents[name]
    for capture in result["captures"]:
        assert sum(capture["accounting"].values()) == capture["packets"]
        assert sum(capture["accounting_bytes"].values()) == capture["bytes"]
    assert result["handshakes"]
    for handshake in result["handshakes"]:
        link = handshake["links"][0]
        assert link["name"] == "initiator-responder"
        for count in MESSAGES:
            whole = link["a_to_b"][count] + link["b_to_a"][count]
            assert sum(phase[count] for phase in handshake["phases"].values()) == whole
        parts = [handshake["breakdown"][part] for part in PARTS if handshake["breakdown"][part] is not None]
        assert sum(parts) == pytest.approx(handshake["setup_ms"] or 0, abs=1e-5)  # None: of an IKE SA made by rekeying
    assert result["totals"]["handshakes"] == len(result["handshakes"])
