from typing import Annotated, Literal

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from ikeanalyze.cli.conversion import defer_conversion


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
    quiet: bool = False,
) -> None:
    print(repr((files, name, kind, port, keys, number, share, quiet)))


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
        ["\udcff"],
        [],
        ["a", "--kind", "xml"],
        ["a", "--port", "10"],
        ["a", "--number", "four"],
        ["--help"],
    ],
)
def test_values_and_errors_are_those_of_typer(arguments):
    assert run(arguments, Deferring) == run(arguments, TyperCommand)
