"""`--filter`, `--from` and `--to` of report, ladder and batch."""

import json
from pathlib import Path

import polars as pl
import pytest

from tests.dataset.made import runs
from tests.paths import CAPTURES

#: 25 handshakes at 20 % loss; the truth file has them as tshark counts.
LOSSY = CAPTURES / "loss20-classic.pcap"
PSK = CAPTURES / "psk-classic.pcap"


def report(run, *arguments):
    done = run("report", *map(str, arguments), "--format", "json", "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_a_report_has_the_selected_handshakes_with_their_numbers(run):
    whole = report(run, LOSSY)
    chosen = [one for one in whole["handshakes"] if one["retransmissions"]["messages"] > 4]
    document = report(run, LOSSY, "--filter", "rtx>4")
    assert document["handshakes"] == chosen != []
    totals = document["totals"]
    assert totals["bytes"] == sum(link["bytes"] for one in chosen for way in ("a_to_b", "b_to_a")
                                  for link in [one["links"][0][way]])  # fmt: skip
    assert (totals["handshakes"], totals["packets"]) == (len(chosen), whole["totals"]["packets"])
    assert document["selection"] == {"filter": "rtx>4", "selected": len(chosen), "total": 25}
    assert "selection" not in whole


def test_every_format_for_people_names_the_selection(run, tmp_path):
    page = tmp_path / "x.html"
    assert run("report", str(LOSSY), "--filter", "rtx>4 !<b>", "--from", "0", "-o", str(page)).exit_code == 0
    assert "Selection: handshakes 2 of 25, filter rtx&gt;4 !&lt;b&gt;, from 0." in page.read_text()
    text = run("report", str(LOSSY), "--filter", "rtx>4", "--from", "0").stdout
    assert "\nSelection\n  handshakes  2 of 25\n  filter      rtx>4\n  from        0\n" in text
    assert "2 of 25" in run("report", str(LOSSY), "--filter", "rtx>4", "--format", "markdown").stdout


def test_a_period_of_a_report(run):
    starts = [one["start_time"] for one in report(run, LOSSY)["handshakes"]]
    document = report(run, LOSSY, "--from", starts[3], "--to", starts[5])
    assert [one["start_time"] for one in document["handshakes"]] == starts[3:5]


def test_parquet_has_rows_of_the_selected_handshakes_alone(run, tmp_path):
    for options in ([], ["--max-memory", "1M", "--jobs", "1"]):
        out = tmp_path / f"out{len(options)}"
        done = run("report", str(LOSSY), "--filter", "rtx>4", "--format", "parquet", "-o", str(out), *options)
        assert (done.exit_code, done.stderr) == (0, "")
        ids = pl.read_parquet(out / "handshakes.parquet")["handshake"].to_list()
        for name in ("exchanges", "messages", "frames"):
            assert sorted(set(pl.read_parquet(out / f"{name}.parquet")["handshake"])) == ids


def test_nothing_that_matches_is_told(run):
    done = run("report", str(LOSSY), "--filter", "outcome:failed", "--from", "5")
    assert done.exit_code == 0
    assert done.stderr == "ikeanalyze: none of 25 handshakes matches --filter, --from\n"
    done = run("ladder", str(LOSSY), "--filter", "outcome:failed", "--quiet")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"ikeanalyze: {LOSSY}: none of 25 handshakes matches --filter\n"


def test_a_ladder_is_that_of_the_first_selected_handshake_with_its_payloads(run):
    first = next(one for one in report(run, LOSSY)["handshakes"] if one["retransmissions"]["messages"] > 4)
    done = run("ladder", str(LOSSY), "--filter", "rtx>4")
    assert done.stdout.startswith(f"Handshake {first['id']}: ")
    assert "KE(ECP-384)" in done.stdout
    assert "the first of 2 handshakes" in done.stderr
    assert run("ladder", str(LOSSY), "--handshake", str(first["id"])).stdout == done.stdout


@pytest.mark.parametrize("command", ["report", "ladder", "batch"])
@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--filter", "outcom:failed", "unknown name 'outcom' in 'outcom:failed'; did you mean outcome?"),
        ("--filter", "bytes>", "'bytes>' is unfinished"),
        ("--from", "soon", "'soon' is not a time"),
        ("--to", "10ms", "'10ms' is not a time"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_read(run, tmp_path, command, option, value, problem):
    arguments = ["-o", str(tmp_path / "out")] if command == "batch" else []
    done = run(command, "none.pcap", option, value, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"Invalid value for {option}: {problem}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_dataset_has_the_selected_handshakes(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs(Path("runs"), 2)
    assert run("batch", "runs", str(LOSSY), "-o", "out", "--filter", "rtx>4", "--quiet").exit_code == 0
    rows = pl.read_parquet("out/handshakes")
    assert sorted(rows["retransmitted_messages"] > 4) == [True, True]
    assert set(pl.read_parquet("out/messages")["handshake"]) == set(rows["handshake"])
    captures = pl.read_parquet("out/captures")
    assert sorted(captures["handshakes"]) == [0, 0, 2]
    assert "3 unchanged" in run("batch", "runs", str(LOSSY), "-o", "out", "--filter", "rtx>4").stderr
    assert "3 captures read" in run("batch", "runs", str(LOSSY), "-o", "out", "--from", "0").stderr
    assert sorted(pl.read_parquet("out/captures")["handshakes"]) == [1, 1, 25]


def test_operators_of_other_languages_are_named_if_nothing_matches(run):
    done = run("report", str(LOSSY), "--filter", "outcome:completed AND rtx>2")
    said = "none of 25 handshakes matches --filter. 'AND' is a text to find, not an operator: all words must match"
    assert (done.exit_code, done.stderr) == (0, f"ikeanalyze: {said}\n")
