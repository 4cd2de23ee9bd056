import os
from pathlib import Path

import pytest

from ikeanalyze.plugin import PluginError
from ikeanalyze.plugin.files import Done, install, state, uninstall
from ikeanalyze.plugin.folders import Folders
from ikeanalyze.plugin.manifest import NAME, read
from ikeanalyze.plugin.source import Place, PluginFile

ONE = PluginFile(Place.PLUGINS, "ikex.lua", b"one")
TWO = PluginFile(Place.PLUGINS, "ikex/two.lua", b"two")
PREFERENCES = PluginFile(Place.PROFILES, "IKE/preferences", b"columns")
FILES = [ONE, TWO, PREFERENCES]


@pytest.fixture
def folders(tmp_path):
    return Folders(tmp_path / "lib" / "plugins", tmp_path / "config" / "profiles", told=True)


def done(steps):
    return [step.done for step in steps]


def tree(path: Path):
    return {str(found.relative_to(path)): found.read_bytes() for found in path.rglob("*") if found.is_file()}


def test_installed_and_gone_without_a_trace(tmp_path, folders):
    assert done(install(FILES, folders, "1")) == [Done.ADDED] * 3
    found = tree(tmp_path)
    del found[f"lib/plugins/{NAME}"]
    assert found == {
        "lib/plugins/ikex.lua": b"one",
        "lib/plugins/ikex/two.lua": b"two",
        "config/profiles/IKE/preferences": b"columns",
    }
    assert (folders.plugins / "ikex.lua").stat().st_mode & 0o777 == 0o644
    assert done(uninstall(folders.plugins)) == [Done.REMOVED] * 3
    assert os.listdir(tmp_path) == []


def test_what_was_there_stays(tmp_path, folders):
    folders.plugins.mkdir(parents=True)
    (folders.plugins / "other.lua").write_text("other")
    (folders.profiles / "IKE").mkdir(parents=True)
    (folders.profiles / "IKE" / "recent").write_text("recent")
    before = tree(tmp_path)
    install(FILES, folders, "1")
    assert len(tree(tmp_path)) == len(before) + 4
    uninstall(folders.plugins)
    assert tree(tmp_path) == before
    assert sorted(os.listdir(folders.plugins)) == ["other.lua"]


def test_again_changes_nothing(tmp_path, folders):
    install(FILES, folders, "1")
    before = tree(tmp_path)
    assert done(install(FILES, folders, "1")) == [Done.SAME] * 3
    assert tree(tmp_path) == before


def test_a_new_version(tmp_path, folders):
    install(FILES, folders, "1")
    newer = [PluginFile(Place.PLUGINS, "ikex.lua", b"newer"), PREFERENCES]
    steps = install(newer, folders, "2")
    assert [(step.done, step.path.name) for step in steps] == [
        (Done.UPDATED, "ikex.lua"),
        (Done.SAME, "preferences"),
        (Done.REMOVED, "two.lua"),
    ]
    assert read(folders.plugins).version == "2"
    uninstall(folders.plugins)
    assert tree(tmp_path) == {}


def test_changed_files_are_the_users(tmp_path, folders):
    install(FILES, folders, "1")
    mine = folders.profiles / "IKE" / "preferences"
    mine.write_text("my columns")
    newer = [ONE, TWO, PluginFile(Place.PROFILES, "IKE/preferences", b"new columns")]
    assert done(install(newer, folders, "2")) == [Done.SAME, Done.SAME, Done.KEPT]
    assert mine.read_text() == "my columns"
    assert [step.path for step in state(newer, read(folders.plugins)) if step.done is Done.KEPT] == [mine]
    assert done(uninstall(folders.plugins)) == [Done.REMOVED, Done.REMOVED, Done.KEPT]
    assert tree(tmp_path) == {"config/profiles/IKE/preferences": b"my columns"}


def test_changes_that_were_undone_are_no_changes(folders):
    install(FILES, folders, "1")
    mine = folders.profiles / "IKE" / "preferences"
    mine.write_text("my columns")
    install(FILES, folders, "2")
    mine.write_bytes(b"columns")
    assert Done.KEPT not in done(uninstall(folders.plugins))


def test_by_force_the_users_file_stays_beside(folders):
    folders.plugins.mkdir(parents=True)
    mine = folders.plugins / "ikex.lua"
    for text in ("mine", "mine again"):
        mine.write_text(text)
        assert done(install(FILES, folders, "1"))[0] is Done.KEPT
        assert done(install(FILES, folders, "1", force=True))[0] is Done.REPLACED
        assert mine.read_bytes() == b"one"
    assert (folders.plugins / "ikex.lua.orig").read_text() == "mine"
    assert (folders.plugins / "ikex.lua.orig2").read_text() == "mine again"


def test_links_are_the_users(tmp_path, folders):
    elsewhere = tmp_path / "dotfiles"
    elsewhere.write_text("mine")
    folders.plugins.mkdir(parents=True)
    (folders.plugins / "ikex.lua").symlink_to(elsewhere)
    assert done(install(FILES, folders, "1"))[0] is Done.KEPT
    assert elsewhere.read_text() == "mine"


def test_a_folder_in_the_way(folders):
    (folders.plugins / "ikex.lua").mkdir(parents=True)
    assert done(install(FILES, folders, "1", force=True))[0] is Done.KEPT


def test_a_file_in_the_way_of_a_folder(folders):
    folders.plugins.mkdir(parents=True)
    (folders.plugins / "ikex").write_text("mine")
    with pytest.raises(PluginError, match="ikex"):
        install(FILES, folders, "1")
    assert (folders.plugins / "ikex").read_text() == "mine"
    assert [name for name in os.listdir(folders.plugins) if name.startswith(".ikeanalyze-")] == []


def test_nothing_installed(folders):
    assert uninstall(folders.plugins) is None


def test_files_that_are_gone_already(tmp_path, folders):
    install(FILES, folders, "1")
    (folders.plugins / "ikex.lua").unlink()
    assert done(state(FILES, read(folders.plugins))) == [Done.MISSING, Done.SAME, Done.SAME]
    assert done(uninstall(folders.plugins)) == [Done.MISSING, Done.REMOVED, Done.REMOVED]
    assert tree(tmp_path) == {}


def test_profiles_that_moved(tmp_path, folders):
    install(FILES, folders, "1")
    moved = Folders(folders.plugins, tmp_path / "elsewhere", told=True)
    assert done(install(FILES, moved, "1")) == [Done.SAME, Done.SAME, Done.ADDED, Done.REMOVED]
    assert not (folders.profiles / "IKE" / "preferences").exists()
    uninstall(folders.plugins)
    assert tree(tmp_path) == {}


def test_state_of_an_older_installation(folders):
    install([ONE, TWO], folders, "1")
    newer = [PluginFile(Place.PLUGINS, "ikex.lua", b"newer"), PREFERENCES]
    assert done(state(newer, read(folders.plugins))) == [Done.UPDATED, Done.REMOVED, Done.MISSING]
