"""Rankings as tables of a report."""

from pathlib import Path

import polars as pl
import pytest

from ikeanalyze.papers import PaperError
from ikeanalyze.papers.rankings import make_ranking_tables

# Lootsma's method by hand: grades 1 and 0 in one criterion of weight 1 make scores in the ratio 2 : 1.
CRITERIA = """
title = "By hand"
alternatives = ["a", "b"]
[[criterion]]
name = "only"
weight = 1
[[criterion.part]]
name = "delay"
values = { a = 40, b = 400 }
by = { steps = [[300, 1]], beyond = 0 }
"""


def test_scores_of_a_file_in_the_folder(tmp_path):
    (tmp_path / "by-hand.toml").write_text(CRITERIA)
    tables = make_ranking_tables(["by-hand.toml"], tmp_path)
    assert tables["ranking_scores"].to_dicts() == [
        {"ranking": "by-hand", "alternative": "a", "place": 1, "score": pytest.approx(2 / 3)},
        {"ranking": "by-hand", "alternative": "b", "place": 2, "score": pytest.approx(1 / 3)},
    ]
    assert tables["ranking_parts"].select("alternative", "value", "grade").rows() == [("a", 40, 1), ("b", 400, 0)]


def test_curves_pass_through_the_scores_at_the_weight_that_a_criterion_has():
    tables = make_ranking_tables(["epc-aka"], Path())
    scores = dict(tables["ranking_scores"].select("alternative", "score").rows())
    curves = tables["ranking_curves"].filter(pl.col("criterion") == "security", pl.col("alternative") == "DEX-AKA")
    below, above = (
        curves.filter(pl.col("weight") < 0.3075)["score"][-1],
        curves.filter(pl.col("weight") > 0.3075)["score"][0],
    )
    assert below > scores["DEX-AKA"] > above  # it has the weaker security, so more weight of it lowers the score


def test_scores_are_equal_where_the_order_changes():
    tables = make_ranking_tables(["epc-aka"], Path())
    turn = tables["ranking_turns"].filter(pl.col("criterion") == "performance").row(0, named=True)
    curve = tables["ranking_curves"].filter(
        pl.col("criterion") == "performance", pl.col("alternative") == turn["above"]
    )
    behind = curve.filter(pl.col("weight") < turn["weight"])["score"]
    ahead = curve.filter(pl.col("weight") > turn["weight"])["score"]
    assert behind.max() < 0.5 < ahead.min()  # of two alternatives


def test_without_names_there_are_no_tables(tmp_path):
    assert make_ranking_tables([], tmp_path) == {}


def test_a_file_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(PaperError, match=r"missing\.toml: no such file"):
        make_ranking_tables(["missing.toml"], tmp_path)
