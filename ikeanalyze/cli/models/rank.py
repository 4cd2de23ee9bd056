"""`ikeanalyze rank`: rank alternatives by several criteria."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ikeanalyze.cli.exit_status import fail_command
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import TableOptions, check_inputs
from ikeanalyze.model.ranking.criteria import CriteriaError, DatasetValues, load_criteria, load_criteria_text
from ikeanalyze.model.ranking.ranking import Ranking, rank_alternatives
from ikeanalyze.render.core.output import open_output
from ikeanalyze.render.ranking.formats import FORMATS

app = make_app()


@command(app, "CRITERIA.toml [OPTIONS]")
def rank(
    criteria: Annotated[str, typer.Argument(metavar="CRITERIA.toml", hidden=True)],
    output: TableOptions,
    messages: MessageOptions,
    print_example: Annotated[
        bool, typer.Option("--print-example", help="Print the criteria file, as an example to start from.")
    ] = False,
) -> None:
    """Rank alternatives by several criteria with the multiplicative analytic hierarchy process.

    The file defines the alternatives, the importance of each criterion (weights, or by how many steps experts prefer
    one to another), and the grades of the alternatives: numbers, or values that a table of thresholds or the comparison
    with a reference converts to grades. Values may come from a dataset that `batch` wrote.

    The result shows the order, what each criterion contributes to it, and the weights at which it would change.

    CRITERIA.toml is a file, or the name of an example: epc-authentication, epc-aka.
    """
    if Path(criteria).is_file():  # not the name of an example
        check_inputs({"CRITERIA.toml": [criteria]}, output.output)
    output.check()
    with fail_command(CriteriaError):
        if print_example:
            text = load_criteria_text(criteria)
            with open_output(output.output) as out:
                out.write(text)
            return
        ranking = rank_alternatives(load_criteria(criteria), _look_up)
    output.write(FORMATS, ranking)
    output.write_figures(_write_figures, ranking, messages)


def _write_figures(ranking: Ranking, directory: str) -> Sequence[Path]:
    # imported here because they load altair, which takes a quarter of a second
    from ikeanalyze.render.core.figures.files import write_figures
    from ikeanalyze.render.ranking.figures import make_figures

    return write_figures(directory, make_figures(ranking))


def _look_up(measured: DatasetValues) -> dict[str, float]:
    """Return the values of the alternatives in a dataset."""
    # imported here because they load polars and scipy, and few criteria use datasets
    from ikeanalyze.dataset.compare import CompareError
    from ikeanalyze.dataset.compare.columns import RowCondition
    from ikeanalyze.dataset.compare.compare import compute_group_values

    where = [RowCondition(column, value) for column, value in measured.where]
    try:
        values = compute_group_values(str(measured.dataset), measured.by, measured.metric, measured.statistic, where)
    except CompareError as error:
        raise CriteriaError(str(error)) from None
    if missing := [group for group in measured.groups.values() if group not in values]:
        known = ", ".join(values) or "none"
        raise CriteriaError(
            f"{measured.dataset} has no {measured.metric} where {measured.by} is {missing[0]}; it has: {known}"
        )
    return {name: values[group] for name, group in measured.groups.items()}
