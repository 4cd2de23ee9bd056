"""`ikeanalyze rank`: alternatives in order, by several criteria."""

from typing import TYPE_CHECKING, Annotated

import typer

from ikeanalyze.cli.outcome import FailureError, job, say
from ikeanalyze.cli.reading import Quiet, Verbose
from ikeanalyze.cli.writing import Figures, Output, check_figures, chosen_format

if TYPE_CHECKING:
    from ikeanalyze.model.criteria import Measured


def rank(
    criteria: Annotated[str, typer.Argument(metavar="CRITERIA.toml", hidden=True)],
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="terminal, json, csv or markdown.")
    ] = "terminal",
    output: Output = "-",
    every: Annotated[
        bool, typer.Option("--all", help="All rows in the terminal and markdown formats, not just 30.")
    ] = False,
    figures: Figures = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the criteria file itself, an example to start from.")
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Rank alternatives by several criteria: the multiplicative analytic hierarchy process.

    The file says what the alternatives are, how much each criterion matters (weights, or by how many steps experts
    find one more important than another), and what grades the alternatives have: as numbers, or made of values
    with a table of thresholds or by comparison with a reference; values may come from a dataset that `batch` made.

    Shown are the order, what each criterion contributes to it, and the weights at which it would change.

    CRITERIA.toml is a file, or the name of an example: epc-authentication, epc-aka.
    """
    with job(verbose=verbose):
        from ikeanalyze.render.ranking_formats import FORMATS

        chosen = chosen_format(FORMATS, form)
        from ikeanalyze.model.criteria import CriteriaError, criteria_text, read_criteria
        from ikeanalyze.model.ranking import rank as ranked
        from ikeanalyze.render import View
        from ikeanalyze.render.output import check, opened

        check(output)
        check_figures(figures)
        try:
            if show:
                text = criteria_text(criteria)
                with opened(output) as out:
                    out.write(text)
                return
            found = ranked(read_criteria(criteria), _look_up)
        except CriteriaError as error:
            raise FailureError(str(error)) from None
        FORMATS.write(found, chosen, output, View(every=every))
        if figures is not None:
            from ikeanalyze.render.figures.files import write_figures
            from ikeanalyze.render.figures.ranking import ranking_figures

            written = write_figures(figures, ranking_figures(found))
            if not quiet:
                say(f"{figures}: {len(written)} files")


def _look_up(measured: "Measured") -> dict[str, float]:
    """The values that a dataset has of the alternatives."""
    from ikeanalyze.dataset.compare_columns import Condition
    from ikeanalyze.dataset.compare_error import CompareError
    from ikeanalyze.dataset.measured import group_values
    from ikeanalyze.model.criteria import CriteriaError

    where = [Condition(column, value) for column, value in measured.where]
    try:
        found = group_values(str(measured.dataset), measured.by, measured.metric, measured.statistic, where)
    except CompareError as error:
        raise CriteriaError(str(error)) from None
    if missing := [group for group in measured.groups.values() if group not in found]:
        known = ", ".join(found) or "none"
        raise CriteriaError(
            f"{measured.dataset} has no {measured.metric} where {measured.by} is {missing[0]}; it has: {known}"
        )
    return {name: found[group] for name, group in measured.groups.items()}
