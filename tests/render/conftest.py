import io

import pytest

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import Format, View, write


@pytest.fixture
def rendered(capsys):
    """A function that renders an analysis to text, as on standard output."""

    def render(analysis: Analysis, form: Format, **view) -> str:
        capsys.readouterr()
        write(analysis, form, "-", View(**view))
        return capsys.readouterr().out

    return render


@pytest.fixture
def stream():
    return io.StringIO()
