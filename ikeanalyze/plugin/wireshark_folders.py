"""Where Wireshark looks for a user's plugins and profiles.

Wireshark itself tells, in `tshark -G folders`. Where it cannot be asked there are the folders of its User's
Guide, appendix B ("Files and Folders").
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WiresharkFolders:
    """A user's own folders of Wireshark. They need not exist yet."""

    #: Lua here, and in folders below, is loaded at the start.
    plugins: Path
    #: Each folder here is a profile of its name.
    profiles: Path
    #: tshark has told them; else they are the usual ones.
    told: bool


def parse_tshark_folders(text: str) -> WiresharkFolders | None:
    """What `tshark -G folders` prints; None: this is not it.

    Versions with a line for Lua plugins mean that one: their other plugin folder is for compiled ones.
    """
    lines = dict(re.findall(r"^([^:\n]+):[ \t]+(\S[^\n]*?)\s*$", text, re.MULTILINE))
    plugins = lines.get("Personal Lua Plugins") or lines.get("Personal Plugins")
    settings = lines.get("Personal configuration")
    if not plugins or not settings:
        return None
    return WiresharkFolders(Path(plugins), Path(settings) / "profiles", told=True)


def get_default_folders(environment: Mapping[str, str], platform: str) -> WiresharkFolders:
    """The folders that Wireshark takes if nothing is set up otherwise; `platform` as in sys.platform."""
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
