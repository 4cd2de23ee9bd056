"""Where output goes, as several commands have it."""

from collections.abc import Iterable
from typing import Annotated

import typer

from ikeanalyze.render import Format

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


def chosen_format(formats: Iterable[Format], name: str) -> Format:
    """The one of these formats that has this name, or wrong usage that says which there are."""
    known = list(formats)
    for form in known:
        if form == name:
            return form
    raise typer.BadParameter(f"there is no format {name!r}; there are {', '.join(known)}", param_hint="--format")


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
