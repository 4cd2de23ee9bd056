"""Finds the folders of a user's Wireshark plugins and profiles.

`tshark -G folders` prints them. Without tshark, the defaults of Wireshark's User's Guide apply, appendix B ("Files and
Folders").
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WiresharkFolders:
    """Personal folders of Wireshark, which may not exist yet."""

    plugins: Path  # Wireshark loads the Lua files in this folder and its subfolders
    profiles: Path  # each subfolder is a profile
    told: bool  # whether tshark printed them; otherwise the defaults


def parse_tshark_folders(text: str) -> WiresharkFolders | None:
    """Parse the output of `tshark -G folders`; None if it lacks the folders.

    Recent versions print a separate folder for Lua plugins; their other plugin folder is for compiled ones.
    """
    lines = dict(re.findall(r"^([^:\n]+):[ \t]+(\S[^\n]*?)\s*$", text, re.MULTILINE))
    plugins = lines.get("Personal Lua Plugins") or lines.get("Personal Plugins")
    settings = lines.get("Personal configuration")
    if not plugins or not settings:
        return None
    return WiresharkFolders(Path(plugins), Path(settings) / "profiles", told=True)


def get_default_folders(environment: Mapping[str, str], platform: str) -> WiresharkFolders:
    """Wireshark's default folders; `platform` as in sys.platform."""
    if platform == "win32":
        roaming = environment.get("APPDATA")
        base = Path(roaming) / "Wireshark" if roaming else Path.home() / "AppData" / "Roaming" / "Wireshark"
        plugins, settings = base / "plugins", base
    else:
        home = Path(environment.get("HOME") or os.path.expanduser("~"))
        plugins = home / ".local" / "lib" / "wireshark" / "plugins"
        settings = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "wireshark"
    settings = Path(environment.get("WIRESHARK_CONFIG_DIR") or settings)
    return WiresharkFolders(plugins, settings / "profiles", told=False)
