"""Lists the files of the plugin: Lua, and the profile "IKE"."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from ikeanalyze.plugin import PluginError

#: Wireshark's name for the profile.
PROFILE: Final = "IKE"
#: The file with keys in the personal folder that the plugin reads without a preference. The user writes it.
KEY_FILE: Final = "ikex_keys"
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


def list_plugin_files(dissectors: Path) -> list[PluginFile]:
    """List the Lua files and the profiles in the folder `dissectors`, sorted by key."""
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
    return sorted(found, key=lambda file: file.key)
