import errno
import os
import re
from pathlib import Path

import pytest

from ikeanalyze.plugin import PluginError
from ikeanalyze.plugin.installer import (
    FileChange,
    FileStatus,
    compare_installation,
    install_files,
    plan_installation,
    uninstall_files,
)
from ikeanalyze.plugin.manifest import NAME, read_manifest
from ikeanalyze.plugin.plugin_files import InstallDir, PluginFile
from ikeanalyze.plugin.wireshark_folders import WiresharkFolders

ONE = PluginFile(InstallDir.PLUGINS, "ikex.lua", b"one")
TWO = PluginFile(InstallDir.PLUGINS, "ikex/two.lua", b"two")
PREFERENCES = PluginFile(InstallDir.PROFILES, "IKE/preferences", b"columns")
FILES = [ONE, TWO, PREFERENCES]


@pytest.fixture
def folders(tmp_path):
    return WiresharkFolders(tmp_path / "lib" / "plugins", tmp_path / "config" / "profiles", told=True)


def done(steps):
    return [step.done for step in steps]


def tree(path: Path):
    return {str(item.relative_to(path)): item.read_bytes() for item in path.rglob("*") if item.is_file()}


def test_installed_and_gone_without_a_trace(tmp_path, folders):
    assert done(install_files(FILES, folders, "1")) == [FileStatus.ADDED] * 3
    result = tree(tmp_path)
    del result[f"lib/plugins/{NAME}"]
    assert result == {
        "lib/plugins/ikex.lua": b"one",
        "lib/plugins/ikex/two.lua": b"two",
        "config/profiles/IKE/preferences": b"columns",
    }
    assert (folders.plugins / "ikex.lua").stat().st_mode & 0o777 == 0o644
    assert done(uninstall_files(folders.plugins)) == [FileStatus.REMOVED] * 3
    assert os.listdir(tmp_path) == []


def test_existing_files_are_kept(tmp_path, folders):
    folders.plugins.mkdir(parents=True)
    (folders.plugins / "other.lua").write_text("other")
    (folders.profiles / "IKE").mkdir(parents=True)
    (folders.profiles / "IKE" / "recent").write_text("recent")
    before = tree(tmp_path)
    install_files(FILES, folders, "1")
    assert len(tree(tmp_path)) == len(before) + 4
    uninstall_files(folders.plugins)
    assert tree(tmp_path) == before
    assert sorted(os.listdir(folders.plugins)) == ["other.lua"]


def test_a_second_installation_changes_nothing(tmp_path, folders):
    install_files(FILES, folders, "1")
    before = tree(tmp_path)
    assert done(install_files(FILES, folders, "1")) == [FileStatus.SAME] * 3
    assert tree(tmp_path) == before


def test_a_new_version_replaces_the_files(tmp_path, folders):
    install_files(FILES, folders, "1")
    newer = [PluginFile(InstallDir.PLUGINS, "ikex.lua", b"newer"), PREFERENCES]
    steps = install_files(newer, folders, "2")
    assert [(step.done, step.path.name) for step in steps] == [
        (FileStatus.UPDATED, "ikex.lua"),
        (FileStatus.SAME, "preferences"),
        (FileStatus.REMOVED, "two.lua"),
    ]
    assert read_manifest(folders.plugins).version == "2"
    uninstall_files(folders.plugins)
    assert tree(tmp_path) == {}


def test_the_file_that_wireshark_writes_is_installed_once_and_removed(tmp_path, folders):
    recent = PluginFile(InstallDir.PROFILES, "IKE/recent", b"widths")
    path = folders.profiles / "IKE" / "recent"
    install_files([*FILES, recent], folders, "1")
    path.write_text("widths, and the position of the window")
    newer = [*FILES, PluginFile(InstallDir.PROFILES, "IKE/recent", b"other widths")]
    assert done(install_files(newer, folders, "2")) == [FileStatus.SAME] * 4
    assert done(compare_installation(newer, read_manifest(folders.plugins))) == [FileStatus.SAME] * 4
    assert path.read_text() == "widths, and the position of the window"
    uninstall_files(folders.plugins)
    assert tree(tmp_path) == {}


def test_one_that_wireshark_wrote_before_the_installation_is_kept(tmp_path, folders):
    recent = PluginFile(InstallDir.PROFILES, "IKE/recent", b"widths")
    path = folders.profiles / "IKE" / "recent"
    path.parent.mkdir(parents=True)
    path.write_text("of the user's own profile")
    assert done(install_files([recent], folders, "1")) == [FileStatus.KEPT]
    uninstall_files(folders.plugins)
    assert path.read_text() == "of the user's own profile"


def test_changed_files_are_the_users(tmp_path, folders):
    install_files(FILES, folders, "1")
    mine = folders.profiles / "IKE" / "preferences"
    mine.write_text("my columns")
    newer = [ONE, TWO, PluginFile(InstallDir.PROFILES, "IKE/preferences", b"new columns")]
    assert done(install_files(newer, folders, "2")) == [FileStatus.SAME, FileStatus.SAME, FileStatus.KEPT]
    assert mine.read_text() == "my columns"
    assert [
        step.path
        for step in compare_installation(newer, read_manifest(folders.plugins))
        if step.done is FileStatus.KEPT
    ] == [mine]
    assert done(uninstall_files(folders.plugins)) == [FileStatus.REMOVED, FileStatus.REMOVED, FileStatus.KEPT]
    assert tree(tmp_path) == {"config/profiles/IKE/preferences": b"my columns"}


def test_changes_that_were_undone_are_no_changes(folders):
    install_files(FILES, folders, "1")
    mine = folders.profiles / "IKE" / "preferences"
    mine.write_text("my columns")
    install_files(FILES, folders, "2")
    mine.write_bytes(b"columns")
    assert FileStatus.KEPT not in done(uninstall_files(folders.plugins))


def test_by_force_the_users_file_stays_beside(folders):
    folders.plugins.mkdir(parents=True)
    mine = folders.plugins / "ikex.lua"
    for text in ("mine", "mine again"):
        mine.write_text(text)
        assert done(install_files(FILES, folders, "1"))[0] is FileStatus.KEPT
        assert done(install_files(FILES, folders, "1", force=True))[0] is FileStatus.REPLACED
        assert mine.read_bytes() == b"one"
    assert (folders.plugins / "ikex.lua.orig").read_text() == "mine"
    assert (folders.plugins / "ikex.lua.orig2").read_text() == "mine again"
    assert done(uninstall_files(folders.plugins))[0] is FileStatus.RESTORED
    assert mine.read_text() == "mine again"
    assert (folders.plugins / "ikex.lua.orig").read_text() == "mine"
    assert not (folders.plugins / "ikex.lua.orig2").exists()


def test_a_file_changed_after_force_is_kept_and_the_original_too(folders):
    folders.plugins.mkdir(parents=True)
    mine = folders.plugins / "ikex.lua"
    mine.write_text("mine")
    install_files(FILES, folders, "1", force=True)
    mine.write_text("changed")
    assert done(uninstall_files(folders.plugins))[0] is FileStatus.KEPT
    assert mine.read_text() == "changed"
    assert (folders.plugins / "ikex.lua.orig").read_text() == "mine"


def test_symbolic_links_are_kept(tmp_path, folders):
    elsewhere = tmp_path / "dotfiles"
    elsewhere.write_text("mine")
    folders.plugins.mkdir(parents=True)
    (folders.plugins / "ikex.lua").symlink_to(elsewhere)
    assert done(install_files(FILES, folders, "1"))[0] is FileStatus.KEPT
    assert elsewhere.read_text() == "mine"


def test_a_folder_in_place_of_a_file_is_kept(folders):
    (folders.plugins / "ikex.lua").mkdir(parents=True)
    assert done(install_files(FILES, folders, "1", force=True))[0] is FileStatus.KEPT


def test_a_file_in_the_way_of_a_folder(folders):
    folders.plugins.mkdir(parents=True)
    (folders.plugins / "ikex").write_text("mine")
    with pytest.raises(PluginError, match=r"ikex: (File exists|Not a directory). Rename or remove"):
        install_files(FILES, folders, "1")
    assert (folders.plugins / "ikex").read_text() == "mine"
    assert [name for name in os.listdir(folders.plugins) if name.startswith(".ikeanalyze-")] == []


def test_a_personal_folder_that_cannot_be_made():
    folders = WiresharkFolders(Path("/proc/plugins"), Path("/proc/profiles"), told=True)  # Linux makes no folders there
    with pytest.raises(PluginError, match=r"^/proc/plugins: .*your own: check their owner, and that HOME"):
        install_files(FILES, folders, "1")


def test_an_error_of_a_full_disk_names_the_file(folders, monkeypatch):
    def write_nothing(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", write_nothing)
    file = re.escape(str(folders.plugins / "ikex.lua"))
    with pytest.raises(
        PluginError, match=f"^{file}: No space left on device. Correct that, and run the command again$"
    ):
        install_files(FILES, folders, "1")


def test_uninstalling_nothing_removes_nothing(folders):
    assert uninstall_files(folders.plugins) is None


def test_files_that_are_gone_already(tmp_path, folders):
    install_files(FILES, folders, "1")
    (folders.plugins / "ikex.lua").unlink()
    assert done(compare_installation(FILES, read_manifest(folders.plugins))) == [
        FileStatus.MISSING,
        FileStatus.SAME,
        FileStatus.SAME,
    ]
    assert done(uninstall_files(folders.plugins)) == [FileStatus.MISSING, FileStatus.REMOVED, FileStatus.REMOVED]
    assert tree(tmp_path) == {}


def test_profiles_in_another_folder_are_updated_there(tmp_path, folders):
    install_files(FILES, folders, "1")
    moved = WiresharkFolders(folders.plugins, tmp_path / "elsewhere", told=True)
    assert done(install_files(FILES, moved, "1")) == [
        FileStatus.SAME,
        FileStatus.SAME,
        FileStatus.ADDED,
        FileStatus.REMOVED,
    ]
    assert not (folders.profiles / "IKE" / "preferences").exists()
    uninstall_files(folders.plugins)
    assert tree(tmp_path) == {}


def test_state_of_an_older_installation(folders):
    install_files([ONE, TWO], folders, "1")
    newer = [PluginFile(InstallDir.PLUGINS, "ikex.lua", b"newer"), PREFERENCES]
    assert done(compare_installation(newer, read_manifest(folders.plugins))) == [
        FileStatus.UPDATED,
        FileStatus.REMOVED,
        FileStatus.MISSING,
    ]


def test_a_plan_is_what_the_installation_does_and_changes_nothing(tmp_path, folders):
    assert plan_installation(FILES, folders) == [
        FileChange(FileStatus.ADDED, folders.plugins / "ikex.lua"),
        FileChange(FileStatus.ADDED, folders.plugins / "ikex" / "two.lua"),
        FileChange(FileStatus.ADDED, folders.profiles / "IKE" / "preferences"),
    ]
    assert tree(tmp_path) == {}
    install_files(FILES, folders, "1")
    (folders.profiles / "IKE" / "preferences").write_text("mine")
    later = [PluginFile(InstallDir.PLUGINS, "ikex.lua", b"new"), PREFERENCES]
    for force in (False, True):
        before = tree(tmp_path)
        planned = plan_installation(later, folders, force=force)
        assert tree(tmp_path) == before
    assert planned == install_files(later, folders, "2", force=True)
    assert done(planned) == [FileStatus.UPDATED, FileStatus.REPLACED, FileStatus.REMOVED]
