from ikeanalyze.model.ranking.criteria import load_criteria
from ikeanalyze.model.ranking.ranking import rank_alternatives
from ikeanalyze.render.core.figures.style import SINGLE
from ikeanalyze.render.ranking.figures import make_figures


def test_scores_and_sensitivities():
    ranking = rank_alternatives(load_criteria("epc-authentication"), lambda measured: {})
    figures = {figure.name: figure for figure in make_figures(ranking)}
    assert list(figures) == [
        "ranking-scores",
        "ranking-sensitivity-2-security",
        "ranking-sensitivity-3-deployment_cost",
        "ranking-sensitivity-4-extra_functionality",
    ]
    assert "0.187" in figures["ranking-scores"].draw(SINGLE)
    assert "weight of security" in figures["ranking-sensitivity-2-security"].draw(SINGLE)


def test_one_criterion_has_no_sensitivity(tmp_path):
    (tmp_path / "c.toml").write_text(
        'alternatives = ["a", "b"]\n[[criterion]]\nname = "only"\ngrades = { a = 1, b = 0 }\n'
    )
    ranking = rank_alternatives(load_criteria(str(tmp_path / "c.toml")), lambda measured: {})
    assert [figure.name for figure in make_figures(ranking)] == ["ranking-scores"]


def test_names_that_files_cannot_have_stay_apart(tmp_path):
    part = '[[criterion]]\nname = "{}"\ngrades = {{ a = 1, b = 0 }}\n'
    (tmp_path / "c.toml").write_text('alternatives = ["a", "b"]\n' + part.format("cost/€") + part.format("cost/$"))
    ranking = rank_alternatives(load_criteria(str(tmp_path / "c.toml")), lambda measured: {})
    names = [figure.name for figure in make_figures(ranking)]
    assert names == ["ranking-scores", "ranking-sensitivity-1-cost__", "ranking-sensitivity-2-cost__"]
