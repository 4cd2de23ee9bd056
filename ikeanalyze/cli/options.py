"""Commands whose options are dataclasses, and the options that all commands share."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Annotated, Any, Final, TypeVar, cast, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from ikeanalyze.cli.exit_status import handle_errors, log_stderr
from ikeanalyze.cli.usage.conversion import defer_conversion

Function = TypeVar("Function", bound=Callable[..., None])

_MAX_WARNINGS: Final = 10

#: Other values of keys of scenarios of the lab, for `lab run` and `paper run`.
SetOption = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Another value of a key of the scenario, such as responder.stack=libreswan; repeatable.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageOptions:
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


def write_examples(context: Any, formatter: Any) -> None:
    """Write the examples of a command at the end of its help, as they are: they can be copied."""
    from ikeanalyze.cli.usage.examples import EXAMPLES  # for help alone

    if examples := EXAMPLES.get(context.command_path.partition(" ")[2]):
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class _Group(TyperGroup):
    """A group of commands."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        write_examples(ctx, formatter)


class _Command(TyperCommand):
    """A command whose usage line is `options_metavar` alone, and that converts only values that need it."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        write_examples(ctx, formatter)

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

    Each parameter that is annotated with a dataclass becomes the options that the fields of the dataclass are annotated
    with, so that commands share groups of options. Errors are handled as `handle_errors` does.

    Args:
        app: as `make_app` makes it.
        usage: arguments and options, as in the usage line.
        summary: the line in the list of commands of a group.
        name: of the command, if the function cannot have it.
    """

    def register(function: Function) -> Function:
        app.command(name, cls=_Command, options_metavar=usage, short_help=summary)(_expand_dataclasses(function))
        return function

    return register


def _expand_dataclasses(function: Callable[..., None]) -> Callable[..., None]:
    """Make the function with one parameter for each option that Typer calls."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints[name]
        if is_dataclass(hint):
            field_hints = get_type_hints(hint, include_extras=True)
            groups[name] = (cast(Any, hint), [field.name for field in fields(hint)])
            parameters += [_make_parameter(field.name, field_hints[field.name], field) for field in fields(hint)]
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


def _make_parameter(name: str, hint: Any, field: Field[Any]) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    if field.default_factory is not MISSING:
        default = field.default_factory()
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
