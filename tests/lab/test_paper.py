"""A report from its scenario to its page: `ikeanalyze paper run` runs the lab."""

import json
import os
from pathlib import Path

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


@pytest.mark.lab
def test_a_report_is_run_with_another_value(lab, tmp_path):
    folder = tmp_path / "reports" / "900-psk"
    (folder / "scenarios").mkdir(parents=True)
    (folder / "scenarios" / "psk.toml").write_text("")
    (folder / "scenarios" / "ipv6.toml").write_text("ip_version = 6\n")  # NAT is for IPv4
    (folder / "claims.toml").write_text(
        CLAIMS
        + """[[quantities]]
id = "ipv6-messages"
item = "Messages over IPv6"
sql = "SELECT initiator_messages AS value FROM handshakes WHERE link_nat = false"
[[quantities]]
id = "nat"
item = "Handshakes through a NAT"
sql = "SELECT COUNT(*) AS value FROM handshakes WHERE link_nat"
"""
    )
    (folder / "question.md").write_text("How many messages?\n")
    arguments = ["paper", "run", "900", "--set", "link.nat=true", "--reports", str(folder.parent)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    assert "ipv6.toml: left out of the report" in done.stderr
    page = (folder / "page.md").read_text()
    assert "| Handshakes through a NAT | 1 |" in page
    assert "| Messages over IPv6 | - |" in page
    assert "| other values | link.nat=true |" in page


@pytest.mark.lab
def test_nothing_is_recorded_if_a_later_scenario_cannot_be_run(lab, tmp_path, monkeypatch, capfd):
    """A report takes minutes: what its last scenario lacks is said before the first one is run."""
    folder = tmp_path / "reports" / "900-psk"
    (folder / "scenarios").mkdir(parents=True)
    (folder / "scenarios" / "psk.toml").write_text("")
    (folder / "scenarios" / "some-dropped.toml").write_text("link.drop_ip_fragments = [false, true]\n")
    (folder / "claims.toml").write_text(CLAIMS)
    (folder / "question.md").write_text("How many messages?\n")
    programs = tmp_path / "programs"
    programs.mkdir()
    for path in (path for place in reversed(os.get_exec_path()) for path in Path(place).glob("*")):
        link = programs / path.name
        link.unlink(missing_ok=True)
        if path.name != "nft":
            link.symlink_to(path)
    monkeypatch.setenv("PATH", str(programs))
    recordings = tmp_path / "recordings"
    arguments = ["paper", "run", "900", "--recordings", str(recordings), "--reports", str(folder.parent)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 1
    assert not recordings.exists()
    # the check is a process of its own
    scenario = folder / "scenarios" / "some-dropped.toml"
    assert capfd.readouterr().err.splitlines() == [
        f"ikeanalyze: {scenario}: some-dropped_drop-ip-fragments-True: dropping frames of a kind needs nftables with the"
        " hook ingress: apt install nftables (ikeanalyze lab doctor)"
    ]
    assert "cannot run all scenarios on this machine; nothing was recorded" in done.stderr
