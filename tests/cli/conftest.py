import json

import pytest
from typer.testing import CliRunner

from ikeanalyze.cli.app import app
from tests.json_schemas import NAMES, list_errors
from tests.render import analysis_examples


class Reader:
    """Stands in for reading captures: notes what it is asked for, gives what the test has set."""

    def __init__(self) -> None:
        self.analysis = analysis_examples.analysis()
        self.raises: BaseException | None = None
        self.asked: dict = {}

    def __call__(self, paths, options):
        self.asked = {"paths": paths, **{name: getattr(options, name) for name in options.__struct_fields__}}
        if self.raises is not None:
            raise self.raises
        return analysis_examples.analysed(self.analysis)


@pytest.fixture
def reader(monkeypatch):
    one = Reader()
    monkeypatch.setattr("ikeanalyze.cli.capture_options.read_analysis", one)
    return one


@pytest.fixture
def run():
    """A function that runs the command line in this process: exit code, stdout and stderr.

    Each JSON document on stdout is validated against its schema.
    """

    def invoke(*arguments: str):
        result = CliRunner().invoke(app, list(arguments), prog_name="ikeanalyze", catch_exceptions=False)
        if result.stdout.startswith('{\n  "schema": "') and json.loads(result.stdout)["schema"] in NAMES:
            assert list_errors(json.loads(result.stdout)) == []
        return result

    return invoke
