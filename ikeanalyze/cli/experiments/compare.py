"""`ikeanalyze compare`: compare groups of handshakes."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct, field

from ikeanalyze.analysis.tables.layouts import SUCCESSES
from ikeanalyze.cli.exit_status import CONDITION_HOLDS, CommandError, log_stderr
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import PageOptions, check_inputs
from ikeanalyze.dataset.compare import CompareError
from ikeanalyze.dataset.compare.columns import RowCondition
from ikeanalyze.dataset.compare.compare import DEFAULT_METRICS, ComparisonRequest, compare_groups
from ikeanalyze.dataset.compare.limits import find_exceeded, parse_limits
from ikeanalyze.dataset.compare.metrics import select_metrics
from ikeanalyze.dataset.compare.result import Comparison
from ikeanalyze.dataset.compare.source import open_tables
from ikeanalyze.dataset.manifest import list_own_files
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.comparison.formats import FORMATS, write_comparison_figures
from ikeanalyze.render.core.values import format_count

app = make_app()


class ComparisonOptions(Struct, frozen=True, kw_only=True):
    """The groups, metrics and statistics of a comparison."""

    by: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN",
            help="Column to group by: a label or a column of the handshakes table (docs/compare.md lists them). "
            "Repeatable.",
        ),
    ]
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE",
            help="Value of the first --by column that the others are compared with (default: the first value).",
        ),
    ] = None
    metric: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="Metric to compare: setup_ms, bytes, round_trips, blowup... NAME+NAME adds metrics. Repeatable "
            "(default: setup_ms, bytes and retransmissions).",
        ),
    ] = field(default_factory=list)
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Fit a line to each metric against this metric or numeric label: slope, intercept, R² and a confidence "
            "band, for each group and for all.",
        ),
    ] = None
    predicted: Annotated[
        list[str],
        typer.Option(
            metavar="FILE",
            help="Predictions to lay over the measured means: output of `predict --format json`. Repeatable.",
        ),
    ] = field(default_factory=list)
    where: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Only handshakes with this value. Repeatable. Values of one column are ORed, columns are ANDed.",
        ),
    ] = field(default_factory=list)
    outcome: Annotated[
        list[str],
        typer.Option(
            metavar="OUTCOME",
            help="Outcome of the handshakes that metrics count. Repeatable (default: established and completed).",
        ),
    ] = field(default_factory=list)
    warm_up: Annotated[
        bool, typer.Option("--warm-up", help="Count the lab's warm-up handshakes too (default: left out).")
    ] = False
    confidence: Annotated[
        float, typer.Option(metavar="PERCENT", help="Confidence level of the intervals and of the test, in per cent.")
    ] = 95
    resamples: Annotated[
        int, typer.Option(metavar="N", min=100, max=1_000_000, help="Number of bootstrap resamples.")
    ] = 2_000

    fail_on: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC>PERCENT%,...",
            help="Exit with status 4 and name the group if its mean is worse than the baseline's by more than PERCENT and "
            "by more than noise: setup_ms>10%. METRIC<PERCENT%: smaller values are worse.",
        ),
    ] = None


class ComparisonOutputOptions(PageOptions, frozen=True, kw_only=True):
    """How a comparison is written."""

    log_x: Annotated[
        bool, typer.Option("--log-x", help="Figures: logarithmic axis of the numeric --by column and of --against.")
    ] = False
    log_y: Annotated[bool, typer.Option("--log-y", help="Figures: logarithmic axis of the metric.")] = False

    def get_view(self) -> RenderOptions:
        """Return the options of the formats."""
        return RenderOptions(every=self.no_limit, log_x=self.log_x, log_y=self.log_y)


@command(app, "DATASET --by COLUMN... [OPTIONS]")
def compare(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", hidden=True)],
    options: ComparisonOptions,
    output: ComparisonOutputOptions,
    messages: MessageOptions,
) -> None:
    """Compare groups of handshakes: configurations, link qualities, or any other label.

    For each group the result has the number of handshakes and of failures, and for each metric mean, median, 95th and
    99th percentile with confidence intervals, the ratio to the mean of the baseline, and whether the difference is
    significant. A metric counts successful handshakes only; the number of the others is shown.

    With several --by columns, a group is compared with the group that has the baseline's value of the first column and
    the same values of the others: `--by config --by loss --baseline classic` compares the configurations at each loss.

    DATASET is a dataset that `batch` wrote, or the directory of `report --format parquet`. To compare captures of
    several datasets, make one of all of them: `batch before after -o data --label '{version}/{}'`.
    """
    if not 50 <= options.confidence < 100:
        percent = f"{options.confidence * 100:g}"
        advice = f". {percent} % is written {percent}" if 0 < options.confidence < 1 else ""
        problem = f"{options.confidence:g} is not between 50 and 100 per cent{advice}"
        raise typer.BadParameter(problem, param_hint="--confidence")
    # a Parquet table cannot be the output, because its suffix is that of no format
    check_inputs({"DATASET": list_own_files(Path(dataset)), "--predicted": options.predicted}, output.output)
    output.check()
    try:
        limits = () if options.fail_on is None else parse_limits(options.fail_on)
        tables = open_tables(dataset)
        if not tables.complete:  # before errors about columns and values that it may lack for this reason
            messages.remark(f"{dataset}: the batch is incomplete. Run the same `ikeanalyze batch` again to resume it")
        select_metrics(tables.handshakes, [limit.metric for limit in limits], "fail-on")
        request = ComparisonRequest(
            options.by,
            list(dict.fromkeys([*(options.metric or DEFAULT_METRICS), *(limit.metric for limit in limits)])),
            options.baseline,
            _parse_conditions(options.where),
            options.outcome or SUCCESSES,
            options.confidence / 100,
            options.resamples,
            options.warm_up,
            options.against,
            options.predicted,
        )
        comparison = compare_groups(tables, request)
        exceeded = find_exceeded(comparison, limits) if limits else []
    except CompareError as error:
        if error.argument is None:
            raise CommandError(str(error)) from None
        raise typer.BadParameter(str(error), param_hint=f"--{error.argument}") from None
    _warn(comparison, messages)
    output.write(FORMATS, comparison)
    output.write_figures(partial(write_comparison_figures, view=output.get_view()), comparison, messages)
    for group in exceeded:
        text = f"{group.group}: {group.limit.metric} {group.problem}"
        if group.noise:
            messages.remark(f"{text}: may be noise, so --fail-on {group.limit.text} does not fail")
        else:
            log_stderr(f"{text} (--fail-on {group.limit.text})")
    if any(not group.noise for group in exceeded):
        raise typer.Exit(CONDITION_HOLDS)


def _warn(comparison: Comparison, messages: MessageOptions) -> None:
    for remark in comparison.remarks:
        messages.remark(remark)
    if comparison.unread:
        messages.remark(
            f"{comparison.source}: {format_count(comparison.unread, 'capture')} could not be read and "
            f"{'is' if comparison.unread == 1 else 'are'} in no group"
        )


def _parse_conditions(texts: list[str]) -> list[RowCondition]:
    conditions = []
    for text in texts:
        column, equals, value = text.partition("=")
        if not column or not equals:
            raise typer.BadParameter(f"{text!r} is not COLUMN=VALUE", param_hint="--where")
        conditions.append(RowCondition(column, value))
    return conditions
