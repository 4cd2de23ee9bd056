"""What an earlier installation has put where: without it, nobody could tell our files from the user's."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ikeanalyze.plugin.plugin_files import InstallDir
from ikeanalyze.plugin.wireshark_folders import WiresharkFolders

SCHEMA: Final = "ikeanalyze.plugin/1"
#: In the folder of the plugins, where Wireshark reads nothing but Lua.
NAME: Final = "ikeanalyze-plugin.json"


@dataclass(frozen=True, slots=True)
class InstallManifest:
    """One installation."""

    #: Of ikeanalyze that installed.
    version: str
    #: Where its plugins and profiles are.
    folders: WiresharkFolders
    #: By key ("plugins/ikex.lua"): the SHA-256 of what was written, in hex.
    files: dict[str, str]
    #: Folders that did not exist before, the outer ones first.
    created: list[Path] = field(default_factory=list)

    def path(self, key: str) -> Path:
        """Where the file of this key is."""
        place, _, name = key.partition("/")
        return (self.folders.plugins if place == InstallDir.PLUGINS else self.folders.profiles) / name


def compute_digest(content: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def read_manifest(plugins: Path) -> InstallManifest | None:
    """The manifest in this folder of plugins; None: there is none, or none that can be trusted."""
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
    if not all(_inside(key) and isinstance(value, str) for key, value in files.items()):
        return None
    paths = created if isinstance(created, list) else []
    folders = WiresharkFolders(plugins, Path(profiles), told=False)
    return InstallManifest(version, folders, files, [Path(path) for path in paths if isinstance(path, str)])


def _inside(key: Any) -> bool:
    """Does a key name a file in one of the two folders? One that was tampered with must not lead elsewhere."""
    if not isinstance(key, str):
        return False
    place, *rest = PurePosixPath(key).parts or ("",)
    return place in list(InstallDir) and bool(rest) and ".." not in rest and not key.startswith("/")


def encode_manifest(manifest: InstallManifest) -> bytes:
    """The manifest as it is kept."""
    document = {
        "schema": SCHEMA,
        "version": manifest.version,
        "profiles": str(manifest.folders.profiles),
        "files": dict(sorted(manifest.files.items())),
        "created": [str(path) for path in manifest.created],
    }
    return (json.dumps(document, indent=2) + "\n").encode()
