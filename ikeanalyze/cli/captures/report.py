"""`ikeanalyze report`: the cost of the handshakes in captures."""

import os
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from msgspec import structs

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.analysis.tables.selection import (
    HandshakeSelection,
    find_selected,
    keep_selected,
    select_handshakes,
)
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.formats.source import open_source
from ikeanalyze.cli.capture_options import (
    CaptureOptions,
    HandshakeOption,
    VantageOption,
    analyse_captures,
    check_rtt,
    describe_missing_handshakes,
    read_captures,
    select_handshake,
)
from ikeanalyze.cli.exit_status import CONDITION_HOLDS, SOME_SKIPPED, log_stderr, refuse_option
from ikeanalyze.cli.large_captures import LargeCaptureOptions, analyse_in_parts, plan_parts
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import NAMED_FORMAT_OPTION, FigureOptions, check_inputs
from ikeanalyze.cli.selection_options import SelectionOptions, describe_empty_selection
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.report.parquet import TABLES, ParquetWriter, write_parquet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ikeanalyze.analysis.tables.fail_conditions import FailCondition

#: Bytes of captures up to which the payloads of all clear messages are decoded for a drawing: about a second.
_PAYLOAD_LIMIT: Final = 32 << 20
_MAX_VIOLATIONS: Final = 100

app = make_app()


def drop_inferred_payloads(analysis: Analysis) -> Analysis:
    """Return an analysis that was read with `payloads`, with the numbers of one that was read without.

    Handshakes that no key decrypts lose the columns about payloads, since only their IKE_SA_INIT was decoded.
    """
    import polars as pl  # after it is loaded the capture reader cannot fork

    decrypted = analysis.messages.filter(pl.col("decrypted"))["handshake"].unique()
    is_decrypted = pl.col("handshake").is_in(decrypted.implode())
    columns = ("payload_bytes", "key_exchanges", "certificates")
    kept = (pl.when(is_decrypted).then(pl.col(name)).alias(name) for name in columns)
    return replace(analysis, handshakes=analysis.handshakes.with_columns(kept))


class ReportInputOptions(CaptureOptions, frozen=True, kw_only=True):
    """How the captures of a report are read."""

    handshake: HandshakeOption = None
    vantage: VantageOption = None
    rtt: Annotated[
        float | None,
        typer.Option(
            metavar="MS",
            help="Round-trip time of the path in milliseconds, for the breakdown of the set-up time (default: estimated).",
        ),
    ] = None

    join: Annotated[
        bool, typer.Option("--join", help="The captures are files of one recording (dumpcap -b): read them as one.")
    ] = False


class ReportOutputOptions(FigureOptions, frozen=True, kw_only=True):
    """How a report is written."""

    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="PATH", help="Output file, or directory for parquet; - is standard output."
        ),
    ] = "-"
    output_format: Annotated[
        Literal["terminal", "json", "jsonl", "csv", "parquet", "markdown", "html", "junit"] | None, NAMED_FORMAT_OPTION
    ] = None
    tables: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="With --format parquet: the tables to write, of captures, handshakes, exchanges, messages and frames "
            "(default: all). Fewer take less time.",
            show_default=False,
        ),
    ] = ",".join(TABLES)

    fail_on: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION,...",
            help="Exit with status 4 and name each handshake if one meets a condition: failed, unanswered, half-open, "
            "cut, undecrypted, no-handshake, diagnosis:CODE, or a word of filters such as retransmissions>4, setup_ms>100. "
            "Also the failures of --format junit.",
        ),
    ] = None

    def get_view(self) -> RenderOptions:
        """Return the options of the formats."""
        return RenderOptions(every=self.no_limit, fail_on=self.parse_conditions())

    def parse_conditions(self) -> "tuple[FailCondition, ...]":
        """Return the conditions of --fail-on; `typer.BadParameter` if one is wrong."""
        if self.fail_on is None:
            return ()
        # for this option alone
        from ikeanalyze.analysis.tables.fail_conditions import parse_conditions
        from ikeanalyze.analysis.tables.filter_language import FilterError

        with refuse_option("--fail-on", FilterError):
            return parse_conditions(self.fail_on)

    def list_tables(self) -> tuple[str, ...]:
        """Return the names of the tables to write; `typer.BadParameter` if one is unknown."""
        names = tuple(name.strip() for name in self.tables.split(","))
        for name in names:
            if name not in TABLES:
                from ikeanalyze.io.suggestions import suggest_name  # for errors alone

                hint = suggest_name(name, TABLES)
                raise typer.BadParameter(
                    f"unknown table {name!r}; {hint}there are {', '.join(TABLES)}", param_hint="--tables"
                )
        if self.output_format != "parquet" and set(names) != set(TABLES):
            raise typer.BadParameter("only for --format parquet", param_hint="--tables")
        return names

    @property
    def is_drawn(self) -> bool:
        """Whether the output has ladders."""
        return self.output_format == "html" or self.figures is not None


@command(app, "CAPTURE... [OPTIONS]")
def report(
    captures: Annotated[list[str], typer.Argument(metavar="CAPTURE...", hidden=True)],
    output: ReportOutputOptions,
    inputs: ReportInputOptions,
    selected: SelectionOptions,
    large: LargeCaptureOptions,
    messages: MessageOptions,
) -> None:
    """Report what each handshake in the captures cost.

    Messages, frames and bytes per link and direction, phases and exchanges, retransmissions and blow-up, fragmentation,
    and a breakdown of the set-up time.

    With --keys, encrypted messages are decrypted: outcome and authentication are read instead of guessed, and the
    report has key exchanges and certificates with their sizes, bytes by payload, and rekeyed IKE SAs. Keys are never
    shown.

    A CAPTURE is a pcap or pcapng file, plain or compressed with gzip or zstd; - is standard input. Several captures
    make one report. Captures and key files that cannot be read are skipped and named on standard error; the exit status
    is then 3. If a condition of --fail-on holds, it is 4.
    """
    check_rtt(inputs.rtt, "--rtt")
    check_inputs({"CAPTURE": captures, "--keys": inputs.keys}, output.output)
    if inputs.join and "-" in captures and len(captures) > 1:
        raise typer.BadParameter("standard input cannot be joined with files", param_hint="--join")
    if output.output_format == "parquet" and output.output == "-":
        raise typer.BadParameter("parquet is a directory: name it with -o", param_hint="--format")
    tables = output.list_tables()
    selection = selected.parse()
    conditions = output.parse_conditions()
    if not inputs.keys and any(condition.text == "undecrypted" for condition in conditions):
        raise typer.BadParameter("undecrypted needs --keys", param_hint="--fail-on")
    output.check()
    streamed = output.output_format == "parquet" and inputs.handshake is None and not (selection or output.is_drawn)
    in_parts = _read_in_parts(captures, output, inputs, large, messages, selection, streamed=streamed)
    if in_parts is not None:
        analysis = in_parts
    elif streamed:
        with ParquetWriter(output.output, tables) as writer:  # writes a table while the next one is computed
            options = _make_options(output, inputs, payloads=False, writer=writer)
            written = analyse_captures(captures, inputs, messages, options)
            writer.finish_tables(written.captures, written.tables)
        if not conditions:  # no table is needed in memory
            if not written.tables.count_handshakes():
                messages.remark(describe_missing_handshakes(written))
            if written.skipped:
                raise typer.Exit(SOME_SKIPPED)
            return
        analysis = written.make_analysis()
    else:
        analysis = _read(captures, output, inputs, messages)
    if conditions:
        _check_codes(conditions)
    analysis = _select(analysis, selection, inputs.handshake, messages)
    if output.output_format != "parquet":
        from ikeanalyze.render.report.formats import FORMATS  # loads polars, after which the capture reader cannot fork

        output.write(FORMATS, analysis)
    elif not streamed:
        write_parquet(analysis, output.output, tables)
    output.write_figures(_write_figures, analysis, messages)
    if conditions and _report_violations(analysis, conditions, messages):
        raise typer.Exit(CONDITION_HOLDS)
    if analysis.skipped:
        raise typer.Exit(SOME_SKIPPED)


def _check_codes(conditions: "Sequence[FailCondition]") -> None:
    """Refuse codes of diagnoses that do not exist."""
    from ikeanalyze.analysis.tables.filter_language import FilterError
    from ikeanalyze.render.report.gate.violations import check_diagnosis_codes  # loads polars, as above

    with refuse_option("--fail-on", FilterError):
        check_diagnosis_codes(conditions)


def _report_violations(analysis: Analysis, conditions: "Sequence[FailCondition]", messages: MessageOptions) -> bool:
    """Print a line for each violation, even if the command is quiet; return whether there are any."""
    from ikeanalyze.render.report.gate.violations import find_violations  # loads polars, as above

    violations = find_violations(analysis, conditions)
    shown = violations if messages.verbose else violations[:_MAX_VIOLATIONS]
    for violation in shown:
        log_stderr(f"{violation} (--fail-on {violation.condition})")
    if len(violations) > len(shown):
        log_stderr(f"{len(violations) - len(shown):,} more. --verbose names all of them")
    return bool(violations)


def _select(
    analysis: Analysis, selection: HandshakeSelection, handshake: int | None, messages: MessageOptions
) -> Analysis:
    """Return the analysis of the selected handshakes, or of one of them by its number."""
    matching = select_handshakes(analysis, selection)
    if handshake is not None:
        return select_handshake(matching, handshake)
    if analysis.handshakes.is_empty():
        messages.remark(describe_missing_handshakes(analysis))
    elif matching.handshakes.is_empty():
        messages.remark(describe_empty_selection(analysis, selection))
    return matching


def _write_figures(analysis: Analysis, directory: str) -> "Sequence[Path]":
    from ikeanalyze.render.report.figures import write_report_figures  # loads altair, which takes a quarter of a second

    return write_report_figures(analysis, directory)


def _read(
    captures: list[str],
    output: ReportOutputOptions,
    inputs: ReportInputOptions,
    messages: MessageOptions,
) -> Analysis:
    options = _make_options(output, inputs, payloads=output.is_drawn and _is_small(captures))
    analysis = read_captures(captures, inputs, messages, options)
    return drop_inferred_payloads(analysis) if output.is_drawn else analysis


def _make_options(
    output: ReportOutputOptions, inputs: ReportInputOptions, *, payloads: bool, writer: ParquetWriter | None = None
) -> ReadOptions:
    tables = output.list_tables()
    return ReadOptions(
        vantage=inputs.vantage,
        rtt_ms=inputs.rtt,
        payloads=payloads,
        join=inputs.join,
        frames_table=output.output_format == "parquet" and "frames" in tables,
        messages_table="messages" in tables or "frames" in tables or output.is_drawn or inputs.handshake is not None,
        on_table=None if writer is None else writer.add,
        # conditions are about the tables of exchanges and handshakes
        on_columns=None if writer is None or output.fail_on is not None else writer.add_columns,
        on_first_columns=None if writer is None or output.fail_on is not None else writer.add_first_columns,
    )


def _read_in_parts(
    captures: list[str],
    output: ReportOutputOptions,
    inputs: ReportInputOptions,
    large: LargeCaptureOptions,
    messages: MessageOptions,
    selection: HandshakeSelection,
    *,
    streamed: bool,
) -> Analysis | None:
    """Analyse a capture that is larger than memory in parts; None: it has to be read in memory.

    If its tables are `streamed` to Parquet, the result has only the first row of each, except that --fail-on needs all
    handshakes. With a selection, the result has all handshakes, but only the frames, messages and exchanges of the
    selected ones.
    """
    plan = plan_parts(captures, inputs, large, messages, join=inputs.join)
    if plan is None or (output.is_drawn and _is_small(captures)):
        return None
    # the parts are joined by the ids of messages
    options = structs.replace(_make_options(output, inputs, payloads=False), messages_table=True)
    with ExitStack() as stack:
        writer = stack.enter_context(ParquetWriter(output.output, output.list_tables())) if streamed else None
        directory = None if writer is None else output.output
        parts = stack.enter_context(analyse_in_parts(captures, inputs, large, messages, plan, options, directory))
        if parts is None:
            return None
        result, tables = parts
        if selection:
            keys = find_selected(tables["handshakes"].collect(), result.captures, selection)
            narrowed = {name: keep_selected(tables[name], keys) for name in ("frames", "messages", "exchanges")}
            tables = {**tables, **narrowed}
        if writer is None:
            analysis = result.make_analysis(tables)
        else:
            whole = ("handshakes",) if output.fail_on is not None else ()
            analysis = result.make_analysis(
                {name: table if name in whole else table.head(1) for name, table in tables.items()}
            )
            for name, table in tables.items():
                writer.write(name, table)
            writer.finish(analysis)
    return drop_inferred_payloads(analysis) if output.is_drawn else analysis


def _is_small(captures: list[str]) -> bool:
    """Return whether all captures are files and small enough to decode the payloads of all clear messages."""
    remaining = _PAYLOAD_LIMIT
    for path in captures:
        if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
            return False  # the size is unknown
        remaining -= _measure(path, remaining)
        if remaining < 0:
            return False
    return True


def _measure(path: str, limit: int) -> int:
    """Return the decompressed size of a file in bytes, or a size above `limit` for a larger file."""
    try:
        with closing(open_source(path)) as source:
            if source.compression is None:
                return source.size or 0
            buffer = memoryview(bytearray(1 << 20))
            while source.position <= limit and source.read_into(buffer):
                pass
            return source.position
    except CaptureError:
        return 0  # the reader reports the error
