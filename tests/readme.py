"""The console blocks of the README: `python -m tests.readme` runs their commands and writes what they print into it."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(
    r"^```console\n\$ ikeanalyze (?P<arguments>[^\n]*)\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL
)


def run(arguments: str) -> str:
    """What the command prints, as a pipe of 80 columns sees it."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "ikeanalyze", *arguments.split()]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment, timeout=60
    )
    return done.stdout


def blocks(text: str) -> list[tuple[str, str]]:
    """Arguments and printed output of each block."""
    return [(match["arguments"], match["output"]) for match in BLOCK.finditer(text)]


def refreshed(text: str) -> str:
    """The text with the outputs of now."""
    return BLOCK.sub(
        lambda match: f"```console\n$ ikeanalyze {match['arguments']}\n{run(match['arguments'])}```", text
    )


if __name__ == "__main__":
    README.write_text(refreshed(README.read_text()))
