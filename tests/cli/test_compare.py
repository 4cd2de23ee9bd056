import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from tests.dataset.grouped import LAB, manifest, retransmissions


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """What `batch` makes of two captures and of one that cannot be read, labelled by their names."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "classic").mkdir()
    for loss in (5, 20):
        name = f"loss_loss-percent-{loss}.pcapng"
        (folder / "classic" / f"loss{loss}.pcapng").write_bytes((LAB / name).read_bytes())
    (folder / "classic" / "loss9.pcapng").write_bytes(b"no capture")
    from typer.testing import CliRunner

    from ikeanalyze.cli.app import app

    path = folder / "dataset"
    arguments = [
        "batch",
        str(folder),
        "-o",
        str(path),
        "--label",
        "{config}/loss{loss:float}.pcapng",
        "--workers",
        "1",
        "--quiet",
    ]
    assert CliRunner().invoke(app, arguments).exit_code == 3
    return str(path)


def test_the_terminal_shows_the_comparison(run, dataset):
    done = run("compare", dataset, "--by", "loss", "--metric", "retransmissions")
    assert done.exit_code == 0
    assert done.stderr == f"ikeanalyze: {dataset}: 1 capture could not be read and is in no group\n"
    assert "  baseline       loss=5" in done.stdout.splitlines()
    start = done.stdout.splitlines().index("retransmissions")
    rows = [line.split() for line in done.stdout.splitlines()[start + 2 : start + 4]]
    assert [(row[0], float(row[2])) for row in rows] == [
        ("5", pytest.approx(retransmissions(5), abs=1e-3)),
        ("20", pytest.approx(retransmissions(20), abs=1e-3)),
    ]


def test_an_unfinished_batch_is_named_before_a_column_that_is_missing(run, dataset, tmp_path):
    """The labels of captures that were not read yet are not in the tables."""
    unfinished = tmp_path / "dataset"
    shutil.copytree(dataset, unfinished)
    manifest = json.loads((unfinished / "manifest.json").read_text())
    (unfinished / "manifest.json").write_text(json.dumps({**manifest, "state": "unfinished"}))
    done = run("compare", str(unfinished), "--by", "delay")
    first, second = done.stderr.splitlines()[:2]
    assert first.startswith(f"ikeanalyze: {unfinished}: the batch is incomplete. Run the same")
    assert "unknown column 'delay'" in second


def test_an_output_that_is_an_input_is_refused(run, dataset, tmp_path):
    """Whoever writes a comparison over the manifest of a dataset loses the dataset."""
    predicted = tmp_path / "predicted.json"
    predicted.write_text("{}")
    for path in (Path(dataset, "manifest.json"), predicted):
        before = path.read_bytes()
        done = run("compare", dataset, "--by", "loss", "--predicted", str(predicted), "-o", str(path))
        assert (done.exit_code, done.stdout) == (2, "")
        assert f"{path} is an input file, it would be overwritten" in done.stderr
        assert path.read_bytes() == before
    table = next(Path(dataset, "handshakes").iterdir())
    done = run("compare", dataset, "--by", "loss", "--format", "json", "-o", str(table))
    assert (done.exit_code, "has the name of a file in the format parquet" in done.stderr) == (2, True)


def test_the_json_document_is_printed(run, dataset, tmp_path):
    path = tmp_path / "x.json"
    done = run(
        "compare", dataset, "--by", "loss", "--baseline", "20", "--metric", "setup_ms", "--metric", "blowup",
        "--confidence", "90", "--resamples", "500", "--format", "json", "-o", str(path), "--quiet",
    )  # fmt: skip
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    document = json.loads(path.read_text())
    assert (document["confidence"], document["resamples"], document["unread"]) == (0.9, 500, 1)
    assert [group["values"] for group in document["groups"]] == [{"loss": 5.0}, {"loss": 20.0}]
    assert [group["baseline"] for group in document["groups"]] == [1, None]
    assert [metric["name"] for metric in document["metrics"]] == ["setup_ms", "blowup"]


def test_the_result_is_reproducible(run, dataset):
    arguments = ("compare", dataset, "--by", "loss", "--format", "csv", "--quiet")
    assert run(*arguments).stdout == run(*arguments).stdout


def test_csv_has_a_row_per_value(run, dataset):
    done = run("compare", dataset, "--by", "capture", "--where", "loss=5", "--format", "csv", "--quiet")
    (setup, *_) = csv.DictReader(io.StringIO(done.stdout))
    assert setup["capture"].endswith("loss5.pcapng")
    assert (setup["metric"], setup["counted"], setup["ratio"]) == (
        "setup_ms",
        str(len(manifest(5)["handshakes"])),
        "",
    )


def test_markdown_has_the_tables(run, dataset):
    done = run("compare", dataset, "--by", "loss", "--format", "markdown", "--quiet")
    assert "| loss | captures | handshakes | completed |" in done.stdout.splitlines()


def test_against_fits_a_line_to_each_metric(run, dataset):
    done = run("compare", dataset, "--by", "loss", "--against", "messages", "--format", "json", "--quiet")
    lines = [metric["regression"] for metric in json.loads(done.stdout)["metrics"]]
    assert [line["against"] for line in lines] == ["messages"] * 3
    assert [line["all"]["counted"] for line in lines] == [20] * 3


def test_predictions_are_laid_over_the_groups_of_their_loss(run, dataset, tmp_path):
    """The JSON of `predict` is laid over the means; a loss that was not measured is named."""
    path = tmp_path / "p.json"
    made = run(
        "predict", str(LAB / "loss_loss-percent-5.pcapng"), "--rtt", "0", "--loss", "0.05,0.2,0.4", "--runs", "200",
        "--format", "json", "-o", str(path), "--quiet",
    )  # fmt: skip
    assert made.exit_code == 0, made.stderr
    arguments = ("compare", dataset, "--by", "loss", "--metric", "bytes", "--predicted", str(path))
    done = run(*arguments, "--format", "json")
    assert "prediction belongs to no group: " in done.stderr
    assert "(loss=40" in done.stderr
    predicted = json.loads(path.read_text())["predictions"]
    groups = json.loads(done.stdout)["metrics"][0]["groups"]
    for group, prediction in zip(groups, predicted, strict=False):
        (laid,) = group["predicted"]
        assert laid["mean"]["value"] == prediction["bytes"]["mean"]
        assert laid["ratio"]["value"] == pytest.approx(group["mean"]["value"] / prediction["bytes"]["mean"])
    rows = list(csv.DictReader(io.StringIO(run(*arguments, "--format", "csv", "--quiet").stdout)))
    assert [(row["kind"], row["loss"]) for row in rows] == [
        ("group", "5.0"), ("predicted", "5.0"), ("group", "20.0"), ("predicted", "20.0"),
    ]  # fmt: skip
    assert float(rows[1]["mean"]) == predicted[0]["bytes"]["mean"]
    lines = run(*arguments, "--quiet").stdout.splitlines()
    row = lines[lines.index("bytes, measured against predicted") + 2].split()
    assert (row[0], row[-1]) == ("5", str(rows[1]["within"]).replace("true", "yes").replace("false", "no"))


def test_logarithmic_axes(run, dataset, tmp_path):
    """In the page and in the files of figures, the axis of bytes ends at a power of ten instead of 0."""
    page, figures = tmp_path / "x.html", tmp_path / "figures"
    arguments = ("compare", dataset, "--by", "loss", "--metric", "bytes", "--log-y", "--figures", str(figures))
    assert run(*arguments, "--format", "html", "-o", str(page), "--quiet").exit_code == 0
    for text in (page.read_text(), (figures / "bytes-against-loss.svg").read_text()):
        assert ">1,000</text>" in text
        assert ">10,000</text>" in text


def test_a_missing_prediction_is_an_error(run, dataset, tmp_path):
    done = run("compare", dataset, "--by", "loss", "--predicted", str(tmp_path / "p.json"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "p.json: No such file or directory" in done.stderr


def test_outcome_selects_the_handshakes_that_count(run, dataset):
    done = run("compare", dataset, "--by", "loss", "--outcome", "failed", "--format", "json", "--quiet")
    document = json.loads(done.stdout)
    assert [group["counted"] for group in document["metrics"][0]["groups"]] == [0, 0]
    assert document["metrics"][0]["groups"][0]["left_out"] == {"completed": len(manifest(5)["handshakes"])}


def test_the_notebook_of_the_documentation(dataset, capsys):
    text = (LAB.parents[1] / "docs" / "compare.md").read_text()
    code = text.partition("```python\n")[2].partition("```")[0]
    exec(code.replace("DATASET", dataset))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(")")[0] for line in lines if line.startswith("(")] == [
        "('classic', 5.0",
        "('classic', 20.0",
    ]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ([], "'--by'"),
        (
            ["--by", "key_exchang"],
            "--by: unknown column 'key_exchang'; did you mean key_exchange or additional_key_exchanges? (labels config, "
            "loss; docs/compare.md lists the columns of each handshake)",
        ),
        (["--by", "loss", "--metric", "qq"], "--metric: unknown metric 'qq' (docs/compare.md lists the metrics; "),
        (["--by", "loss", "--against", "qq"], "--against: unknown metric 'qq' (docs/compare.md lists the metrics; "),
        (
            ["--by", "loss", "--against", "loss", "--where", "loss=5"],
            "--against: loss is 5 in all 10 counted handshakes; a line needs different values",
        ),
        (["--by", "loss", "--baseline", "6"], "--baseline: loss is never '6' (choose from 5, 20)."),
        (["--by", "loss", "--where", "loss"], "--where: 'loss' is not COLUMN=VALUE"),
        (["--by", "loss", "--where", "loss=6"], "no handshake that meets the conditions"),
        (["--by", "loss", "--outcome", "x"], "--outcome: unknown outcome 'x'"),
        (
            ["--by", "loss", "--format", "x"],
            "'x' is not one of 'terminal', 'json', 'csv', 'markdown'",
        ),
        (["--by", "loss", "--confidence", "100"], "100 is not between 50 and 100"),
        (
            ["--by", "loss", "--confidence", "0.995"],
            "0.995 is not between 50 and 100 per cent. 99.5 % is written 99.5.",
        ),
        (["--by", "loss", "--confidence", "95%"], "'95%' is not a number; write 95 without a unit."),
        (["--by", "loss", "--resamples", "1"], "--resamples"),
    ],
)
def test_wrong_usage_exits_with_2(run, dataset, wrong, what):
    done = run("compare", dataset, *wrong)
    assert (done.exit_code, done.stdout) == (2, "")
    assert what in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_dataset_is_an_error(run, tmp_path):
    done = run("compare", str(tmp_path), "--by", "x")
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{tmp_path}: not a dataset. `ikeanalyze batch" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_output_that_cannot_be(run, dataset, tmp_path):
    done = run("compare", dataset, "--by", "loss", "-o", str(tmp_path))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "is a directory" in done.stderr


def test_warm_ups_are_left_out_unless_asked_for(run, tmp_path):
    (tmp_path / "loss.pcapng").write_bytes((LAB / "loss_loss-percent-5.pcapng").read_bytes())
    entry = manifest(5)
    entry["files"]["capture"] = "loss.pcapng"
    for handshake in entry["handshakes"][:3]:
        handshake["warm_up"] = True
    (tmp_path / "loss.manifest.json").write_text(json.dumps(entry))
    path = str(tmp_path / "dataset")
    assert run("batch", str(tmp_path / "loss.pcapng"), "-o", path, "--workers", "1", "--quiet").exit_code == 0
    arguments = ("compare", path, "--by", "scenario", "--metric", "initiator_processor_ms")
    done = run(*arguments)
    assert "  warm-up        3 handshakes left out, in no group" in done.stdout.splitlines()
    counts = {}
    for more in ((), ("--where", "warm_up=false"), ("--warm-up",)):
        document = json.loads(run(*arguments, *more, "--format", "json").stdout)
        counts[more] = document["metrics"][0]["groups"][0]["counted"], document["warm_up"]
    assert list(counts.values()) == [(7, 3), (7, 0), (10, 0)]
