"""The table of predictions, made from recordings of the lab."""

import polars as pl
import pytest

from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import PredictionGrid
from ikeanalyze.papers.prediction_grid import predict_grids
from tests.paths import CAPTURES


def predict(**grid):
    return predict_grids(CAPTURES, [PredictionGrid(captures="lab/ecdsa.pcapng", rtt_ms=(100,), **grid)])


def test_each_combination_is_a_row():
    table = predict(signatures=("", "ml-dsa-44"), loss_percent=(0, 20), mtu=(1500, 576))
    assert table.select("signature", "loss_percent", "mtu").rows() == [
        (signature, loss, mtu) for signature in (None, "ml-dsa-44") for loss in (0, 20) for mtu in (1500, 576)
    ]
    assert table["capture"].unique().to_list() == ["lab/ecdsa.pcapng"]
    assert table["experiment"].unique().to_list() == ["lab"]


def test_the_messages_of_a_handshake_without_loss_are_those_that_were_recorded():
    # tshark -r ecdsa.pcapng -Y 'isakmp.exchangetype in {34, 35}': 2 exchanges, each with a request and a response
    row = predict().row(0, named=True)
    assert row["messages"] == row["messages_once"] == 4
    assert row["failed_percent"] == 0
    assert row["within_budget_percent"] == 100
    assert 200 < row["setup_ms"] < 300


def test_a_post_quantum_signature_adds_the_bytes_of_fips_204():
    names = ("", "ml-dsa-44", "ml-dsa-65")
    once = dict(zip(names, predict(signatures=names)["largest_bytes"], strict=True))
    # a side sends one certificate (a key, a signature) and AUTH (a signature): FIPS 204, table 2
    assert once["ml-dsa-65"] - once["ml-dsa-44"] == (1952 - 1312) + 2 * (3309 - 2420)
    assert once["ml-dsa-44"] > once[""]


def test_a_short_budget_is_kept_by_fewer():
    shares = predict(loss_percent=(20,), budget_ms=1000.0)["within_budget_percent"]
    assert 0 < shares.item() < 100


@pytest.mark.parametrize(
    ("grid", "problem"),
    [
        ({"captures": "lab/missing*.pcapng"}, "has no lab/missing"),
        ({"captures": "lab/psk.pcapng", "signatures": ("ml-dsa-44",)}, "no side authenticates with a signature"),
        ({"captures": "lab/ecdsa.pcapng", "signatures": ("ml-dsa-45",)}, "ml-dsa-45"),
    ],
)
def test_a_grid_that_cannot_be_predicted_is_refused(grid, problem):
    with pytest.raises(PaperError, match=problem):
        predict_grids(CAPTURES, [PredictionGrid(rtt_ms=(0,), **grid)])


def test_no_grids_are_no_rows():
    assert predict_grids(CAPTURES, []).equals(pl.DataFrame())
