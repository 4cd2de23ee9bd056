from statistics import mean, median

import pytest

from ikeanalyze.dataset.compare import CompareError, compare
from ikeanalyze.dataset.compare.columns import RowCondition
from ikeanalyze.dataset.compare.compare import compute_group_values
from tests.dataset.grouped import tables, times

PSK, RSA = [10.0, 12.0, 20.0], [30.0, 50.0]


@pytest.fixture(autouse=True)
def dataset(monkeypatch):
    rows = [
        *times("psk", *PSK),
        *times("rsa", *RSA),
        *times("rsa", 1000.0, outcome="failed"),
        *times("none"),
    ]
    rows += [{"config": "broken", "outcome": "unanswered"}]
    monkeypatch.setattr(compare, "open_tables", lambda path: tables(rows))


def test_a_statistic_of_each_group_is_computed():
    assert compute_group_values("ds", "config", "setup_ms", "mean") == pytest.approx(
        {"psk": mean(PSK), "rsa": mean(RSA)}
    )
    group_values = compute_group_values("ds", "config", "setup_ms", "median")
    assert group_values == pytest.approx({"psk": median(PSK), "rsa": median(RSA)})


def test_conditions_select_the_groups_that_are_computed():
    assert list(compute_group_values("ds", "config", "setup_ms", "mean", [RowCondition("config", "rsa")])) == ["rsa"]


@pytest.mark.parametrize(("by", "metric"), [("no", "setup_ms"), ("config", "no")])
def test_what_there_is_not(by, metric):
    with pytest.raises(CompareError, match="unknown"):
        compute_group_values("ds", by, metric, "mean")
