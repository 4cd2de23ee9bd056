import json

import pytest

from tests.dataset.grouped import LAB

MEASURED = """
alternatives = ["little loss", "much loss"]
[[criterion]]
name = "frames"
measured = {{ dataset = "{dataset}", metric = "{metric}", by = "loss", groups = {{ "little loss" = 5, "much loss" = {group} }} }}
by = {{ reference = 4 }}
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "in").mkdir()
    for loss in (5, 20):
        (folder / "in" / f"loss{loss}.pcapng").write_bytes((LAB / f"loss_loss-percent-{loss}.pcapng").read_bytes())
    from typer.testing import CliRunner

    from ikeanalyze.cli.app import app

    arguments = ["batch", str(folder / "in"), "-o", str(folder / "ds"), "--label", "loss{loss:int}.pcapng", "--workers", "1",
        "--quiet"]  # fmt: skip
    assert CliRunner().invoke(app, arguments).exit_code == 0
    return folder


def test_the_example_is_ranked(run):
    done = run("rank", "epc-authentication", "--format", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["ranking"][0]["alternative"] == "EAP-AKA"


def test_a_printed_example_ranks_as_the_shipped_criteria(run, tmp_path):
    done = run("rank", "epc-aka", "--print-example", "-o", str(tmp_path / "mine.toml"))
    assert (done.exit_code, done.stdout) == (0, "")
    mine, shipped = (run("rank", name, "--format", "csv") for name in (str(tmp_path / "mine.toml"), "epc-aka"))
    assert mine.stdout == shipped.stdout != ""


@pytest.mark.parametrize("more", [(), ("--print-example",), ("--format", "terminal")])
def test_the_criteria_are_not_overwritten(run, tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path)
    assert run("rank", "epc-aka", "--print-example", "-o", "mine.toml").exit_code == 0
    before = (tmp_path / "mine.toml").read_bytes()
    done = run("rank", "mine.toml", "-o", "./mine.toml", *more)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "./mine.toml is an input file, it would be overwritten" in done.stderr
    assert (tmp_path / "mine.toml").read_bytes() == before
    # the name of an example is no file
    assert run("rank", "epc-aka", "-o", "epc-aka").exit_code == 0


def test_figures_are_written(run, tmp_path):
    done = run("rank", "epc-aka", "--figures", str(tmp_path / "f"), "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")
    assert len(list((tmp_path / "f").iterdir())) == 15  # five figures in three formats


def test_measured_criteria_are_ranked(run, dataset):
    (dataset / "c.toml").write_text(MEASURED.format(dataset="ds", metric="frames", group=20))
    done = run("rank", str(dataset / "c.toml"), "--format", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    compared = run("compare", str(dataset / "ds"), "--by", "loss", "--metric", "frames", "--format", "json", "--quiet")
    means = [group["mean"]["value"] for group in json.loads(compared.stdout)["metrics"][0]["groups"]]
    assert list(document["criteria"][0]["parts"][0]["values"].values()) == pytest.approx(means)
    assert document["ranking"][0]["alternative"] == "little loss"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"group": 30}, "c.toml: criterion 'frames'.measured: {dataset}/ds has no frames where loss is 30; it has: 5, 20"),
        ({"metric": "qq"}, "c.toml: criterion 'frames'.measured: unknown metric 'qq' (docs/compare.md lists the metrics; "),
        ({"dataset": "none"}, "c.toml: criterion 'frames'.measured: {dataset}/none: no such folder"),
    ],
)  # fmt: skip
def test_missing_metrics_of_a_dataset_are_errors(run, dataset, change, what):
    options = {"dataset": "ds", "metric": "frames", "group": 20, **change}
    (dataset / "c.toml").write_text(MEASURED.format(**options))
    done = run("rank", str(dataset / "c.toml"))
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert what.format(dataset=dataset) in done.stderr


def test_the_example_of_the_documentation(run, dataset):
    text = (LAB.parents[1] / "docs" / "rank.md").read_text().partition("```toml\n")[2].partition("```")[0]
    measured = 'dataset = "runs", metric = "setup_ms", by = "config", groups = { PSK = "psk", EAP-TLS = "tls" }'
    assert measured in text
    ours = 'dataset = "ds", metric = "setup_ms", by = "loss", groups = { PSK = 5, EAP-TLS = 20 }'
    (dataset / "c.toml").write_text(text.replace(measured, ours))
    done = run("rank", str(dataset / "c.toml"), "--format", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    security, performance = json.loads(done.stdout)["criteria"]
    # importance 1, 1, 2 and steps of 2, 1, -1: a quarter of a step
    assert security["weight"] / performance["weight"] == pytest.approx(2 ** (0.25 / 2))
    assert security["grades"] == {"PSK": 1, "EAP-TLS": 2}


def test_wrong_usage_and_files_are_errors(run, tmp_path):
    (tmp_path / "c.toml").write_text('alternatives = ["a", "b"]\n[[criterion]]\nname = "x"\ngrades = { a = 1 }\n')
    done = run("rank", str(tmp_path / "c.toml"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"ikeanalyze: {tmp_path}/c.toml: criterion 'x'.grades: no value for b\n"
    done = run("rank", str(tmp_path / "none.toml"))
    assert "no such file; the examples are epc-aka, epc-authentication" in done.stderr
    done = run("rank", "epc-aka", "--format", "x")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
