"""Commands whose options are fields of classes, and the options that all commands share."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, TypeVar, get_type_hints

import typer
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields
from typer.core import TyperCommand, TyperGroup

from ikeanalyze.cli.exit_status import handle_errors, log_stderr
from ikeanalyze.cli.usage.conversion import defer_conversion
from ikeanalyze.cli.usage.epilog import ExamplesInHelp

Function = TypeVar("Function", bound=Callable[..., None])

_MAX_WARNINGS: Final = 10

#: Other values of keys of scenarios of the lab, for `lab run` and `paper run`.
SetOption = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Another value of a key of the scenario, such as responder.stack=libreswan. Repeatable.",
    ),
]


class MessageOptions(Struct, frozen=True, kw_only=True):
    """Whether a command writes warnings, remarks and timings to standard error."""

    quiet: Annotated[bool, typer.Option("--quiet", help="Print no warnings, remarks or progress.")] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print all warnings, timings, and tracebacks of internal errors.")
    ] = False

    def remark(self, text: str) -> None:
        """Write a line to standard error, unless the command is quiet."""
        if not self.quiet:
            log_stderr(text)

    def warn(self, path: str, warnings: Sequence[object], prefix: str = "") -> None:
        """Write the first warnings about a file, or all if the command is verbose; only those become text."""
        shown = warnings if self.verbose else warnings[:_MAX_WARNINGS]
        for warning in shown:
            self.remark(f"{prefix}{warning}")
        if len(warnings) > len(shown):
            self.remark(f"{path}: {len(warnings) - len(shown):,} more warnings. --verbose shows all of them")


class _Group(ExamplesInHelp, TyperGroup):
    """A group of commands."""


class _Command(ExamplesInHelp, TyperCommand):
    """A command whose usage line is `options_metavar` alone, and that converts only values that need it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Errors name the command, which Click leaves out if an option lacks its value."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def get_params(self, ctx: Any) -> Any:
        """Return all parameters, including `--help`."""
        return defer_conversion(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Click's signature
        """Return the text after the name of the command."""
        return [self.options_metavar or ""]


def make_app(description: str | None = None) -> typer.Typer:
    """Make the Typer app of a command; with a description, of a group of commands."""
    return typer.Typer(
        cls=_Group,
        add_completion=False,
        rich_markup_mode=None,
        no_args_is_help=description is not None,
        help=description,
    )


def command(
    app: typer.Typer, usage: str, summary: str | None = None, *, name: str | None = None
) -> Callable[[Function], Function]:
    """Register a function as a command of `app`.

    Each parameter that is annotated with a Struct becomes the options that the fields of the Struct are annotated
    with, so that commands share groups of options. Errors are handled as `handle_errors` does.

    Args:
        app: as `make_app` makes it.
        usage: arguments and options, as in the usage line.
        summary: the line in the list of commands of a group.
        name: name of the command, if it differs from that of the function.
    """

    def register(function: Function) -> Function:
        app.command(name, cls=_Command, options_metavar=usage, short_help=summary)(_expand_groups(function))
        return function

    return register


def _expand_groups(function: Callable[..., None]) -> Callable[..., None]:
    """Make the function with one parameter for each option that Typer calls."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints[name]
        if isinstance(hint, type) and issubclass(hint, Struct):
            groups[name] = (hint, list(hint.__struct_fields__))
            parameters += map(_make_parameter, fields(hint))
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint))

    @functools.wraps(function)
    def call(**values: Any) -> None:
        with handle_errors(verbose=values.get("verbose", False)):
            for name, (group, names) in groups.items():
                values[name] = group(**{field: values.pop(field) for field in names})
            function(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _make_parameter(field: FieldInfo) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is NODEFAULT else field.default
    if field.default_factory is not NODEFAULT:
        default = field.default_factory()
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type)
