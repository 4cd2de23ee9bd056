import io

import pytest

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.core.section import Section
from ikeanalyze.render.report import text
from ikeanalyze.render.report.formats import FORMATS


@pytest.fixture
def rendered(capsys):
    """A function that renders an analysis to text, as on standard output."""

    def render(analysis: Analysis, form: Format, **view) -> str:
        capsys.readouterr()
        FORMATS.write(analysis, form, "-", RenderOptions(**view))
        return capsys.readouterr().out

    return render


def titled(a: Analysis, title: str, *, every: bool = False) -> Section:
    """The first section of a report for people whose title begins so."""
    return next(
        render_section
        for render_section in text.render_sections(a, every=every)
        if render_section.title.startswith(title)
    )


@pytest.fixture
def stream():
    return io.StringIO()
