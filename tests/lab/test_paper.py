"""A report from its scenario to its page: `ikeanalyze paper run` runs the lab."""

import json

import pytest
from typer.testing import CliRunner

from ikeanalyze.cli.app import app

CLAIMS = """
title = "PSK"
source = "Nobody: Nothing"
question = "How many messages?"
answer = "{messages}."
[recording]
psk = { jobs = 2 }
[[claims]]
id = "messages"
item = "Messages"
place = "RFC 7296, 1.2"
kind = "exact"
value = 4
sql = "SELECT initiator_messages + responder_messages AS value FROM handshakes WHERE experiment = 'psk'"
expect = "reproduced"
"""


@pytest.mark.lab
def test_a_report_is_recorded_and_rendered(lab, tmp_path):
    folder = tmp_path / "reports" / "900-psk"
    (folder / "scenarios").mkdir(parents=True)
    (folder / "scenarios" / "psk.toml").write_text("iterations = 5\n")
    (folder / "claims.toml").write_text(CLAIMS)
    (folder / "question.md").write_text("How many messages?\n")
    paper = ["--reports", str(folder.parent)]
    arguments = ["paper", "run", "900", "-n", "2", "--recordings", str(tmp_path / "recordings"), *paper]
    for _ in range(2):  # the second time, no handshake is missing
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.stderr
        (manifest,) = (tmp_path / "recordings" / "psk").glob("*.manifest.json")
        assert json.loads(manifest.read_bytes())["machine"]["jobs"] == 2
        assert "| Messages | RFC 7296, 1.2 | 4 | 4, n = 2 | reproduced |" in (folder / "page.md").read_text()
    assert CliRunner().invoke(app, ["paper", "check", *paper]).exit_code == 0
