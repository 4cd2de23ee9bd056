"""`ikeanalyze paper`: rerun published experiments, and check the reports on them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from ikeanalyze.cli.exit_status import FAILED, CommandError, fail_command, log_stderr, print_result
from ikeanalyze.cli.options import MessageOptions, SetOption, command, make_app
from ikeanalyze.io.atomic_write import replace_atomically
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import load_claims
from ikeanalyze.papers.report import EvaluatedReport, describe_unexpected, evaluate_report, find_report, list_reports

#: Handshakes of each case with --quick.
_QUICK: Final = 3
#: Characters of a line that `check` shows.
_SHOWN: Final = 80

app = make_app("Rerun published experiments, and check the reports on them.")

ReportsOption = Annotated[str, typer.Option("--reports", metavar="DIR", help="The folder with the reports.")]
IdArguments = Annotated[list[str], typer.Argument(metavar="[ID]...", hidden=True)]


@command(app, "[OPTIONS]", "List the reports.", name="list")
def list_(messages: MessageOptions, reports: ReportsOption = "reports") -> None:  # noqa: ARG001 - as all commands
    """List the reports: number, title, and the number of claims by verdict."""
    from ikeanalyze.render.papers.text import format_verdict_counts

    with fail_command(PaperError):
        for folder in list_reports(Path(reports)):
            report = evaluate_report(folder)
            print_result(f"{folder.number}  {report.file.title}: {format_verdict_counts(report)}")


@command(app, "ID [OPTIONS]", "Run the experiments of a report, and write its pages.")
def run(
    report: Annotated[str, typer.Argument(metavar="ID", hidden=True)],
    messages: MessageOptions,
    reports: ReportsOption = "reports",
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Run only {_QUICK} handshakes of each case: faster, with wider intervals.")
    ] = False,
    runs: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--runs",
            metavar="N",
            min=1,
            max=10_000,
            help="Handshakes of each case (default: as in its scenario).",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j",
            "--jobs",
            metavar="N",
            min=1,
            max=64,
            help="Cases to run at once, for bytes, not times (default: as in claims.toml).",
        ),
    ] = None,
    recordings: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Keep the recordings in DIR, and run only the handshakes that it lacks."),
    ] = None,
    values: SetOption = [],  # noqa: B006
) -> None:
    """Run the experiments of a report in the lab, and write its data and pages.

    ID is the number of a report, or the name of its folder. The lab needs root (see `ikeanalyze lab doctor`).

    Exit status: 0 each verdict is the expected one, or differs by chance (see `paper compare`); 1 the lab failed, or
    another verdict is not the expected one.
    """
    import tempfile

    from ikeanalyze.papers.record import RecordOptions, run_scenarios, write_data

    if quick and runs is not None:
        raise typer.BadParameter("--quick cannot be combined with -n")
    with fail_command(PaperError), tempfile.TemporaryDirectory() as temporary:
        folder = find_report(Path(reports), report)
        file = load_claims(folder.claims)  # errors in it are better known before the lab runs for minutes
        if folder.scenarios:
            output = Path(recordings or temporary)
            options = RecordOptions(_QUICK if quick else runs, jobs, tuple(values))
            run_scenarios(folder, output, file.recording, options, messages.remark)
            write_data(folder, output, messages.remark, file, values)
    _write(Path(reports), [folder.number], recorded=True)


@command(app, "[ID]... [OPTIONS]", "Write the pages of reports again.")
def render(messages: MessageOptions, ids: IdArguments = [], reports: ReportsOption = "reports") -> None:  # noqa: ARG001, B006
    """Write pages and figures of reports from their claims and data, and the list of all reports.

    Without ID, all reports. Exit status: 0 each verdict is the expected one, otherwise 1.
    """
    _write(Path(reports), ids)


@command(app, "[ID]... [OPTIONS]", "Check that the pages of reports are up to date.")
def check(messages: MessageOptions, ids: IdArguments = [], reports: ReportsOption = "reports") -> None:  # noqa: B006
    """Check that pages and figures are those of the committed claims and data, and that each verdict is as expected.

    Needs neither root nor the lab. Without ID, all reports and their list. Exit status: 0 no difference, otherwise 1.
    """
    every, selected = _evaluate(Path(reports), ids)
    problems = 0
    for path, content in _render_files(Path(reports), every, selected):
        if difference := _find_difference(path, content):
            log_stderr(difference)
            problems += 1
    if problems:
        log_stderr("`ikeanalyze paper render` writes the pages again")
    if _report_unexpected(selected) or problems:
        raise typer.Exit(FAILED)
    messages.remark(f"up to date: {', '.join(report.folder.path.name for report in selected)}")


@command(app, "OTHER [ID]... [OPTIONS]", "Compare the values of two runs.")
def compare(
    other: Annotated[str, typer.Argument(metavar="OTHER", hidden=True)],
    messages: MessageOptions,
    ids: IdArguments = [],  # noqa: B006
    reports: ReportsOption = "reports",
) -> None:
    """Compare the values of reports with those of another run: a copy OTHER of the folder with the reports.

    Prints, for each report, how many values are equal, consistent (the 95 % interval of the difference contains 0) and
    different, and a line for each different or missing value. Without ID, all reports.

    Exit status: 0 each claim has the same verdict in both runs, or two that chance explains: `undecided` and another
    one, or, for a ratio, `reproduced` and `reproduced within`; otherwise 1.
    """
    from ikeanalyze.papers.runs import compare_runs
    from ikeanalyze.render.papers.runs import format_compared_runs

    changed = False
    with fail_command(PaperError):
        for report in _evaluate(Path(reports), ids)[1]:
            before = evaluate_report(find_report(Path(other), report.folder.path.name))
            compared = list(compare_runs(before, report))
            changed |= any(each.has_changed_verdict for each in compared)
            print_result(format_compared_runs(report.folder.path.name, compared))
    if changed:
        messages.remark("verdicts differ")
        raise typer.Exit(FAILED)


def _evaluate(reports: Path, ids: Sequence[str]) -> tuple[list[EvaluatedReport], list[EvaluatedReport]]:
    """Evaluate all reports; return them, and those with these numbers (all without any)."""
    with fail_command(PaperError):
        wanted = {find_report(reports, name).path for name in ids}
        every = [evaluate_report(folder) for folder in list_reports(reports)]
    return every, [report for report in every if not wanted or report.folder.path in wanted]


def _render_files(
    reports: Path, every: Sequence[EvaluatedReport], selected: Sequence[EvaluatedReport]
) -> Iterator[tuple[Path, str]]:
    """Yield the generated files of the selected reports, and the list of all reports."""
    # imported here because they load altair, which takes a quarter of a second
    from ikeanalyze.render.papers.page import render_index, render_report

    with fail_command(PaperError):
        for report in selected:
            for name, content in render_report(report).items():
                yield report.folder.path / name, content
        if (readme := reports / "README.md").exists():
            yield readme, render_index(every, readme)


def _write(reports: Path, ids: Sequence[str], *, recorded: bool = False) -> None:
    """Write the generated files, and fail if a verdict is not the expected one.

    With `recorded`, verdicts that differ from the expected ones by chance (`is_within_chance`) do not fail.
    """
    every, selected = _evaluate(reports, ids)
    try:
        for path, content in _render_files(reports, every, selected):
            path.parent.mkdir(exist_ok=True)
            with replace_atomically(str(path)) as temporary:
                temporary.write_text(content, encoding="utf-8")
            print_result(str(path))
    except OSError as error:
        raise CommandError(f"{error.filename or reports}: {error.strerror}") from None
    if _report_unexpected(selected, by_chance=recorded):
        raise typer.Exit(FAILED)


def _find_difference(path: Path, content: str) -> str | None:
    """Return the first line in which a file differs from its expected content; None: they are the same."""
    try:
        committed = path.read_text(encoding="utf-8")
    except OSError as error:
        return f"{path}: {error.strerror}"
    if committed == content:
        return None
    for number, (old, new) in enumerate(zip(committed.split("\n"), content.split("\n"), strict=False), 1):
        if old != new:
            return f"{path}:{number}: the file has {_clip(old, new)!r}, the data give {_clip(new, old)!r}"
    return f"{path}: the file has {'more' if len(committed) > len(content) else 'fewer'} lines than the data give"


def _clip(line: str, other: str) -> str:
    """Return a part of a line around the first character that differs from another line."""
    same = next((i for i, (a, b) in enumerate(zip(line, other, strict=False)) if a != b), min(len(line), len(other)))
    start = max(0, same - _SHOWN // 2)
    return line[start : start + _SHOWN]


def _report_unexpected(reports: Sequence[EvaluatedReport], *, by_chance: bool = False) -> bool:
    """Print a line for each verdict that is not the expected one; return whether this is a failure.

    With `by_chance`, a verdict that chance explains is printed, but is not a failure.
    """
    failed = False
    for report in reports:
        for claim in (claim for claim in report.claims if not claim.is_expected):
            log_stderr(describe_unexpected(report.folder, claim))
            failed |= not (by_chance and claim.is_within_chance)
    return failed
