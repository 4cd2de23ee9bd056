"""`ikeanalyze paper`: rerun published experiments, and check the reports on them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from ikeanalyze.cli.exit_status import FAILED, CommandError, fail_command, log_stderr, print_result
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.io.atomic_write import replace_atomically
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.report import (
    EvaluatedReport,
    ReportFolder,
    evaluate_report,
    find_report,
    list_reports,
    list_unexpected,
)

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
        bool, typer.Option("--quick", help=f"Run {_QUICK} handshakes of each case: wide intervals, soon.")
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
    recordings: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Keep the recordings in DIR; if it has recordings, use them and do not run the lab."
        ),
    ] = None,
) -> None:
    """Run the experiments of a report in the lab, and write its data and pages.

    ID is the number of a report, or the name of its folder. The lab needs root (see `ikeanalyze lab doctor`).

    Exit status: 0 each verdict is the expected one; 1 the lab failed, or a verdict is not the expected one.
    """
    import tempfile

    from ikeanalyze.papers.predictions import write_predictions
    from ikeanalyze.papers.record import run_scenarios, write_data

    if quick and runs is not None:
        raise typer.BadParameter("--quick cannot be combined with -n")
    with fail_command(PaperError), tempfile.TemporaryDirectory() as temporary:
        folder = find_report(Path(reports), report)
        if folder.scenarios:
            output = Path(recordings or temporary)
            if not any(output.glob("*/*.manifest.json")):
                run_scenarios(folder, output, _QUICK if quick else runs)
            write_data(folder, output, messages.remark)
            write_predictions(folder, output)
    _write(Path(reports), [folder])
    _fail_if_unexpected([folder])


@command(app, "[ID]... [OPTIONS]", "Write the pages of reports again.")
def render(messages: MessageOptions, ids: IdArguments = [], reports: ReportsOption = "reports") -> None:  # noqa: ARG001, B006
    """Write pages and figures of reports from their claims and data, and the list of all reports.

    Without ID, all reports. Exit status: 0 each verdict is the expected one, otherwise 1.
    """
    folders = _select(Path(reports), ids)
    _write(Path(reports), folders)
    _fail_if_unexpected(folders)


@command(app, "[ID]... [OPTIONS]", "Check that the pages of reports are up to date.")
def check(messages: MessageOptions, ids: IdArguments = [], reports: ReportsOption = "reports") -> None:  # noqa: B006
    """Check that pages and figures are those of the committed claims and data, and that each verdict is as expected.

    Needs neither root nor the lab. Without ID, all reports and their list. Exit status: 0 no difference, otherwise 1.
    """
    root = Path(reports)
    folders = _select(root, ids)
    problems = 0
    for path, content in _render_files(root, folders):
        if difference := _find_difference(path, content):
            log_stderr(difference)
            problems += 1
    problems += _report_unexpected(folders)
    if problems:
        log_stderr("`ikeanalyze paper render` writes the pages again")
        raise typer.Exit(FAILED)
    messages.remark(f"{len(folders)} reports are up to date")


def _select(reports: Path, ids: Sequence[str]) -> list[ReportFolder]:
    with fail_command(PaperError):
        return [find_report(reports, name) for name in ids] if ids else list_reports(reports)


def _evaluate(folders: Sequence[ReportFolder]) -> list[EvaluatedReport]:
    with fail_command(PaperError):
        return [evaluate_report(folder) for folder in folders]


def _render_files(reports: Path, folders: Sequence[ReportFolder]) -> Iterator[tuple[Path, str]]:
    """Yield the generated files of these reports, and the list of all reports."""
    # imported here because they load altair, which takes a quarter of a second
    from ikeanalyze.render.papers.page import render_index, render_report

    with fail_command(PaperError):
        for report in _evaluate(folders):
            files: Mapping[str, str] = render_report(report)
            for name, content in files.items():
                yield report.folder.path / name, content
        if (readme := reports / "README.md").exists():
            yield readme, render_index(_evaluate(list_reports(reports)), readme)


def _write(reports: Path, folders: Sequence[ReportFolder]) -> None:
    try:
        for path, content in _render_files(reports, folders):
            path.parent.mkdir(exist_ok=True)
            with replace_atomically(str(path)) as temporary:
                temporary.write_text(content, encoding="utf-8")
            print_result(str(path))
    except OSError as error:
        raise CommandError(f"{error.filename or reports}: {error.strerror}") from None


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


def _fail_if_unexpected(folders: Sequence[ReportFolder]) -> None:
    if _report_unexpected(folders):
        raise typer.Exit(FAILED)


def _report_unexpected(folders: Sequence[ReportFolder]) -> int:
    """Print a line for each verdict that is not the expected one; return their number."""
    lines = [line for report in _evaluate(folders) for line in list_unexpected(report)]
    for line in lines:
        log_stderr(line)
    return len(lines)
