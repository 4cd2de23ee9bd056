"""Sections of the documentation that a program writes, between two comments with their name."""

from pathlib import Path


def replace_section(page: Path, name: str, text: str) -> None:
    """Replace the text of a section.

    Raises:
        ValueError: the page has no such section, or several.
    """
    begin, end = (f"<!-- {name}: {mark} -->\n" for mark in ("begin", "end"))
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text(before + begin + text + end + after)
