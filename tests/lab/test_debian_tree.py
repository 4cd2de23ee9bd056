import os

import pytest

from ikeanalyze.lab import LabError, debian_tree


def test_where_trees_are(monkeypatch, tmp_path):
    monkeypatch.delenv("IKEANALYZE_TREES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert debian_tree.LIBRESWAN.place == tmp_path / "ikeanalyze" / "forky-libreswan"
    monkeypatch.setenv("IKEANALYZE_TREES", str(tmp_path / "trees"))
    assert debian_tree.OLD.place == tmp_path / "trees" / "bookworm"


@pytest.mark.parametrize("one", debian_tree.ALL, ids=lambda one: one.name)
def test_a_tree_that_is_there_is_not_made_again(monkeypatch, tmp_path, one):
    monkeypatch.setenv("IKEANALYZE_TREES", str(tmp_path))
    (tmp_path / one.name).mkdir()
    (tmp_path / one.name / ".ikeanalyze-packages").write_text("\n".join(one.packages))
    assert debian_tree.make_tree(one) == one.place
    assert os.listdir(tmp_path) == [one.name]


def test_what_cannot_be_made_is_said(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("IKEANALYZE_TREES", str(tmp_path))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "id", "grep"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(LabError, match="tree forky-libreswan"):
        debian_tree.make_tree(debian_tree.LIBRESWAN)
    err = capfd.readouterr().err
    assert "needs root" in err or "debootstrap is missing" in err
