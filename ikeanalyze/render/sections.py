"""What a report for people says, section by section, before it is laid out."""

from collections.abc import Iterator

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.captures import render_captures
from ikeanalyze.render.details import render_handshake
from ikeanalyze.render.overview import render_overview
from ikeanalyze.render.section import KeyValueSection, Section


def render_sections(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """The report: captures, handshakes, and the details if there is one handshake only."""
    yield from render_captures(analysis, every=every)
    if analysis.handshakes.height == 1:
        yield from render_handshake(analysis)
    elif analysis.handshakes.height:
        yield from render_overview(analysis, every=every)
    else:
        yield KeyValueSection("Handshakes", [("found", "none")])
