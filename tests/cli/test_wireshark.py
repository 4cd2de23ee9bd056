"""`ikeanalyze wireshark` in an empty home, with every tshark."""

import os
import tempfile

import pytest

from ikeanalyze import __version__
from ikeanalyze.plugin import plugin_files
from ikeanalyze.plugin import tshark as plugin_tshark
from ikeanalyze.plugin.plugin_files import find_command, list_plugin_files
from tests.paths import CAPTURES, ROOT

FILES = list_plugin_files(ROOT / "dissectors", find_command())
CAPTURE = CAPTURES / "pq-mlkem768-psk.pcap"


@pytest.fixture
def home(tshark, monkeypatch):
    """A room whose home is the user's, and in which `ikeanalyze wireshark` asks this tshark."""
    with tshark.room() as room:
        monkeypatch.setenv("HOME", str(room.path / "home"))
        monkeypatch.setenv("PATH", f"{room.program().parent}:{os.environ['PATH']}")
        monkeypatch.setattr(tempfile, "tempdir", str(room.path / "tmp"))
        monkeypatch.setattr(plugin_tshark, "is_superuser", lambda: False)  # tshark runs as an ordinary user here
        yield room


def rows(text):
    """The lines of `status` by their names."""
    return {line.split("  ")[0].strip(): line.partition("  ")[2].strip() for line in text.splitlines()}


def everything(home):
    return {path for path in (home.path / "home").rglob("*") if path.is_file()}


def test_installed_works_and_goes_without_a_trace(home, run):
    before = rows(run("wireshark", "status").stdout)
    version = home.tshark.version
    assert before["tshark"] == ".".join(map(str, version))
    assert before["Lua"] == ("5.2" if version < (4, 4) else "5.4")
    assert before["ciphers"].partition(":")[0] == ("none" if version < (4, 6) else "yes (GcryptCipher)")
    assert before["plugins"] == "~/.local/lib/wireshark/plugins"
    assert before["profiles"] == "~/.config/wireshark/profiles"
    assert before["installed"] == "no (ikeanalyze wireshark install)"
    assert "loaded" not in before

    done = run("wireshark", "install", "--dry-run")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "added       ~/.local/lib/wireshark/plugins/ikex.lua\n" in done.stdout
    assert done.stdout.count("\n") == len(FILES) + 1
    assert done.stdout.endswith("\nNothing was changed (--dry-run).\n")
    assert not (home.path / "home" / ".local").exists()

    done = run("wireshark", "install")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(
        f"{len(FILES)} files added\n"
        "plugins in ~/.local/lib/wireshark/plugins, profile in ~/.config/wireshark/profiles\n"
    )
    after = rows(run("wireshark", "status").stdout)
    assert after["installed"] == f"version {__version__}, {len(FILES)} files, all up to date"
    assert after["loaded"] == "ikex, iketcp"
    assert "error" not in after

    seen = home.run("-C", "IKE", "-Y", "ikex.handshake == 1", capture=CAPTURE, own_config=False)
    assert (seen.status, seen.stderr, len(seen.lines)) == (0, "", 7)
    assert "IKE_INTERMEDIATE request" in seen.lines[2]

    done = run("wireshark", "uninstall")
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{len(FILES)} files removed\n", "")
    assert list((home.path / "home").iterdir()) == []
    assert home.run("-Y", "ikex", capture=CAPTURE, own_config=False).status != 0


@pytest.mark.parametrize("tshark", ["host", "forky"], indirect=True)
def test_the_plugin_knows_the_command_that_installed_it(home, run, monkeypatch):
    """A virtual environment is not on Wireshark's PATH."""
    path = '/a "b"\\é\n/.venv/bin/ikeanalyze'
    monkeypatch.setattr(plugin_files, "find_command", lambda: path)
    run("wireshark", "install")
    script = 'for byte in require("ikex.installed").command:gmatch(".") do print(byte:byte()) end'
    done = home.run("-q", capture=CAPTURE, lua=[script], own_config=False)
    assert (done.stderr, bytes(map(int, done.lines))) == ("", path.encode())
    assert "ikex.command: /a" in home.run("-G", "currentprefs", own_config=False).stdout
    assert "all up to date" in rows(run("wireshark", "status").stdout)["installed"]


@pytest.mark.parametrize("tshark", ["forky"], indirect=True)
def test_what_the_user_changed_stays(home, run):
    run("wireshark", "install")
    columns = home.path / "home/.config/wireshark/profiles/IKE/preferences"
    columns.write_text('gui.column.format: \n\t"Mine", "%m"\n')
    recent = columns.with_name("recent")
    recent.write_text("# of Wireshark\n")
    done = run("wireshark", "install")
    assert done.exit_code == 0
    assert f"{columns} was changed since it was installed and is kept (--force replaces it)" in done.stderr
    assert done.stdout.startswith(f"{len(FILES) - 1} files up to date\n1 file kept\n") or "1 file kept" in done.stdout
    shown = run("wireshark", "status").stdout
    assert "changed by you: ~/.config/wireshark/profiles/IKE/preferences" in shown
    assert "1 not up to date" in rows(shown)["installed"]
    done = run("wireshark", "uninstall")
    assert f"{columns} was changed since it was installed and is kept" in done.stderr
    assert everything(home) == {columns}


@pytest.mark.parametrize("tshark", ["host"], indirect=True)
def test_keys_stay_and_are_named(home, run):
    run("wireshark", "install")
    keys = home.put("home/.config/wireshark/ikex_keys", "secret")
    done = run("wireshark", "uninstall")
    assert (done.exit_code, done.stdout) == (0, f"{len(FILES)} files removed\n")
    assert f"{keys} has keys, and is kept" in done.stderr
    assert everything(home) == {keys}


@pytest.mark.parametrize("tshark", ["host"], indirect=True)
def test_force_replaces_changed_files(home, run):
    mine = home.put("home/.local/lib/wireshark/plugins/ikex.lua", "-- mine")
    assert "is kept (--force replaces it)" in run("wireshark", "install").stderr
    assert mine.read_text() == "-- mine"
    done = run("wireshark", "install", "--force", "--verbose")
    assert done.exit_code == 0
    assert f"{mine} was replaced" in done.stderr
    assert "replaced    ~/.local/lib/wireshark/plugins/ikex.lua\n" in done.stdout
    assert mine.with_name("ikex.lua.orig").read_text() == "-- mine"
    assert rows(run("wireshark", "status").stdout)["loaded"] == "ikex, iketcp"
    assert f"{mine} is your version again" in run("wireshark", "uninstall").stderr
    assert mine.read_text() == "-- mine"
    assert everything(home) == {mine}


def test_a_plugin_that_does_not_load_is_told(home, run):
    home.put("home/.local/lib/wireshark/plugins/ikex.lua", "this is no Lua")
    done = run("wireshark", "install")
    assert done.exit_code == 1
    assert "does not load the plugin" in done.stderr
    assert "ikex.lua:1:" in done.stderr
    assert "ikex.lua:1:" in rows(run("wireshark", "status").stdout)["error"]


def test_another_copy_of_the_plugin_is_told(home, run):
    copy = home.put("home/.local/lib/wireshark/plugins/ikex-2026.lua", ROOT / "dissectors/ikex.lua")
    done = run("wireshark", "install")
    assert done.exit_code == 0
    used = f"ikex is installed twice, and the copy in {copy.parent} is used. Remove one of them."
    assert used in done.stderr
    assert rows(run("wireshark", "status").stdout)["error"] == used


@pytest.mark.parametrize("tshark", ["host"], indirect=True)
def test_root_gets_a_warning(home, run, monkeypatch):
    monkeypatch.setattr(plugin_tshark, "is_superuser", lambda: True)
    done = run("wireshark", "status")
    assert done.exit_code == 0
    assert "do not run Lua as root" in done.stderr
    assert "do not run Lua as root" in run("wireshark", "install").stderr
    for what in ("install", "status", "uninstall"):
        done = run("wireshark", what, "--quiet")
        assert (done.exit_code, done.stderr) == (0, "")


#: Stands in for tshark, and notes how it was started.
NOTES_STARTS = """#!/bin/sh
printf '%s\\n' "$1" >>"$0.starts"
case $1 in
--version) echo "TShark (Wireshark) 4.6.0." ;;
-n) printf 'ikeanalyze-probe\\tLua 5.4\\ttrue\\ttrue\\ttrue\\n' ;;
esac
"""


def test_tshark_is_started_for_what_a_command_needs_of_it(run, tmp_path, monkeypatch):
    """Its version and folders, and once whether the plugin is loaded: each start takes half a second or more."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WIRESHARK_CONFIG_DIR", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    program, starts = tmp_path / "tshark", tmp_path / "tshark.starts"
    program.write_text(NOTES_STARTS)
    program.chmod(0o755)
    for words, started in (
        (["install", "--dry-run"], ["--version", "-G"]),
        (["install"], ["--version", "-G", "-n"]),
        (["status"], ["--version", "-G", "-n"]),
        (["uninstall"], ["--version", "-G"]),
    ):
        starts.write_text("")
        assert run("wireshark", *words, "--tshark", str(program)).exit_code == 0
        assert starts.read_text().split() == started


def test_installing_works_without_tshark(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("WIRESHARK_CONFIG_DIR", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    done = run("wireshark", "install")
    assert done.exit_code == 0
    assert "default directories without a test" in done.stderr
    assert (tmp_path / ".local/lib/wireshark/plugins/ikex.lua").is_file()
    assert (tmp_path / ".config/wireshark/profiles/IKE/preferences").is_file()
    shown = rows(run("wireshark", "status").stdout)
    assert shown["tshark"] == "tshark not found, or not a tshark (Debian: apt install tshark)"
    assert shown["plugins"] == "~/.local/lib/wireshark/plugins (the default)"
    assert run("wireshark", "uninstall").exit_code == 0
    assert list(tmp_path.iterdir()) == []
    assert run("wireshark", "uninstall").stdout.startswith("Nothing was installed in ~")


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, True), (0o604, True), (0o644, True)])
def test_keys_that_other_users_can_read_are_named(run, tmp_path, monkeypatch, mode, warned):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("WIRESHARK_CONFIG_DIR", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert "keys" not in rows(run("wireshark", "status").stdout)
    path = tmp_path / ".config/wireshark/ikex_keys"
    path.parent.mkdir(parents=True)
    path.write_text("secret")
    path.chmod(mode)
    name = "~/.config/wireshark/ikex_keys"
    assert rows(run("wireshark", "status").stdout)["keys"] == name + (
        f": other users can read it: chmod 600 {name}" if warned else ""
    )


def test_another_program_is_not_tshark(run):
    done = run("wireshark", "install", "--tshark", "true")
    assert (done.exit_code, done.stderr) == (1, "ikeanalyze: true not found, or not a tshark\n")


def test_folders_that_cannot_be_written(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / ".local").write_text("in the way")
    done = run("wireshark", "install")
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert ".local" in done.stderr


def test_subcommands_have_help(run):
    assert run("wireshark").exit_code == 2
    done = run("wireshark", "--help")
    assert done.exit_code == 0
    assert all(name in done.stdout for name in ("install", "uninstall", "status"))
