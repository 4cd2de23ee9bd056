from dataclasses import replace

from ikeanalyze.analysis.result import AnalysisWarning
from tests.render.analysis_examples import CAPTURE, analysis, summary
from tests.render.conftest import titled


def test_warnings_are_counted_per_capture():
    a = analysis([1], warnings=[AnalysisWarning(CAPTURE, 1, "x"), AnalysisWarning("other", 1, "x")])
    a = replace(a, captures=[*a.captures, summary("other"), summary("third")])
    assert ("warnings", "1") in titled(a, CAPTURE).rows
    assert not any(name == "warnings" for name, _ in titled(a, "third").rows)
