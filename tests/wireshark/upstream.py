"""The console blocks of docs/upstream.md: `python -m tests.wireshark.upstream` updates their output.

It runs the commands with the newest tshark of `make trees`.

The commands of a block run in a shell, with `captures/`, and with the programs of Wireshark of that tree.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.paths import CAPTURES, ROOT
from tests.tsharks import Room, Tshark, find

PAGE = ROOT / "docs" / "upstream.md"
BLOCK = re.compile(r"^```console\n(?P<commands>(?:\$ [^\n]*\n)+)(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = ("tshark", "editcap", "text2pcap")


def _write_programs(room: Room) -> Path:
    """A folder with the programs that a block runs; those of Wireshark run in the tree as an ordinary user."""
    folder = room.path / "bin"
    folder.mkdir()
    inside = shlex.join(room.command("env"))
    scripts = {name: f'{inside} WIRESHARK_CONFIG_DIR="$WIRESHARK_CONFIG_DIR" {name} "$@"' for name in PROGRAMS}
    scripts["ikeanalyze"] = f'env PYTHONPATH={shlex.quote(str(ROOT))} {shlex.quote(sys.executable)} -m ikeanalyze "$@"'
    for name, command in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\nexec {command}\n")
        (folder / name).chmod(0o755)
    return folder


def run_block(tshark: Tshark, commands: str) -> str:
    """Run the commands of a block, and return their output and errors."""
    lines = [line.removeprefix("$ ") for line in commands.splitlines()]
    with tshark.room() as room:
        room.put("captures", CAPTURES)
        programs = _write_programs(room)
        room.give_away()
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "WIRESHARK_CONFIG_DIR": str(room.path / "config"),
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(
            ["sh", "-c", "\n".join(["cd " + shlex.quote(str(room.path)), "umask 022", *lines])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            check=False,
        )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.expandtabs(8).splitlines())


def find_blocks(page: str) -> list[tuple[str, str]]:
    """The commands and the shown output of each block."""
    return [(match["commands"], match["output"]) for match in BLOCK.finditer(page)]


def refresh(page: str, tshark: Tshark) -> str:
    """The page with the current output in each block."""

    def print_block(match: re.Match[str]) -> str:
        return f"```console\n{match['commands']}{run_block(tshark, match['commands'])}```"

    return BLOCK.sub(print_block, page)


if __name__ == "__main__":
    forky = find("forky")
    if not isinstance(forky, Tshark):
        sys.exit(forky)
    PAGE.write_text(refresh(PAGE.read_text(), forky))
