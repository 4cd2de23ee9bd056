"""Finds the documentation that texts of the program refer to, such as "docs/diagnosis.md"."""

from pathlib import Path


def find_documentation() -> Path | None:
    """Return the folder with the files that texts of the program name, such as docs/diagnosis.md; None: it is missing.

    An installed package contains it, and in a checkout it is next to the package.
    """
    package = Path(__file__).parent.parent
    folders = (package / "_docs", package.parent / "docs")
    return next((folder for folder in folders if (folder / "diagnosis.md").is_file()), None)
