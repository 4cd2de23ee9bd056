import zipfile

import pytest
from hatchling.build import build_wheel

from ikeanalyze.plugin import PluginError, plugin_files
from ikeanalyze.plugin.plugin_files import (
    PROFILE,
    InstallDir,
    PluginFile,
    find_command,
    find_dissectors,
    list_plugin_files,
)
from tests.paths import ROOT


def test_a_checkout_has_them_beside_the_package():
    assert find_dissectors() == ROOT / "dissectors"


def test_every_lua_file_and_the_profile_are_installed():
    result = {(file.place, file.name): file.content for file in list_plugin_files(ROOT / "dissectors")}
    lua = {path.relative_to(ROOT / "dissectors").as_posix() for path in (ROOT / "dissectors").rglob("*.lua")}
    assert {name for place, name in result if place == "plugins"} == lua
    assert {"ikex.lua", "ikex/tcp.lua"} <= lua
    settings = {name for place, name in result if place == "profiles"}
    names = ("preferences", "colorfilters", "dfilter_buttons", "recent")
    assert settings == {f"{PROFILE}/{name}" for name in names}
    assert result[InstallDir.PLUGINS, "ikex/tcp.lua"] == (ROOT / "dissectors/ikex/tcp.lua").read_bytes()


def test_the_command_is_the_one_beside_this_python(tmp_path, monkeypatch):
    for folder in ("venv", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ikeanalyze").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(plugin_files.sys, "executable", str(tmp_path / "venv/python"))
    assert find_command() == str(tmp_path / "venv/ikeanalyze")
    (tmp_path / "venv/ikeanalyze").unlink()
    assert find_command() == str(tmp_path / "path/ikeanalyze")
    (tmp_path / "path/ikeanalyze").unlink()
    assert find_command() is None
    monkeypatch.setattr(plugin_files.sys, "executable", "")
    assert find_command() is None


def test_what_is_no_lua_and_no_profile_stays(tmp_path):
    for name in ("a.lua", "sub/b.lua", "README.md", "sub/c.txt", "profiles/IKE/x", "profiles/IKE/.hidden"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert list_plugin_files(tmp_path) == [
        PluginFile(InstallDir.PLUGINS, "a.lua", b"a.lua"),
        PluginFile(InstallDir.PLUGINS, "sub/b.lua", b"sub/b.lua"),
        PluginFile(InstallDir.PROFILES, "IKE/x", b"profiles/IKE/x"),
    ]


def test_an_installed_package_has_them_inside(tmp_path, monkeypatch):
    package = tmp_path / "ikeanalyze"
    monkeypatch.setattr(plugin_files, "__file__", str(package / "plugin" / "plugin_files.py"))
    with pytest.raises(PluginError, match="install it again"):
        find_dissectors()
    (package / "_dissectors").mkdir(parents=True)
    (package / "_dissectors" / "ikex.lua").touch()
    assert find_dissectors() == package / "_dissectors"


def test_the_wheel_contains_the_plugin(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    name = build_wheel(str(tmp_path))
    names = set(zipfile.ZipFile(tmp_path / name).namelist())
    for file in list_plugin_files(ROOT / "dissectors"):
        inside = file.name if file.place is InstallDir.PLUGINS else f"profiles/{file.name}"
        assert f"ikeanalyze/_dissectors/{inside}" in names
