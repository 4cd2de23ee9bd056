"""`--figures DIR`, as several commands have it."""

import typer


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
