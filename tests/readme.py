"""The console blocks of README and docs: `python -m tests.readme` runs their commands and writes what they print into them."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```console\n\$ ikeanalyze (?P<arguments>[^\n]*)\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")


def run(arguments: str, folder: Path = ROOT) -> str:
    """What the command prints in `folder`, as a pipe of 80 columns sees it."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "ikeanalyze", *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment, timeout=60)
    return done.stdout


def blocks(page: Path) -> list[tuple[str, str]]:
    """Arguments and printed output of each block."""
    return [(match["arguments"], match["output"]) for match in BLOCK.finditer(page.read_text())]


def refreshed(text: str) -> str:
    """The text with the outputs of now."""
    return BLOCK.sub(lambda match: f"```console\n$ ikeanalyze {match['arguments']}\n{run(match['arguments'])}```", text)


def links(page: Path) -> list[tuple[Path, str | None]]:
    """Files of ours that the page links to, each with the heading in it that is meant (None: the file as a whole)."""
    return [
        ((page.parent / match["path"]).resolve() if match["path"] else page, match["anchor"])
        for match in LINK.finditer(page.read_text())
    ]


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links to them, as GitHub makes it."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


if __name__ == "__main__":
    for page in PAGES:
        text = page.read_text()
        if BLOCK.search(text):
            page.write_text(refreshed(text))
