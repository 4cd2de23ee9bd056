"""Runs the interoperability matrix and updates it in docs/lab.md: `python -m tests.lab.interop_matrix`, as root."""

import tempfile
from pathlib import Path

from benchmarks.generated_section import replace_section
from ikeanalyze.lab.matrix import format_matrix, list_installed_names, run_matrix
from tests.paths import ROOT

PAGE = ROOT / "docs" / "lab.md"
BEGIN, END = "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"


def read_section() -> str:
    """The section of the page."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = format_matrix(run_matrix(list_installed_names(), Path(folder)))
    replace_section(PAGE, "matrix", table)


if __name__ == "__main__":
    main()
