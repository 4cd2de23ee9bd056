"""Options for the output: format, path and figures; and the check that it does not overwrite an input."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from ikeanalyze.cli.options import MessageOptions
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.core.output import check_output

if TYPE_CHECKING:
    from ikeanalyze.render.core.formats import OutputFormats

Result = TypeVar("Result")

FORMAT_OPTION: Any = typer.Option("--format", help="Output format.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """Where a result goes."""

    output: Annotated[
        str, typer.Option("-o", "--output", metavar="PATH", help="Output file; - is standard output.")
    ] = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOptions(OutputOptions):
    """How a result is written; subclasses define the formats."""

    output_format: Annotated[str, FORMAT_OPTION] = "terminal"
    no_limit: Annotated[
        bool, typer.Option("--no-limit", help="Show all rows in the formats for people, not only the first ones.")
    ] = False

    def check(self) -> None:
        """Raise `OutputError` if the output cannot be written."""
        check_output(self.output)

    def get_view(self) -> RenderOptions:
        """Return the options of the formats; subclasses with more options add them."""
        return RenderOptions(every=self.no_limit)

    def write(self, formats: "OutputFormats[Result]", result: Result) -> None:
        """Write a result."""
        formats.write(result, Format(self.output_format), self.output, self.get_view())


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions(ResultOptions):
    """How a result without a table for other programs is written."""

    output_format: Annotated[Literal["terminal", "json"], FORMAT_OPTION] = "terminal"


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureOptions(ResultOptions):
    """How a result with figures is written."""

    figures: Annotated[
        str | None, typer.Option(metavar="DIR", help="Also write the figures to a directory, as SVG and PNG.")
    ] = None

    def check(self) -> None:
        """Check the output and the figures.

        Raises:
            OutputError: something cannot be written, or figures cannot be drawn.
            typer.BadParameter: DIR cannot be a directory.
        """
        check_output(self.output, directory=self.output_format == Format.PARQUET)
        if self.figures in ("", "-"):
            raise typer.BadParameter(
                f"{self.figures!r} is not a directory, and there are several figures", param_hint="--figures"
            )
        if self.figures is not None:
            check_output(self.figures, directory=True, option="--figures")
        if self.figures is not None or self.output_format == Format.HTML:
            # imported here because few commands draw
            from ikeanalyze.render.core.figures.address_space import check_address_space

            check_address_space()

    def write_figures(
        self, write: Callable[[Result, str], Sequence[Path]], result: Result, messages: MessageOptions
    ) -> None:
        """Write the figures of a result if they were asked for."""
        if self.figures is not None:
            messages.remark(f"{self.figures}: {len(write(result, self.figures))} files")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions(FigureOptions):
    """How a result with tables and figures is written."""

    output_format: Annotated[Literal["terminal", "json", "csv", "markdown"], FORMAT_OPTION] = "terminal"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions(FigureOptions):
    """How a result with tables, figures and an HTML page is written."""

    output_format: Annotated[Literal["terminal", "json", "csv", "markdown", "html"], FORMAT_OPTION] = "terminal"


def is_same_file(path: str, other: str) -> bool:
    """Return whether two paths name the same regular file, or would once it exists."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            return False
        return os.path.realpath(path) == os.path.realpath(other) or os.path.samefile(path, other)
    except OSError:
        return False


def check_inputs(inputs: Mapping[str, Sequence[str]], output: str) -> None:
    """Refuse standard input if it is a terminal or named twice, and an output that is an input.

    Args:
        inputs: the paths of each parameter, by its name.
        output: path of the output.

    Raises:
        typer.BadParameter: as above.
    """
    from_stdin = [parameter for parameter, paths in inputs.items() for path in paths if path == "-"]
    if len(from_stdin) > 1:
        raise typer.BadParameter("standard input can be read only once", param_hint=from_stdin[1])
    if from_stdin and sys.stdin is not None and sys.stdin.isatty():
        raise typer.BadParameter(
            "standard input is a terminal: pipe a file into it, or name a file", param_hint=from_stdin[0]
        )
    for path in (path for paths in inputs.values() for path in paths):
        if "-" not in (path, output) and is_same_file(path, output):
            raise typer.BadParameter(f"{output} is an input file, it would be overwritten", param_hint="-o")
