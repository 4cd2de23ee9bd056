import subprocess
import sys
from typing import Annotated, Literal

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from ikeanalyze.cli.usage.conversion import defer_conversion


class Deferring(TyperCommand):
    def get_params(self, ctx):
        return defer_conversion(super().get_params(ctx))


def print_values(
    files: list[str],
    name: str = "-",
    kind: Literal["pcap", "json"] = "json",
    port: Annotated[list[int], typer.Option(min=1, max=9)] = [],  # noqa: B006 - as dataclasses with lists give it
    keys: Annotated[list[str], typer.Option()] = [],  # noqa: B006
    number: int | None = None,
    share: float = 0.5,
    count: Annotated[int, typer.Option(min=1)] = 1,
    quiet: bool = False,
) -> None:
    print(repr((files, name, kind, port, keys, number, share, count, quiet)))


def run(arguments: list[str], cls: type[TyperCommand]) -> tuple[int, str]:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(cls=cls)(print_values)
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["a"],
        ["a", "b", "--name", "", "--kind", "pcap", "--quiet"],
        ["a", "--port", "2", "--port", "03", "--number", "-4", "--share", "1e3", "--keys", "x", "--keys", "y"],
        ["a", "--number", " 1_000", "--share", "inf"],
        ["\udcff"],
        [],
        ["a", "--kind", "xml"],
        ["--help"],
    ],
)
def test_values_and_errors_are_those_of_typer(arguments):
    assert run(arguments, Deferring) == run(arguments, TyperCommand)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--number", "four"], "'four' is not a whole number"),
        (["--number", "1.5"], "'1.5' is not a whole number"),
        (["--number", "10ms"], "'10ms' is not a whole number; write 10 without a unit"),
        (["--share", "20%"], "'20%' is not a number. 20 % is written 0.2"),
        (["--share", ""], "'' is not a number"),
        (["--port", "1", "--port", "10"], "10 is not within 1 to 9"),
        (["--port", "0"], "0 is not within 1 to 9"),
        (["--count", "0"], "0 is not 1 or more"),
    ],
)
def test_an_error_has_the_text_that_was_typed(arguments, problem):
    status, output = run(["a", *arguments], Deferring)
    assert status == 2
    assert f"Invalid value for '{arguments[0]}': {problem}\n" in output


def test_a_number_needs_no_pydantic():
    code = (
        "import sys; from typer.testing import CliRunner; from ikeanalyze.cli.app import app; "
        "CliRunner().invoke(app, ['report', 'none', '--rtt', '1.5', '--port', '501', '--handshake', '1']); "
        "sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
