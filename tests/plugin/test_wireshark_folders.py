from pathlib import Path

import pytest

from ikeanalyze.plugin.wireshark_folders import WiresharkFolders, get_default_folders, parse_tshark_folders

#: `tshark -G folders` of 4.0.17.
TOLD = """Temp:                	/tmp
Personal configuration:	/home/a b/.config/wireshark
Global configuration:	/usr/share/wireshark
System:              	/etc
Program:             	/usr/bin
Personal Plugins:    	/home/a b/.local/lib/wireshark/plugins/4.0
Global Plugins:      	/usr/lib/x86_64-linux-gnu/wireshark/plugins/4.0
Personal Lua Plugins:	/home/a b/.local/lib/wireshark/plugins
Global Lua Plugins:  	/usr/lib/x86_64-linux-gnu/wireshark/plugins
Extcap path:         	/usr/lib/x86_64-linux-gnu/wireshark/extcap
"""


def test_lua_has_a_folder_of_its_own():
    plugins, settings = Path("/home/a b/.local/lib/wireshark/plugins"), Path("/home/a b/.config/wireshark")
    assert parse_tshark_folders(TOLD) == WiresharkFolders(plugins, settings / "profiles", told=True)


def test_older_versions_have_one_folder_for_all_plugins():
    old = TOLD.replace("Personal Lua Plugins:", "Something else:")
    assert parse_tshark_folders(old).plugins == Path("/home/a b/.local/lib/wireshark/plugins/4.0")


@pytest.mark.parametrize("text", ["", "tshark: no such option", "Personal configuration:\n", "Temp:\t/tmp\n"])
def test_anything_else_is_not_believed(text):
    assert parse_tshark_folders(text) is None


def test_what_tshark_tells_is_the_usual(tshark):
    with tshark.room() as room:
        tshark_folders = parse_tshark_folders(room.run("-G", "folders", own_config=False).stdout)
        guessed = get_default_folders({"HOME": str(room.path / "home")}, "linux")
        assert (tshark_folders.plugins, tshark_folders.profiles) == (guessed.plugins, guessed.profiles)
        tshark_folders = parse_tshark_folders(room.run("-G", "folders").stdout)
        guessed = get_default_folders(room.environment(), "linux")
        assert (tshark_folders.plugins, tshark_folders.profiles) == (guessed.plugins, guessed.profiles)
        assert (tshark_folders.told, guessed.told) == (True, False)


def test_folders_of_wireshark_follow_the_system_and_environment():
    windows = get_default_folders({"APPDATA": "C:/Users/a/AppData/Roaming"}, "win32")
    assert windows.plugins == Path("C:/Users/a/AppData/Roaming/Wireshark/plugins")
    assert windows.profiles == Path("C:/Users/a/AppData/Roaming/Wireshark/profiles")
    assert get_default_folders({"HOME": "/home/a", "XDG_CONFIG_HOME": "/c"}, "linux").profiles == Path(
        "/c/wireshark/profiles"
    )
