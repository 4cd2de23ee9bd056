"""Predictions of a report: `ikeanalyze predict` on the cases that `claims.toml` selects."""

import shutil

import polars as pl
import pytest

from ikeanalyze.papers import PaperError
from ikeanalyze.papers.case_predictions import write_case_predictions
from ikeanalyze.papers.report import ReportFolder
from tests.papers.examples import write_report
from tests.paths import CAPTURES

CLAIMS = """
title = "Made up"
source = "Author: Title"
question = "How many bytes?"
answer = "Few."
[[case_predictions]]
id = "lossy"
experiment = "psk"
case = { "link.loss_percent" = 0, "initiator.auth" = "psk" }
options = "--rtt 10 --loss 0,0.5 --runs 50"
"""


@pytest.fixture
def recordings(tmp_path):
    """A recording of the lab in the layout of `paper run`."""
    (tmp_path / "recordings" / "psk").mkdir(parents=True)
    for path in (CAPTURES / "lab").glob("psk.*"):
        shutil.copy(path, tmp_path / "recordings" / "psk")
    return tmp_path / "recordings"


def test_the_table_has_the_rows_of_predict_for_each_specification(recordings, tmp_path):
    folder = ReportFolder(write_report(tmp_path, CLAIMS))
    write_case_predictions(folder, recordings)
    table = pl.read_parquet(folder.data / "case_predictions.parquet")
    assert table["prediction"].to_list() == ["lossy", "lossy"]
    assert table["loss"].to_list() == [0, 0.5]
    assert "capture" not in table.columns  # its path is that of one machine
    # the sum of frame.len of its four messages, by tshark
    assert table["bytes_mean"][0] == 314 + 322 + 318 + 270
    assert table["bytes_mean"][1] > table["bytes_mean"][0]


def test_a_report_without_predictions_has_no_table(recordings, tmp_path):
    folder = ReportFolder(write_report(tmp_path))
    write_case_predictions(folder, recordings)
    assert not (folder.data / "case_predictions.parquet").exists()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"psk" }', '"rsa" }', "prediction lossy: .*psk: its case selects 0 recordings, not one"),
        ("--rtt 10", "--rat 10", "prediction lossy: .*No such option.*--rat"),
    ],
)
def test_a_prediction_that_cannot_be_made(recordings, tmp_path, old, new, problem):
    folder = ReportFolder(write_report(tmp_path, CLAIMS.replace(old, new)))
    with pytest.raises(PaperError, match=problem):
        write_case_predictions(folder, recordings)
