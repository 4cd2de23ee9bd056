"""Lists the files of the plugin: Lua, and the profile "IKE"."""

import os
import shutil
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from ikeanalyze.plugin import PluginError

#: Wireshark's name for the profile.
PROFILE: Final = "IKE"
#: The file with keys in the personal folder that the plugin reads without a preference. The user writes it.
KEY_FILE: Final = "ikex_keys"
#: The module of the plugin that is not in `dissectors`: it has the path of this ikeanalyze.
COMMAND_FILE: Final = "ikex/installed.lua"
#: Name of the file of a profile that Wireshark writes whenever it exits: widths of columns, and positions of windows.
_STATE_FILE: Final = "recent"


class InstallDir(StrEnum):
    """A personal folder of Wireshark."""

    PLUGINS = "plugins"
    PROFILES = "profiles"


@dataclass(frozen=True, slots=True)
class PluginFile:
    """One file to install."""

    place: InstallDir  # folder where it is installed
    name: str  # its path in that folder, with slashes: "ikex/names.lua", "IKE/preferences"
    content: bytes = field(repr=False)  # its bytes

    @property
    def key(self) -> str:
        """Key of the file in the manifest: "plugins/ikex/names.lua"."""
        return f"{self.place}/{self.name}"


def is_state_file(key: str) -> bool:
    """Whether Wireshark itself writes the file with this key, so that a change is not a user's."""
    return key.rpartition("/")[2] == _STATE_FILE


def find_dissectors() -> Path:
    """Return the folder of the plugin's files: inside an installed package, next to the package in a checkout.

    Raises PluginError where they are in neither.
    """
    package = Path(__file__).parent.parent
    for candidate in (package / "_dissectors", package.parent / "dissectors"):
        if (candidate / "ikex.lua").is_file():
            return candidate
    raise PluginError(
        "this installation of ikeanalyze has no dissectors: install it again (in a clone: pip install --force-reinstall .)"
    )


def find_command() -> str | None:
    """The path of the command `ikeanalyze` next to this Python, or else of that on the PATH; None if there is none.

    That of a virtual environment is on the PATH only where this is activated, and not for Wireshark.
    """
    beside = shutil.which("ikeanalyze", path=os.path.dirname(sys.executable)) if sys.executable else None
    path = beside or shutil.which("ikeanalyze")
    return os.path.abspath(path) if path else None


def _quote_lua(text: str) -> bytes:
    """A string of Lua."""
    plain = set(range(0x20, 0x7F)) - set(b'"\\')
    return b'"%b"' % b"".join(b"%c" % byte if byte in plain else b"\\%03d" % byte for byte in os.fsencode(text))


def list_plugin_files(dissectors: Path, command: str | None = None) -> list[PluginFile]:
    """List the Lua files and the profiles in the folder `dissectors`, sorted by key.

    `command`: the path of ikeanalyze, which the plugin runs to write decrypted captures.
    """
    found = [
        PluginFile(InstallDir.PLUGINS, path.relative_to(dissectors).as_posix(), path.read_bytes())
        for path in dissectors.rglob("*.lua")
    ]
    profiles = dissectors / "profiles"
    found += [
        PluginFile(InstallDir.PROFILES, path.relative_to(profiles).as_posix(), path.read_bytes())
        for path in profiles.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    ]
    if command is not None:
        content = b"-- Written by `ikeanalyze wireshark install`.\nreturn { command = %b }\n" % _quote_lua(command)
        found.append(PluginFile(InstallDir.PLUGINS, COMMAND_FILE, content))
    return sorted(found, key=lambda file: file.key)
