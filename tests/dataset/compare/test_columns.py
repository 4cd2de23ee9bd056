import re

import polars as pl
import pytest

from ikeanalyze.analysis.schema import HANDSHAKES
from ikeanalyze.dataset.compare.columns import (
    RowCondition,
    format_value,
    get_group_column,
    join_values,
    match_conditions,
    matches_value,
    sort_groups,
)
from tests.paths import ROOT


def ordered(*values):
    return [key[0] for key in sort_groups({(value,): None for value in values})]


def test_groups_are_in_natural_order():
    assert ordered(20.0, 0.5, None, 5.0) == [0.5, 5.0, 20.0, None]
    assert ordered("mlkem1024", "mlkem768", "mlkem512") == ["mlkem512", "mlkem768", "mlkem1024"]
    assert ordered("0.25", "10", "0.5", "9") == ["0.25", "0.5", "9", "10"]
    assert ordered("b", "a", "", "a b") == ["", "a", "a b", "b"]
    assert ordered(True, False) == [False, True]
    assert list(sort_groups({("b", 1): 0, ("a", 2): 0, ("a", 1): 0})) == [("a", 1), ("a", 2), ("b", 1)]


def test_values_are_written_as_the_shell_takes_them():
    assert join_values([5.0, 0.1, 12, True, None, "x"]) == "5, 0.1, 12, true, -, x"
    assert format_value(1e-3) == "0.001"


@pytest.mark.parametrize(
    ("value", "given", "meant"),
    [
        (5.0, "5", True),
        (5, "5.0", True),
        (5.0, "x", False),
        ("5", "5", True),
        ("5", "5.0", False),
        (None, "-", True),
        (True, "true", True),
        (True, "1", False),
    ],
)
def test_text_matches_the_value_it_means(value, given, meant):
    assert matches_value(value, given) is meant


def values(name, *rows):
    table = pl.DataFrame([{name: row} for row in rows], schema={name: HANDSHAKES[name]})
    return table.select(get_group_column(name, table.schema, [], "by"))[name].to_list()


def test_columns_that_are_not_plain():
    slots = [
        [
            {"slot": 1, "method": "ML-KEM-768", "id": 36},
            {"slot": 2, "method": None, "id": 999},
        ],
        [],
        None,
    ]
    assert values("additional_key_exchanges", *slots) == ["ML-KEM-768 + method 999", "none", None]
    assert values("extra_round_trips", ["COOKIE", "REDIRECT"], []) == ["COOKIE, REDIRECT", "none"]
    assert values("outcome", "failed", "cut") == ["failed", "cut"]


def test_conditions_of_one_column_are_ored_and_columns_anded():
    table = pl.DataFrame({"a": ["x", "y", None], "n": [1.0, 2.0, None], "b": [True, False, None]})

    def which(*conditions):
        chosen = table.with_row_index().filter(
            match_conditions([RowCondition(*condition) for condition in conditions], table.schema, [])
        )
        return chosen["index"].to_list()

    assert which() == [0, 1, 2]
    assert which(("a", "x")) == [0]
    assert which(("a", "x"), ("a", "-")) == [0, 2]
    assert which(("a", "x"), ("n", "2")) == []
    assert which(("n", "1.0"), ("b", "true")) == [0]
    assert which(("b", "-")) == [2]
    assert str(RowCondition("a", "x")) == "a=x"


def test_the_document_names_the_columns_that_make_groups():
    section = (ROOT / "docs" / "compare.md").read_text().partition("\n## Groups\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z_]+)`", section.partition("These are the columns")[2]))
    quantities = {name for name in HANDSHAKES if re.search(r"_(ns|ms|bytes|messages|frames)$", name)}
    lists = {"phases", "payload_bytes", "certificates", "key_exchanges", "diagnosis"}
    assert named >= HANDSHAKES.keys() - quantities - lists
