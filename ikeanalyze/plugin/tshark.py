"""Finds the version, the folders and the Lua features of a tshark.

A Lua script detects the features in the program itself; nothing depends on the version.
"""

import os
import re
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ikeanalyze.plugin.wireshark_folders import WiresharkFolders, parse_tshark_folders

_SECONDS: Final = 60
#: A pcap file without packets, since tshark runs scripts only when it reads a capture.
_NO_PACKETS: Final = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
_MARK: Final = "ikeanalyze-probe"
_SCRIPT: Final = f"""
local function loaded(field)
    return (pcall(Field.new, field))
end
print(table.concat({{
    "{_MARK}", _VERSION, tostring(GcryptCipher ~= nil), tostring(loaded("ikex")), tostring(loaded("iketcp")),
}}, "\\t"))
"""


@dataclass(frozen=True, slots=True)
class TsharkInfo:
    """A tshark as the current user runs it."""

    program: str  # the command that was run
    version: str  # "4.0.17"
    folders: WiresharkFolders | None  # personal folders; None: unknown
    lua: str | None  # "Lua 5.4"; None: it does not run Lua
    ciphers: (
        bool | None
    )  # it has ciphers for Lua (GcryptCipher), so the plugin decrypts faster; None: it does not run Lua
    #: Parts of the plugin that are loaded in it: "ikex", "iketcp"; None: it does not run Lua.
    loaded: tuple[str, ...] | None
    complaints: tuple[str, ...]  # lines on standard error about the plugin


def is_superuser() -> bool:
    """Whether this process runs as root, for which recent versions of Wireshark do not run Lua."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def probe_tshark(program: str) -> TsharkInfo | None:
    """Probe `program`, a name on the PATH or a path; None if it is missing or not a tshark."""
    found = find_tshark(program)
    return found and probe_lua(found)


def find_tshark(program: str) -> TsharkInfo | None:
    """The version and folders of `program`, without what only `probe_lua` finds; None if it is not a tshark."""
    if shutil.which(program) is None:
        return None
    text, _ = _run(program, "--version")
    version = re.search(r"\(Wireshark\)\s+(\d+(?:\.\d+)+)", text)
    if version is None:
        return None
    folders, _ = _run(program, "-G", "folders")
    return TsharkInfo(program, version[1], parse_tshark_folders(folders), None, None, None, ())


def probe_lua(tshark: TsharkInfo) -> TsharkInfo:
    """Probe the Lua features and the loaded parts of the plugin."""
    with tempfile.TemporaryDirectory(prefix="ikeanalyze-") as folder:
        script, capture = Path(folder, "probe.lua"), Path(folder, "empty.pcap")
        script.write_text(_SCRIPT)
        capture.write_bytes(_NO_PACKETS)
        text, errors = _run(tshark.program, "-n", "-X", f"lua_script:{script}", "-r", str(capture))
    complaints = [
        line.strip()
        for line in errors.splitlines()
        if re.search(r"\bikex\b|\biketcp\b", line) and not re.match(r"\t.*: in ", line)  # of a stack traceback
    ]
    complaints.sort(key=lambda line: re.search(r"\.lua:\d+:", line) is None)  # lines with a line number first
    answers = [line.split("\t")[1:] for line in text.splitlines() if line.startswith(f"{_MARK}\t")]
    lua = ciphers = loaded = None
    if answers and len(answers[-1]) == 4:
        lua, with_ciphers, *parts = answers[-1]
        ciphers = with_ciphers == "true"
        loaded = tuple(name for name, yes in zip(("ikex", "iketcp"), parts, strict=True) if yes == "true")
    return replace(tshark, lua=lua, ciphers=ciphers, loaded=loaded, complaints=tuple(complaints[:5]))


def _run(program: str, *arguments: str) -> tuple[str, str]:
    """Return standard output and standard error, both empty if the program does not start or hangs."""
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    return done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
