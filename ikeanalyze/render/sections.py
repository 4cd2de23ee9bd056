"""What a report for people says, section by section, before it is laid out."""

from collections.abc import Iterator

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.captures import captures
from ikeanalyze.render.details import details
from ikeanalyze.render.overview import overview
from ikeanalyze.render.section import Facts, Section


def sections(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """The report: captures, handshakes, and the details if there is one handshake only."""
    yield from captures(analysis, every=every)
    if analysis.handshakes.height == 1:
        yield from details(analysis)
    elif analysis.handshakes.height:
        yield from overview(analysis, every=every)
    else:
        yield Facts("Handshakes", [("found", "none")])
