"""CITATION.cff: the version and the license are those of the package."""

import tomllib

from tests.paths import ROOT


def test_the_citation_is_of_this_package():
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {f"version: {project['version']}", f"license: {project['license']}", "cff-version: 1.2.0"} <= set(lines)
    assert lines[lines.index("authors:") + 1] == "  - name: ikeanalyze developers"
