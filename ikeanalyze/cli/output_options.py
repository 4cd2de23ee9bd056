"""Options for the output: format, path and figures; and the check that it does not overwrite an input."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, get_args, get_type_hints

import typer
from msgspec import Struct
from msgspec.structs import force_setattr

from ikeanalyze.cli.options import MessageOptions
from ikeanalyze.io.decompress import strip_compression
from ikeanalyze.render import SUFFIXES, Format, RenderOptions
from ikeanalyze.render.core.output import check_output

if TYPE_CHECKING:
    from ikeanalyze.render.core.formats import OutputFormats

Result = TypeVar("Result")

FORMAT_OPTION: Any = typer.Option("--format", help="Output format.")
#: The same for an output whose name may tell the format.
NAMED_FORMAT_OPTION: Any = typer.Option(
    "--format", help="Output format (default: that of the suffix of PATH, such as x.json; else terminal)."
)


_CAPTURE_SUFFIXES: Final = frozenset((".pcap", ".pcapng", ".cap", ".ntar"))
#: Suffixes of documents, pictures and tables that no command writes.
_OTHER_SUFFIXES: Final = frozenset(
    (".pdf", ".png", ".svg", ".jpg", ".jpeg", ".doc", ".docx", ".odt", ".tex", ".xls", ".xlsx", ".ods", ".tsv")
).union((".yaml", ".yml", ".pq", ".arrow", ".feather"))
#: Those which must not name a text by mistake.
_FOREIGN_SUFFIXES: Final = _CAPTURE_SUFFIXES | _OTHER_SUFFIXES
#: Suffixes of texts, which must not name a capture by mistake.
_TEXT_SUFFIXES: Final = _OTHER_SUFFIXES | SUFFIXES.keys() | {".txt", ".log"}
#: Suffixes of compressed files and archives that no command writes.
_ARCHIVE_SUFFIXES: Final = frozenset((".xz", ".bz2", ".lz4", ".br", ".zip", ".7z", ".rar", ".tar", ".tgz"))


def _print_schema(ctx: typer.Context, requested: bool) -> None:
    if requested and not ctx.resilient_parsing:
        from ikeanalyze.render.schemas import COMMANDS, read_schema  # for this option alone

        typer.echo(read_schema(COMMANDS[ctx.command_path.partition(" ")[2]]), nl=False)
        raise typer.Exit


def _print_line_schema(ctx: typer.Context, requested: bool) -> None:
    if requested and not ctx.resilient_parsing:
        from ikeanalyze.render.schemas import read_line_schema  # for this option alone

        typer.echo(read_line_schema(), nl=False)
        raise typer.Exit


SCHEMA_OPTION: Any = typer.Option(
    "--schema", help="Print the JSON Schema of the format json, and exit.", is_eager=True, callback=_print_schema
)
#: The same of a command that writes no document.
LINE_SCHEMA_OPTION: Any = typer.Option(
    "--schema",
    help="Print the JSON Schema of a line of the format jsonl, and exit.",
    is_eager=True,
    callback=_print_line_schema,
)


def choose_format(chosen: str | None, path: str, formats: Sequence[str]) -> str:
    """Return the format of an output: the chosen one, or that of the suffix of its path, or the terminal's.

    Args:
        chosen: by --format; None: not given.
        path: path of the output.
        formats: that the command can write.

    Raises:
        typer.BadParameter: the suffix is that of another format, or of a format or a compression that the command
            cannot write.
    """
    suffix = _get_suffix(path, "-o")
    names = f"the formats are {', '.join(formats)}" if len(formats) > 1 else f"the only format is {formats[0]}"
    if chosen is None and suffix in _FOREIGN_SUFFIXES:
        raise typer.BadParameter(f"{path}: no format is written to {suffix} files; {names}", param_hint="-o")
    meant = SUFFIXES.get(suffix, ())
    if chosen is None and meant and meant[0] not in formats:
        problem = f"{path} has the name of a file in the format {meant[0]}; {names}"
        raise typer.BadParameter(problem, param_hint="-o")
    if chosen is not None and meant and chosen not in meant:
        raise typer.BadParameter(
            f"{path} has the name of a file in the format {meant[0]}, not {chosen}", param_hint="-o"
        )
    form = chosen or (meant[0] if meant else Format.TERMINAL)
    if form == Format.PARQUET and strip_compression(path) != path:
        problem = f"{path}: parquet is a directory of compressed files; name it {strip_compression(path)}"
        raise typer.BadParameter(problem, param_hint="-o")
    return form


def check_capture_name(path: str, option: str = "-o") -> None:
    """Raise `typer.BadParameter` if an output that is a capture has the name of another kind of file."""
    suffix = _get_suffix(path, option)
    if suffix in _TEXT_SUFFIXES:
        problem = f"{path}: the output is a capture, not a {suffix} file; name it x.pcapng, or x.pcapng.gz"
        raise typer.BadParameter(problem, param_hint=option)


def _get_suffix(path: str, option: str) -> str:
    """Return the suffix of a name in lower case, without that of a compression that is written.

    Raises:
        typer.BadParameter: it is the suffix of another compression, or of an archive.
    """
    suffix = os.path.splitext(strip_compression(path))[1].lower()
    if suffix in _ARCHIVE_SUFFIXES:
        problem = f"{path}: no {suffix} file is written; outputs are compressed if their names end with .gz or .zst"
        raise typer.BadParameter(problem, param_hint=option)
    return suffix


def has_pcap_name(path: str) -> bool:
    """Return whether this is the name of a pcap file, which is not a pcapng file."""
    return strip_compression(path).lower().endswith(".pcap")


def advise_pcapng_name(path: str, messages: MessageOptions) -> None:
    """Tell that an output is pcapng if its name is that of a pcap file, which some programs could not read."""
    if has_pcap_name(path):
        messages.remark(f"{path}: written as pcapng, despite its name. editcap -F pcap converts it")


class OutputOptions(Struct, frozen=True, kw_only=True):
    """Where a result goes."""

    output: Annotated[
        str, typer.Option("-o", "--output", metavar="PATH", help="Output file; - is standard output.")
    ] = "-"


class ResultOptions(OutputOptions, frozen=True, kw_only=True):
    """How a result is written; subclasses define the formats."""

    output_format: Annotated[str | None, NAMED_FORMAT_OPTION] = None
    no_limit: Annotated[
        bool, typer.Option("--no-limit", help="Show all rows in the formats for people, not only the first ones.")
    ] = False
    schema: Annotated[bool, SCHEMA_OPTION] = False

    def __post_init__(self) -> None:
        """Choose the format; `typer.BadParameter` if the name of the output is that of another one."""
        hint = get_type_hints(type(self))["output_format"]
        formats = [name for member in get_args(hint) for name in get_args(member)]
        force_setattr(self, "output_format", choose_format(self.output_format, self.output, formats))

    def check(self) -> None:
        """Raise `OutputError` if the output cannot be written."""
        check_output(self.output)

    def get_view(self) -> RenderOptions:
        """Return the options of the formats; subclasses with more options add them."""
        return RenderOptions(every=self.no_limit)

    def write(self, formats: "OutputFormats[Result]", result: Result) -> None:
        """Write a result."""
        formats.write(result, Format(self.output_format or Format.TERMINAL), self.output, self.get_view())


class TextOptions(ResultOptions, frozen=True, kw_only=True):
    """How a result without a table for other programs is written."""

    output_format: Annotated[Literal["terminal", "json"] | None, NAMED_FORMAT_OPTION] = None


class FigureOptions(ResultOptions, frozen=True, kw_only=True):
    """How a result with figures is written."""

    figures: Annotated[
        str | None, typer.Option(metavar="DIR", help="Also write the figures to a directory, as SVG, PDF and PNG.")
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
            paths = write(result, self.figures)
            messages.remark(
                f"{self.figures}: {f'{len(paths)} files' if paths else 'nothing to draw: figures need several values'}"
            )


class TableOptions(FigureOptions, frozen=True, kw_only=True):
    """How a result with tables and figures is written."""

    output_format: Annotated[Literal["terminal", "json", "csv", "markdown"] | None, NAMED_FORMAT_OPTION] = None


class PageOptions(FigureOptions, frozen=True, kw_only=True):
    """How a result with tables, figures and an HTML page is written."""

    output_format: Annotated[Literal["terminal", "json", "csv", "markdown", "html"] | None, NAMED_FORMAT_OPTION] = None


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
