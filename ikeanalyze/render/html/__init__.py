"""HTML: one page for a report or a comparison, which needs no network and no other file."""

from typing import TextIO

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import View


def write(analysis: Analysis, out: TextIO, view: View) -> None:
    """Write the report."""
    from ikeanalyze.render.html.report import report_page

    out.write(report_page(analysis, every=view.every))
