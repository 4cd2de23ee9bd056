"""`ikeanalyze compare`: groups of handshakes beside one another."""

from typing import TYPE_CHECKING, Annotated

import typer

from ikeanalyze.cli.outcome import FailureError, job, say
from ikeanalyze.cli.reading import Quiet, Verbose
from ikeanalyze.cli.writing import Figures, Output, check_figures, chosen_format

if TYPE_CHECKING:
    from ikeanalyze.dataset.compare_columns import Condition
    from ikeanalyze.dataset.comparison import Comparison


def compare(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", hidden=True)],
    by: Annotated[
        list[str],
        typer.Option(
            "--by",
            metavar="COLUMN",
            help="What makes a group: a label, or another column of the handshakes. Can be repeated.",
        ),
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="VALUE",
            help="The value of the first --by that the others are compared with; else the first one in order.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="What to compare: setup_ms, bytes, round_trips, blowup... Can be repeated; else setup_ms, bytes "
            "and retransmissions.",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="COLUMN=VALUE",
            help="Only handshakes that have this value. Can be repeated: of the same column any, of several all.",
        ),
    ] = None,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            "--outcome",
            metavar="OUTCOME",
            help="Outcome of the handshakes that metrics count; else established and completed. Can be repeated.",
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option("--confidence", metavar="PERCENT", help="Of the intervals and the test.")
    ] = 95,
    resamples: Annotated[
        int, typer.Option("--resamples", metavar="N", min=100, max=1_000_000, help="Of a bootstrap.")
    ] = 2_000,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="terminal, json, csv, markdown or html.")
    ] = "terminal",
    output: Output = "-",
    every: Annotated[
        bool,
        typer.Option("--all", help="All groups in the formats terminal, markdown and html, not just 30."),
    ] = False,
    figures: Figures = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compare groups of handshakes: configurations, link qualities, whatever they are labelled with.

    For each group how many handshakes there are and how many failed; of each metric mean, median, 95th and 99th
    percentile with confidence intervals, the ratio to the baseline's mean, and whether the difference is more
    than noise. A metric counts the handshakes that succeeded, and how many it leaves out is said.

    With several --by a group is compared with the one that has the baseline's value of the first and agrees in the
    others: `--by config --by loss --baseline classic` compares the configurations at each loss.

    DATASET is what `batch` makes, or the directory of `report --format parquet`.
    """
    with job(verbose=verbose):
        from ikeanalyze.render.comparison_formats import FORMATS

        chosen = chosen_format(FORMATS, form)
        if not 50 <= confidence < 100:
            raise typer.BadParameter(f"{confidence:g} is not between 50 and 100", param_hint="--confidence")
        from ikeanalyze.dataset.compare import SUCCESS, USUAL
        from ikeanalyze.dataset.compare import compare as compare_groups
        from ikeanalyze.dataset.compare_error import CompareError
        from ikeanalyze.dataset.compare_source import tables
        from ikeanalyze.render import View
        from ikeanalyze.render.output import check

        check(output)
        check_figures(figures)
        try:
            found = compare_groups(
                tables(dataset),
                by,
                metrics=metric or USUAL,
                baseline=baseline,
                where=_conditions(where or []),
                outcomes=outcome or SUCCESS,
                confidence=confidence / 100,
                resamples=resamples,
            )
        except CompareError as error:
            if error.argument is None:
                raise FailureError(str(error)) from None
            raise typer.BadParameter(str(error), param_hint=f"--{error.argument}") from None
        if not quiet:
            _warn(found)
        FORMATS.write(found, chosen, output, View(every=every))
        if figures is not None:
            from ikeanalyze.render.figures import write_comparison

            written = write_comparison(found, figures)
            if not quiet:
                say(f"{figures}: {len(written)} files")


def _warn(found: "Comparison") -> None:
    if not found.complete:
        say(f"{found.source}: the batch has not read all captures. The same `ikeanalyze batch` goes on with it")
    if found.unread:
        from ikeanalyze.render.values import count

        say(f"{found.source}: {count(found.unread, 'capture')} could not be read. What was in them is in no group")


def _conditions(texts: list[str]) -> "list[Condition]":
    from ikeanalyze.dataset.compare_columns import Condition

    conditions = []
    for text in texts:
        column, equals, value = text.partition("=")
        if not column or not equals:
            raise typer.BadParameter(f"{text!r} is not COLUMN=VALUE", param_hint="--where")
        conditions.append(Condition(column, value))
    return conditions
