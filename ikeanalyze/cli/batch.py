"""`ikeanalyze batch`: thousands of captures to a dataset."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ikeanalyze.cli.outcome import FAILED, INTERRUPTED, SOME_SKIPPED, FailureError, job, say
from ikeanalyze.cli.progress import watched
from ikeanalyze.cli.reading import Port, Quiet, VantageOption, Verbose, chosen_vantage

if TYPE_CHECKING:
    from collections.abc import Callable

    from ikeanalyze.dataset.batch import Options, Status, Summary
    from ikeanalyze.dataset.dispatch import Workers
    from ikeanalyze.dataset.labels import Pattern

_FEW_FAILED: Final = 10


def batch(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", hidden=True)],
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="DATASET",
            help="The folder of the dataset: a new one, or one that is continued.",
        ),
    ],
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--keys",
            metavar="PATH",
            help="A file with keys for all captures; or a folder, in which NAME.* is for NAME.pcapng. Can be repeated.",
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="PATTERN",
            help="What the end of a path says of a capture: '{config}/loss{loss:float}/{run:int}.pcapng'. Can be "
            "repeated: the first that fits counts.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", min=1, max=1024, help="Processes; else one for each processor."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="ADDRESS", help="A Dask scheduler whose workers do it: tcp://host:8786."),
    ] = None,
    port: Port = None,
    vantage: VantageOption = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Read any number of captures into a dataset: a folder of Parquet tables.

    A PATH is a capture, a folder with captures in it or below it, or a glob pattern. Keys are found beside a
    capture: NAME.keys* and NAME.charon.log* for NAME.pcapng.

    Interrupted by whatever, the same command goes on where it was. Run again, it reads what is new or has
    changed, captures and keys, and leaves the rest; other labels need no reading. A capture that cannot be read
    has a row with the reason, and the exit status is then 3.

    docs/dataset.md says what is in the tables, and how to read them with polars, pandas, DuckDB and Spark.
    """
    with job(verbose=verbose):
        if workers is not None and cluster is not None:
            raise typer.BadParameter("--workers is of this machine; leave it out with --cluster")
        if "-" in paths or "-" in (keys or ()):
            raise typer.BadParameter("a batch reads files, not standard input", param_hint="PATH")
        if output == "-":
            raise typer.BadParameter("a dataset is a folder: name it", param_hint="-o")
        patterns = _patterns(label)
        side = chosen_vantage(vantage)
        from ikeanalyze.dataset.batch import Options
        from ikeanalyze.dataset.task import Reading

        options = Options(
            paths=paths,
            dataset=Path(output),
            keys=keys or (),
            patterns=patterns,
            reading=Reading(tuple(sorted(set(port or ()))), side),
        )
        summary = _run(options, partial(_workers, workers, cluster), quiet=quiet)
        _tell(summary, output, quiet=quiet, verbose=verbose)
        if summary.failed or summary.problems:
            raise typer.Exit(SOME_SKIPPED if summary.read + summary.unchanged > len(summary.failed) else FAILED)


def _patterns(texts: Sequence[str] | None) -> "list[Pattern] | None":
    from ikeanalyze.dataset.labels import PatternError, read_pattern

    try:
        return None if texts is None else [read_pattern(text) for text in texts]
    except PatternError as error:
        raise typer.BadParameter(str(error), param_hint="--label") from None


def _workers(count: int | None, cluster: str | None, tasks: int) -> "Workers":
    if cluster is not None:
        from ikeanalyze.dataset.cluster import Cluster

        return Cluster(cluster)
    from ikeanalyze.dataset.processes import Processes, processors

    return Processes(min(count or processors(), tasks))


def _run(options: "Options", workers: "Callable[[int], Workers]", *, quiet: bool) -> "Summary":
    from ikeanalyze.dataset.batch import run
    from ikeanalyze.dataset.labels import LabelError, PatternError
    from ikeanalyze.dataset.manifest import DatasetError
    from ikeanalyze.dataset.task import TaskError

    try:
        with _progress(quiet=quiet) as progress:
            return run(options, workers, progress, say)
    except (DatasetError, TaskError) as error:
        raise FailureError(str(error)) from None
    except (LabelError, PatternError) as error:
        raise typer.BadParameter(str(error), param_hint="--label") from None
    except KeyboardInterrupt:
        if not quiet:
            say(f"what is done is in {options.dataset}; the same command goes on")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _progress(*, quiet: bool) -> "Iterator[Callable[[Status], object] | None]":
    """What to tell how far it is; None where nobody would see it."""
    if quiet or not watched():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from ikeanalyze.render.values import count

    with Progress(
        TextColumn("{task.fields[captures]}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}"),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("", total=None, captures="captures", failed="")

        def tell(status: "Status") -> None:
            progress.update(
                task,
                total=status.bytes,
                completed=status.bytes_done,
                captures=f"{status.captures_done:,}/{count(status.captures, 'capture')}",
                failed=f"{status.failed:,} failed" if status.failed else "",
            )

        yield tell


def _tell(summary: "Summary", dataset: str, *, quiet: bool, verbose: bool) -> None:
    """Say how it went; what could not be read, whether that is wanted or not."""
    from ikeanalyze.render.values import count

    failed = summary.failed if verbose else summary.failed[:_FEW_FAILED]
    for entry in failed:
        say(f"{entry.capture}: {entry.reason}")
    if len(summary.failed) > len(failed):
        more = len(summary.failed) - len(failed)
        say(f"{count(more, 'more capture')} cannot be read. --verbose names all; the table `captures` has them")
    if quiet:
        return
    if summary.warned:
        have = "has" if summary.warned == 1 else "have"
        say(
            f"{count(summary.warned, 'capture')} {have} warnings: the column `warnings` of the table `captures` has them"
        )
    parts = [f"{count(summary.read, 'capture')} read in {summary.seconds:.1f} s"]
    if summary.unchanged:
        parts.append(f"{summary.unchanged:,} unchanged")
    if summary.failed:
        parts.append(f"{len(summary.failed):,} cannot be read")
    there = f"{count(summary.captures, 'capture')}, {count(summary.handshakes, 'handshake')}"
    say(f"{', '.join(parts)}. {dataset}: {there}")
