"""What a tshark says of itself: version, folders, and what its Lua can do.

Features are asked for, in Lua, in the very program; versions are shown and decide nothing.
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
#: A pcap file without packets: what the script needs to be run at all.
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
    """One tshark as the user who asks has it."""

    #: The command that was run.
    program: str
    #: "4.0.17".
    version: str
    #: Where it looks; None: it did not tell.
    folders: WiresharkFolders | None
    #: "Lua 5.4"; None: it ran no Lua.
    lua: str | None
    #: It has ciphers for Lua (GcryptCipher), so the plugin decrypts; None: no Lua to ask.
    ciphers: bool | None
    #: Parts of the plugin that are loaded in it: "ikex", "iketcp"; None: no Lua to ask.
    loaded: tuple[str, ...] | None
    #: What it wrote on standard error about the plugin.
    complaints: tuple[str, ...]


def is_superuser() -> bool:
    """Is this process root's? Newer versions then run no Lua, neither plugins nor scripts."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def probe_tshark(program: str) -> TsharkInfo | None:
    """Ask `program`, a name on the PATH or a path; None: it is not there, or is no tshark."""
    if shutil.which(program) is None:
        return None
    _, text, _ = _run(program, "--version")
    version = re.search(r"\(Wireshark\)\s+(\d+(?:\.\d+)+)", text)
    if version is None:
        return None
    _, told, _ = _run(program, "-G", "folders")
    return probe_lua(TsharkInfo(program, version[1], parse_tshark_folders(told), None, None, None, ()))


def probe_lua(tshark: TsharkInfo) -> TsharkInfo:
    """The same tshark, asked once more what its Lua can do and what is loaded."""
    with tempfile.TemporaryDirectory(prefix="ikeanalyze-") as folder:
        script, capture = Path(folder, "probe.lua"), Path(folder, "empty.pcap")
        script.write_text(_SCRIPT)
        capture.write_bytes(_NO_PACKETS)
        _, text, errors = _run(tshark.program, "-n", "-X", f"lua_script:{script}", "-r", str(capture))
    complaints = [line.strip() for line in errors.splitlines() if re.search(r"\bikex\b|\biketcp\b", line)]
    complaints.sort(key=lambda line: re.search(r"\.lua:\d+:", line) is None)  # first those that name a line
    answers = [line.split("\t")[1:] for line in text.splitlines() if line.startswith(f"{_MARK}\t")]
    lua = ciphers = loaded = None
    if answers and len(answers[-1]) == 4:
        lua, with_ciphers, *parts = answers[-1]
        ciphers = with_ciphers == "true"
        loaded = tuple(name for name, yes in zip(("ikex", "iketcp"), parts, strict=True) if yes == "true")
    return replace(tshark, lua=lua, ciphers=ciphers, loaded=loaded, complaints=tuple(complaints[:5]))


def _run(program: str, *arguments: str) -> tuple[int | None, str, str]:
    """Exit status (None: does not start, or hangs), standard output, standard error."""
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
        return None, "", ""
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
