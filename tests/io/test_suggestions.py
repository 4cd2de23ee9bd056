import shutil
import sys

import pytest

from ikeanalyze.io.suggestions import advise_install, describe_choices, suggest_name, suggest_names, suggest_number


def test_the_most_similar_name_is_suggested():
    assert suggest_name("confg", ["scenario", "config", "setup_ms"]) == "did you mean config? "
    assert suggest_name("setup", ["scenario", "config", "setup_ms"]) == "did you mean setup_ms? "
    assert suggest_name("stak", ["stack"], prefix="initiator.") == "did you mean initiator.stack? "


def test_the_beginning_of_a_name_is_more_similar_than_a_name_as_short():
    names = ["link.seed", "link.loss_percent", "link.loss_up_percent"]
    assert suggest_name("link.los", names) == "did you mean link.loss_percent? "
    assert suggest_name("li", ["list", "lo"]) == "did you mean list? "
    assert suggest_name("", ["list"]) == ""


def test_case_does_not_matter():
    assert suggest_name("CONFIG", ["Config"]) == "did you mean Config? "


def test_no_similar_name():
    assert suggest_name("zzz", ["config"]) == suggest_name("config", []) == ""


def test_similar_names_are_suggested_and_those_that_contain_the_name():
    names = ["link_loss_percent", "aaa_link_loss_percent", "responder_messages", "Outcome", "outcomes"]
    assert suggest_names("loss", names) == "did you mean link_loss_percent or aaa_link_loss_percent? "
    assert suggest_names("LOSS", names, limit=1) == "did you mean link_loss_percent? "
    assert suggest_names("outcom", names) == "did you mean Outcome or outcomes? "
    assert suggest_names("e", ["ab", "cde", "e-f", "ghe"]) == "did you mean cde, e-f or ghe? "
    assert suggest_names("zzz", names) == suggest_names("", names) == suggest_names("loss", []) == ""


def test_choices_follow_the_problem():
    assert describe_choices("confg", ["config", "loss"]) == "; did you mean config? (choose from config, loss)"
    assert describe_choices("x", ["config", "loss"]) == " (choose from config, loss)"
    assert describe_choices("x", ["a", "b"], "labels a; columns b") == " (choose from labels a; columns b)"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("10ms", "; write 10 without a unit"),
        ("1.5 s", "; write 1.5 without a unit"),
        ("20%", ". 20 % is written 0.2"),
        ("0.5 %", ". 0.5 % is written 0.005"),
        ("abc", ""),
        ("10", ""),
        ("", ""),
        ("1:2ms", ""),
    ],
)
def test_a_number_with_a_unit_is_written_without(text, advice):
    assert suggest_number(text) == advice


def test_a_package_is_installed_with_the_pip_of_this_python(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(shutil, "which", lambda name: str(tmp_path / name))
    assert advise_install("polars", "--upgrade") == "pip install --upgrade polars"
    assert advise_install("textual") == "pip install textual"
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")  # the environment is not activated
    assert advise_install("polars", "--upgrade") == f"{tmp_path}/python -m pip install --upgrade polars"
    monkeypatch.chdir(tmp_path.parent)
    assert advise_install("textual") == f"{tmp_path.name}/python -m pip install textual"
