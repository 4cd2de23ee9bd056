"""The shipped examples against what Faigl, Pellikka, Bokor and Gurtov conclude, and a ranking by hand.

Their ranking itself is in a figure that their text lacks: what the text says in words is what is tested.
"""

import pytest

from ikeanalyze.model.ranking.criteria import CriteriaError, load_criteria
from ikeanalyze.model.ranking.ranking import rank_alternatives


def nothing(measured):
    raise AssertionError


def ranked(name, lookup=nothing):
    result = rank_alternatives(load_criteria(name), lookup)
    return result, {place.name: place for place in result.places}


def test_the_papers_table_of_weights():
    result, _ = ranked("epc-authentication")
    assert {item.name: round(item.weight, 4) for item in result.ranked} == {
        "performance": 0.207,
        "security": 0.3075,
        "deployment cost": 0.2785,
        "extra functionality": 0.207,
    }


def test_grades_of_the_papers_tables():
    result, _ = ranked("epc-authentication")
    criteria = {item.name: item for item in result.ranked}
    # sums of the columns of the paper's tables; of deployment the zeros, which g(P) makes 1
    assert {name: round(7 * grade) for name, grade in criteria["security"].grades.items()} == {
        "DEX-AKA": 8, "EAP-AKA": 11, "DEX": 7, "BEX": 9, "PSK": 9, "EAP-TLS": 11,
    }  # fmt: skip
    assert {name: round(6 * grade) for name, grade in criteria["deployment cost"].grades.items()} == {
        "DEX-AKA": 3, "EAP-AKA": 6, "DEX": 1, "BEX": 2, "PSK": 4, "EAP-TLS": 4,
    }  # fmt: skip
    assert {name: round(3 * grade) for name, grade in criteria["extra functionality"].grades.items()} == {
        "DEX-AKA": 3, "EAP-AKA": 2, "DEX": 3, "BEX": 3, "PSK": 2, "EAP-TLS": 2,
    }  # fmt: skip
    assert not criteria["performance"].graded


def test_what_the_paper_concludes_of_dex_aka():
    """Against EAP-AKA: gains in performance and functionality, "slightly weaker security", "high deployment cost", and
    "competitive" on the whole.
    """
    _, places = ranked("epc-aka")
    dex, eap = (places[name].contributions for name in ("DEX-AKA", "EAP-AKA"))
    assert dex["performance"] > eap["performance"]
    assert dex["extra functionality"] > eap["extra functionality"]
    assert dex["security"] < eap["security"]
    assert dex["deployment cost"] < eap["deployment cost"]
    assert places["DEX-AKA"].rank == 1


def test_weights_are_near_to_turning_points():
    """As the paper's sensitivity analysis concludes."""
    result, _ = ranked("epc-authentication")
    nearest = [abs(turn.weight - item.weight) for item in result.ranked if item.graded for turn in item.turns]
    assert min(nearest) < 0.02


EXAMPLE = """
alternatives = ["a", "b"]
[grades]
step = 3
[[criterion]]
name = "quick"
weight = 0.5
measured = { dataset = "d", metric = "setup_ms", by = "config" }
by = { steps = [[10, 1]], beyond = 0 }
progression = 2
[[criterion]]
name = "small"
weight = 0.5
[[criterion.part]]
name = "bytes"
weight = 0.25
grades = { a = 0, b = 4 }
[[criterion.part]]
name = "frames"
weight = 0.75
left_out = "nobody counted"
"""


def test_a_ranking_calculated_by_hand(tmp_path):
    (tmp_path / "x.toml").write_text(EXAMPLE)
    requested = []

    def lookup(measured):
        requested.append(measured)
        return {"a": 9.0, "b": 11.0}

    result, places = ranked(str(tmp_path / "x.toml"), lookup)
    assert [item.groups for item in requested] == [{"a": "a", "b": "b"}]
    # a: 0.5 * 2 * 1 = 1, b: 0.5 * 0.25 * 4 = 0.5, in steps of a factor of 3
    assert places["a"].contributions == {"quick": 1.0, "small": 0.0}
    assert places["b"].contributions == {"quick": 0.0, "small": 0.5}
    assert places["a"].score == pytest.approx(3 / (3 + 3**0.5))
    assert [place.rank for place in result.places] == [1, 2]
    assert result.ranked[0].parts[0].values == {"a": 9.0, "b": 11.0}
    # 2 w = 1 - w
    (turn,) = result.ranked[0].turns
    assert (turn.weight, turn.above, turn.below) == (pytest.approx(1 / 3), "a", "b")
    assert result.scores_at(0, 1 / 3) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("values", [{"a": 1.0}, {"a": 1.0, "b": float("nan")}, {"a": 1.0, "b": -1.0}])
def test_values_that_are_missing(tmp_path, values):
    (tmp_path / "x.toml").write_text(EXAMPLE)
    with pytest.raises(CriteriaError, match=r"x.toml: criterion 'quick'.measured: has no value for b"):
        ranked(str(tmp_path / "x.toml"), lambda measured: values)


def test_differences_that_do_not_connect(tmp_path):
    text = EXAMPLE.replace("weight = 0.5\n", "")
    text += '[[criterion]]\nname = "third"\ngrades = { a = 1, b = 1 }\n'
    text += '[[difference]]\nof = "quick"\nto = "small"\nsteps = [1]\n'
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(CriteriaError, match="difference: the differences do not connect all criteria"):
        ranked(str(tmp_path / "x.toml"), lambda measured: {"a": 1.0, "b": 1.0})
