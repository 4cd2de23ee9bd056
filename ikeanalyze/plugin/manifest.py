"""The manifest of an installation, which distinguishes the plugin's files from the user's."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ikeanalyze.plugin.plugin_files import InstallDir
from ikeanalyze.plugin.wireshark_folders import WiresharkFolders

SCHEMA: Final = "ikeanalyze.plugin/1"
#: File name in the folder of plugins, of which Wireshark loads only Lua files.
NAME: Final = "ikeanalyze-plugin.json"


@dataclass(frozen=True, slots=True)
class InstallManifest:
    """One installation."""

    version: str  # version of ikeanalyze that installed the plugin
    folders: WiresharkFolders  # folders of the plugins and profiles
    files: dict[str, str]  # SHA-256 of each installed file in hex digits, by key ("plugins/ikex.lua")
    created: list[Path] = field(default_factory=list)  # folders that the installation created, parents first

    def path(self, key: str) -> Path:
        """Path of the file with this key."""
        place, _, name = key.partition("/")
        return (self.folders.plugins if place == InstallDir.PLUGINS else self.folders.profiles) / name


def compute_digest(content: bytes) -> str:
    """SHA-256 in hex digits."""
    return hashlib.sha256(content).hexdigest()


def read_manifest(plugins: Path) -> InstallManifest | None:
    """Read the manifest of this folder of plugins; None if it is missing or invalid."""
    try:
        document = json.loads((plugins / NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return None
    version, profiles = document.get("version"), document.get("profiles")
    files, created = document.get("files"), document.get("created")
    if not isinstance(version, str) or not isinstance(profiles, str) or not isinstance(files, dict):
        return None
    if not all(_is_valid_key(key) and isinstance(value, str) for key, value in files.items()):
        return None
    paths = created if isinstance(created, list) else []
    folders = WiresharkFolders(plugins, Path(profiles), told=False)
    return InstallManifest(version, folders, files, [Path(path) for path in paths if isinstance(path, str)])


def _is_valid_key(key: Any) -> bool:
    """Whether a key names a file in one of the two folders; a modified manifest must not name other files."""
    if not isinstance(key, str):
        return False
    place, *rest = PurePosixPath(key).parts or ("",)
    return place in list(InstallDir) and bool(rest) and ".." not in rest and not key.startswith("/")


def encode_manifest(manifest: InstallManifest) -> bytes:
    """Encode the manifest as JSON."""
    document = {
        "schema": SCHEMA,
        "version": manifest.version,
        "profiles": str(manifest.folders.profiles),
        "files": dict(sorted(manifest.files.items())),
        "created": [str(path) for path in manifest.created],
    }
    return (json.dumps(document, indent=2) + "\n").encode()
