import csv
import io
import json

import pytest

from ikeanalyze.model.ranking.criteria import load_criteria
from ikeanalyze.model.ranking.ranking import rank_alternatives
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.core.terminal import write_sections
from ikeanalyze.render.ranking.formats import FORMATS
from ikeanalyze.render.ranking.text import render_sections


@pytest.fixture(scope="module")
def ranking():
    return rank_alternatives(load_criteria("epc-authentication"), lambda measured: {})


def written(ranking, form, tmp_path, every=False):
    path = tmp_path / "x"
    FORMATS.write(ranking, form, str(path), RenderOptions(width=100, every=every))
    return path.read_text()


def test_text_has_scores_weights_and_turning_points(ranking, tmp_path):
    text = written(ranking, Format.TERMINAL, tmp_path)
    lines = [line.split() for line in text.splitlines()]
    # by hand: 0.3075 * 11 / 7, 0.2785 * 6 / 6, 0.207 * 2 / 3
    assert ["1", "EAP-AKA", "0.1870", "0.483", "0.279", "0.138"] in lines
    assert "performance is left out: its grades do not differ" in text
    assert ["security", "0.3075", "1.14", "1.57", "1", "1.29", "1.29", "1.57"] in lines
    assert ["security", "0.3075", "0.3194", "BEX", "DEX-AKA"] in lines


def test_json_has_the_ranking_and_each_criterion(ranking, tmp_path):
    document = json.loads(written(ranking, Format.JSON, tmp_path))
    assert document["schema"] == "ikeanalyze.ranking/1"
    assert [item["alternative"] for item in document["ranking"]][0::5] == ["EAP-AKA", "DEX"]
    assert sum(item["score"] for item in document["ranking"]) == pytest.approx(1)
    performance, security = document["criteria"][:2]
    assert (performance["graded"], performance["grades"]) == (False, None)
    assert security["turning_points"][-1]["ahead_with_more"] == "BEX"
    assert security["parts"][0]["grades"]["PSK"] == 1
    # the paper has grades, and no numbers that they are made of
    assert security["parts"][0]["values"] is None


def test_csv_and_markdown(ranking, tmp_path):
    rows = list(csv.DictReader(io.StringIO(written(ranking, Format.CSV, tmp_path))))
    assert (rows[0]["rank"], rows[0]["alternative"], len(rows)) == ("1", "EAP-AKA", 6)
    assert float(rows[0]["contribution of security"]) == pytest.approx(0.3075 * 11 / 7, rel=1e-4)
    assert "| # | alternative | score |" in written(ranking, Format.MARKDOWN, tmp_path)


def test_an_order_that_no_weight_changes(tmp_path):
    (tmp_path / "c.toml").write_text(
        'alternatives = ["a", "b"]\n[[criterion]]\nname = "only"\ngrades = { a = 1, b = 0 }\n'
    )
    result = rank_alternatives(load_criteria(str(tmp_path / "c.toml")), lambda measured: {})
    assert "no weight of a single criterion changes the order" in written(result, Format.TERMINAL, tmp_path)


def test_text_of_the_file_is_harmless(tmp_path):
    (tmp_path / "c.toml").write_text(
        'alternatives = ["a\\u001b[31m", "b"]\n[[criterion]]\nname = "x\\u001b]0;y"\n'
        '[[criterion.part]]\nname = "\\u0007"\ngrades = { "a\\u001b[31m" = 1, b = 0 }\n'
    )
    result = rank_alternatives(load_criteria(str(tmp_path / "c.toml")), lambda measured: {})
    for form in (Format.TERMINAL, Format.MARKDOWN):
        text = written(result, form, tmp_path)
        assert "\x1b" not in text
        assert "\x07" not in text


def test_parts_that_begin_alike_stay_apart_in_80_columns():
    ranking = rank_alternatives(load_criteria("epc-authentication"), lambda measured: {})
    out = io.StringIO()
    write_sections(render_sections(ranking, every=True), out, 80)
    _, _, table = out.getvalue().partition("\nWeights and grades\n")
    parts = [line[:25] for line in table.splitlines() if line.startswith("    ")]
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert len(parts) == len(set(parts)) == 16


def test_long_names_stay_apart_in_80_columns(tmp_path):
    names = [f"IKEv2 with EAP-TLS, certificates of RSA-4096, and a chain of {n}" for n in ("two", "three")]
    tables = [
        f'[[criterion]]\nname = "{what}, as all of the experts that were asked have understood it"\n'
        f'grades = {{ "{names[0]}" = {one}, "{names[1]}" = {other} }}\n'
        for what, one, other in (("security", 1, 2), ("speed", 3, 1))
    ]
    (tmp_path / "c.toml").write_text(f"alternatives = {json.dumps(names)}\n" + "".join(tables))
    out = io.StringIO()
    found = rank_alternatives(load_criteria(str(tmp_path / "c.toml")), lambda measured: {})
    write_sections(render_sections(found, every=True), out, 80)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    _, _, turns = out.getvalue().partition("\nTurning points\n")
    security, speed = turns.splitlines()[1:3]
    # more weight of security is for three, more of speed for two
    assert (security.split()[0][:4], speed.split()[0][:4]) == ("secu", "spee")
    assert security.index("three") < security.index("two")
    assert speed.index("two") < speed.index("three")
