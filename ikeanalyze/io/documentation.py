"""Finds the documentation that texts of the program refer to, such as "docs/diagnosis.md"."""

from pathlib import Path


def find_documentation() -> Path | None:
    """Return the folder that texts call docs: inside an installed package, next to the package in a checkout.

    None where it is in neither.
    """
    package = Path(__file__).parent.parent
    folders = (package / "_docs", package.parent / "docs")
    return next((folder for folder in folders if (folder / "diagnosis.md").is_file()), None)
