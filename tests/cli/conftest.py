from dataclasses import fields

import pytest
from typer.testing import CliRunner

from ikeanalyze.cli.app import app
from tests.render import analysis_examples


class Reader:
    """Stands in for reading captures: notes what it is asked for, gives what the test has set."""

    def __init__(self) -> None:
        self.analysis = analysis_examples.analysis()
        self.raises: BaseException | None = None
        self.asked: dict = {}

    def __call__(self, paths, options):
        self.asked = {"paths": paths, **{field.name: getattr(options, field.name) for field in fields(options)}}
        if self.raises is not None:
            raise self.raises
        return self.analysis


@pytest.fixture
def reader(monkeypatch):
    one = Reader()
    monkeypatch.setattr("ikeanalyze.cli.capture_options.read_analysis", one)
    return one


@pytest.fixture
def run():
    """A function that runs the command line in this process: exit code, stdout and stderr."""

    def invoke(*arguments: str):
        return CliRunner().invoke(app, list(arguments), prog_name="ikeanalyze", catch_exceptions=False)

    return invoke
