"""Where output goes, as several commands have it."""

from enum import StrEnum
from typing import Annotated, TypeVar

import typer

_Format = TypeVar("_Format", bound=StrEnum)

Output = Annotated[
    str, typer.Option("-o", "--output", metavar="PATH", help="A file to write to; - is standard output.")
]
Figures = Annotated[
    str | None,
    typer.Option(
        "--figures",
        metavar="DIR",
        help="Write the figures there as well: SVG and PNG, as wide as a column of a paper.",
    ),
]


def chosen_format(formats: type[_Format], name: str) -> _Format:
    """The format of this name, or wrong usage that says which there are."""
    try:
        return formats(name)
    except ValueError:
        known = ", ".join(formats)
        raise typer.BadParameter(
            f"there is no format {name!r}; there are {known}", param_hint="--format"
        ) from None


def check_figures(directory: str | None) -> None:
    """Refuse what cannot be meant: no name, or standard output, which takes no directory; None: nothing was asked for.

    Raises:
        typer.BadParameter: the above.
        OutputError: the directory cannot be written.
    """
    if directory is None:
        return
    if directory in ("", "-"):
        raise typer.BadParameter(
            f"{directory!r} names no directory, and figures are several files", param_hint="--figures"
        )
    from ikeanalyze.render.output import check

    check(directory, directory=True, option="--figures")
