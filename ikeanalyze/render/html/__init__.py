"""HTML: one page for a report or a comparison, which needs no network and no other file."""

from typing import TextIO

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import RenderOptions


def write_page(analysis: Analysis, out: TextIO, view: RenderOptions) -> None:
    """Write the report."""
    from ikeanalyze.render.html.report import render_page

    out.write(render_page(analysis, every=view.every))
