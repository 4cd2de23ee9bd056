"""The console blocks of README and docs: `python -m tests.readme` runs their commands and updates the printed output.

A block shows the complete output of a command, or an excerpt: a paragraph `...` replaces one or more paragraphs. The
first line of each other paragraph selects it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, *DOCS]
#: Pages without output of the program, of which only the links are checked.
OTHER_PAGES = [
    ROOT / name
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "captures/README.md", "dissectors/README.md", "reports/README.md")
]
BLOCK = re.compile(r"^```console\n\$ ikeanalyze (?P<arguments>[^\n]*)\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")
OMITTED = "..."


def run(arguments: str, folder: Path = ROOT) -> str:
    """Run a command in `folder` and return its output, as through a pipe of 80 columns."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "ikeanalyze", *arguments.split()]
    completed = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=folder, env=environment, timeout=60
    )
    return completed.stdout


def find_blocks(page: Path) -> list[tuple[str, str]]:
    """Return the arguments and the shown output of each block."""
    return [(match["arguments"], match["output"]) for match in BLOCK.finditer(page.read_text())]


def abridge(output: str, shown: str) -> str:
    """Return the excerpt of `output` that `shown` selects; raise ValueError if a selected paragraph does not exist."""
    headings = [paragraph.partition("\n")[0] for paragraph in shown.rstrip("\n").split("\n\n")]
    if OMITTED not in headings:
        return output
    excerpt: list[str] = []
    for paragraph in output.rstrip("\n").split("\n\n"):
        if paragraph.partition("\n")[0] in headings:
            excerpt.append(paragraph)
        elif excerpt[-1:] != [OMITTED]:
            excerpt.append(OMITTED)
    missing = set(headings) - {paragraph.partition("\n")[0] for paragraph in excerpt}
    if missing:
        raise ValueError(f"not in the output: {', '.join(sorted(missing))}")
    return "\n\n".join(excerpt) + "\n"


def refresh(text: str) -> str:
    """Return the text of a page with the current output in each block."""

    def print_block(match: re.Match[str]) -> str:
        output = abridge(run(match["arguments"]), match["output"])
        return f"```console\n$ ikeanalyze {match['arguments']}\n{output}```"

    return BLOCK.sub(print_block, text)


def find_links(page: Path) -> list[tuple[Path, str | None]]:
    """Return the files in this repository that the page links to, each with its heading (None: the whole file)."""
    return [
        ((page.parent / match["path"]).resolve() if match["path"] else page, match["anchor"])
        for match in LINK.finditer(page.read_text())
    ]


def find_anchors(page: Path) -> set[str]:
    """Return the anchors of a page: those of its headings, as GitHub generates them, and explicit ones."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    explicit = re.findall(r'<a id="([^"]+)">', text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings} | set(explicit)


if __name__ == "__main__":
    for page in PAGES:
        text = page.read_text()
        if BLOCK.search(text):
            page.write_text(refresh(text))
