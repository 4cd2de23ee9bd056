from ikeanalyze.plugin import tshark as plugin_tshark
from ikeanalyze.plugin.wireshark_folders import get_default_folders

#: What the releases' Lua is, and whether it has ciphers, as Wireshark's release notes have it.
LUA = {(4, 0): ("Lua 5.2", False), (4, 4): ("Lua 5.4", False), (4, 6): ("Lua 5.4", True)}


def asked(tshark, monkeypatch, *plugins):
    with tshark.room() as room:
        program = room.program()
        for name, content in plugins:
            room.put(f"home/.local/lib/wireshark/plugins/{name}", content)
        monkeypatch.setattr(plugin_tshark.tempfile, "tempdir", str(room.path / "tmp"))
        result = plugin_tshark.probe_tshark(str(program))
        return result, get_default_folders({"HOME": str(room.path / "home")}, "linux")


def test_what_a_tshark_says_of_itself(tshark, monkeypatch):
    result, folders = asked(tshark, monkeypatch)
    assert result.version == ".".join(map(str, tshark.version))
    assert (result.folders.plugins, result.folders.profiles) == (folders.plugins, folders.profiles)
    assert (result.lua, result.ciphers) == LUA[tshark.version[:2]]
    assert (result.loaded, result.complaints) == ((), ())


def test_a_plugin_that_is_loaded(tshark, monkeypatch):
    one = 'local p = Proto("ikex", "x") p.fields = {ProtoField.uint8("ikex.x")}'
    assert asked(tshark, monkeypatch, ("ikex.lua", one))[0].loaded == ("ikex",)
    result, _ = asked(tshark, monkeypatch, ("iketcp.lua", one.replace("ikex", "iketcp")))
    assert (result.loaded, result.complaints) == (("iketcp",), ())


def test_a_plugin_that_is_broken(tshark, monkeypatch):
    result, _ = asked(tshark, monkeypatch, ("ikex.lua", "no lua"))
    assert result.loaded == ()
    assert "ikex.lua:1" in result.complaints[0]


def test_another_program_is_not_tshark(tmp_path):
    assert plugin_tshark.probe_tshark(str(tmp_path / "nowhere")) is None
    assert plugin_tshark.probe_tshark("true") is None
    program = tmp_path / "tshark"
    program.write_text("not a program")
    program.chmod(0o755)
    assert plugin_tshark.probe_tshark(str(program)) is None


def test_a_tshark_without_lua_is_reported(tmp_path):
    program = tmp_path / "tshark"
    program.write_text('#!/bin/sh\n[ "$1" != --version ] || echo "TShark (Wireshark) 9.8.7 (Git v9.8.7)"\n')
    program.chmod(0o755)
    assert plugin_tshark.probe_tshark(str(program)) == plugin_tshark.TsharkInfo(
        str(program), "9.8.7", None, None, None, None, ()
    )
