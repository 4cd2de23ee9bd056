"""`ikeanalyze batch`: convert captures to a dataset."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct, field

from ikeanalyze.cli.capture_options import PortOption, VantageOption
from ikeanalyze.cli.exit_status import FAILED, INTERRUPTED, SOME_SKIPPED, fail_command, log_stderr, refuse_option
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.progress import is_progress_visible
from ikeanalyze.cli.selection_options import SelectionOptions
from ikeanalyze.dataset.batch.discovery import DiscoveryResult, find_captures
from ikeanalyze.dataset.batch.groups import group_captures
from ikeanalyze.dataset.batch.processes import LocalWorkers
from ikeanalyze.dataset.labels import LabelError, PatternError, parse_pattern
from ikeanalyze.dataset.manifest import DatasetError
from ikeanalyze.machine import count_processors
from ikeanalyze.render.core.values import format_count

if TYPE_CHECKING:
    from ikeanalyze.dataset.batch.cluster import ClusterTls
    from ikeanalyze.dataset.batch.dispatch import Workers
    from ikeanalyze.dataset.batch.run import BatchOptions, BatchStatus, BatchSummary

_MAX_FAILURES: Final = 10

app = make_app()


class DatasetOptions(Struct, frozen=True, kw_only=True):
    """The inputs and the location of a dataset, and how its captures are read."""

    output: Annotated[
        str, typer.Option("-o", "--output", metavar="DATASET", help="Directory of the dataset, new or to be continued.")
    ]
    keys: Annotated[
        list[str],
        typer.Option(
            metavar="PATH",
            help="A key file for all captures, or a directory in which NAME.* is for NAME.pcapng. Repeatable.",
        ),
    ] = field(default_factory=list)
    label: Annotated[
        list[str],
        typer.Option(
            metavar="PATTERN",
            help="Pattern that extracts labels from the end of each path: '{config}/loss{loss:float}/{run:int}.pcapng'. "
            "Repeatable: the first pattern that matches is used.",
        ),
    ] = field(default_factory=list)
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1024, help="Number of worker processes (default: one per CPU)."),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on the Dask cluster of this scheduler, such as tcp://host:8786."),
    ] = None
    tls_ca: Annotated[
        str | None,
        typer.Option("--tls-ca", metavar="FILE", help="With --cluster tls://...: the certificate authority, PEM."),
    ] = None
    tls_cert: Annotated[
        str | None, typer.Option("--tls-cert", metavar="FILE", help="The certificate of this client, PEM.")
    ] = None
    tls_key: Annotated[
        str | None, typer.Option("--tls-key", metavar="FILE", help="The private key of the certificate, PEM.")
    ] = None
    port: PortOption = field(default_factory=list)
    vantage: VantageOption = None


@command(app, "PATH... -o DATASET [OPTIONS]")
def batch(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", hidden=True)],
    options: DatasetOptions,
    selected: SelectionOptions,
    messages: MessageOptions,
) -> None:
    """Convert any number of captures to a dataset: a directory of Parquet tables.

    A PATH is a capture, a directory that is searched for captures, or a glob pattern. Keys are found next to a capture:
    NAME.keys* and NAME.charon.log* for NAME.pcapng.

    Run the same command again to resume an interrupted batch, or to add new and changed captures and keys; the others
    are not read again. New labels need no reading. A capture that cannot be read gets a row with the reason, and the
    exit status is then 3.

    docs/dataset.md describes the tables, and how to read them with polars, pandas, DuckDB and Spark.
    """
    if options.workers is not None and options.cluster is not None:
        raise typer.BadParameter("--workers cannot be combined with --cluster")
    if "-" in (*paths, *options.keys):
        raise typer.BadParameter("a batch reads files, not standard input", param_hint="PATH")
    if options.output == "-":
        raise typer.BadParameter("a dataset is a directory: name it", param_hint="-o")
    tls = _check_tls(options)
    selection = selected.parse()
    with refuse_option("--label", PatternError):
        patterns = [parse_pattern(text) for text in options.label] or None
    discovered = find_captures(paths, Path(options.output))
    local = None if options.cluster is not None else _start_processes(options, discovered)
    # here, because it loads polars, after which processes cannot be forked
    from ikeanalyze.dataset.batch.run import BatchOptions
    from ikeanalyze.dataset.batch.task import BatchReadOptions

    summary = _run(
        BatchOptions(
            paths=paths,
            dataset=Path(options.output),
            keys=options.keys,
            patterns=patterns,
            reading=BatchReadOptions(tuple(sorted(set(options.port))), options.vantage, selection),
        ),
        partial(_make_workers, local, options.cluster, tls),
        discovered,
        messages,
    )
    _report(summary, options.output, messages)
    if summary.failed or summary.problems:
        raise typer.Exit(SOME_SKIPPED if summary.read + summary.unchanged > len(summary.failed) else FAILED)


def _check_tls(options: DatasetOptions) -> "ClusterTls | None":
    """The files for TLS; None without TLS."""
    files = {"--tls-ca": options.tls_ca, "--tls-cert": options.tls_cert, "--tls-key": options.tls_key}
    given = {option: path for option, path in files.items() if path is not None}
    encrypted = options.cluster is not None and options.cluster.startswith("tls://")
    if given and not encrypted:
        raise typer.BadParameter("only for --cluster tls://host:8786", param_hint=next(iter(given)))
    if not given:
        return None  # files may be named in Dask's own configuration
    if missing := files.keys() - given.keys():
        raise typer.BadParameter("TLS needs --tls-ca, --tls-cert and --tls-key", param_hint=min(missing))
    for option, path in given.items():
        if not os.access(path, os.R_OK):
            raise typer.BadParameter(f"{path} cannot be read", param_hint=option)
    from ikeanalyze.dataset.batch.cluster import ClusterTls

    _check_pem(given)
    return ClusterTls(*given.values())


def _check_pem(files: dict[str, str]) -> None:
    """Refuse files by option that TLS cannot use: Dask would report them as a missing scheduler."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for option in ("--tls-ca", "--tls-cert"):
        try:
            context.load_verify_locations(files[option])
        except ssl.SSLError:
            raise typer.BadParameter(f"{files[option]} has no certificate in PEM", param_hint=option) from None
    try:
        context.load_cert_chain(files["--tls-cert"], files["--tls-key"], password=_leave_key_encrypted)
    except _EncryptedKeyError:
        pass  # Dask asks for the passphrase
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"{files['--tls-key']} is not the key of {files['--tls-cert']}"
        else:
            problem = f"{files['--tls-key']} has no private key in PEM"
        raise typer.BadParameter(problem, param_hint="--tls-key") from None


class _EncryptedKeyError(Exception):
    """A private key has a passphrase."""


def _leave_key_encrypted() -> str:
    raise _EncryptedKeyError


def _start_processes(options: DatasetOptions, discovered: DiscoveryResult) -> LocalWorkers:
    """Fork the processes that read the captures, as many as a new dataset needs."""
    tasks = sum(1 for _ in group_captures([(capture, capture.bytes) for capture in discovered.captures]))
    local = LocalWorkers(max(1, min(options.workers or count_processors(), tasks)))
    if tasks and not os.path.exists(os.path.join(options.output, "manifest.json")):
        local.fork()  # later for a batch that may have nothing to read
    return local


def _make_workers(local: LocalWorkers | None, cluster: str | None, tls: "ClusterTls | None", tasks: int) -> "Workers":
    if local is None:
        assert cluster is not None
        from ikeanalyze.dataset.batch.cluster import DaskWorkers  # needs Dask, which is optional

        return DaskWorkers(cluster, tls)
    local.width = min(local.width, tasks)
    return local


def _run(
    options: "BatchOptions",
    workers: "Callable[[int], Workers]",
    discovered: DiscoveryResult,
    messages: MessageOptions,
) -> "BatchSummary":
    from ikeanalyze.dataset.batch.run import run_batch  # as above
    from ikeanalyze.dataset.batch.task import TaskError

    try:
        with (
            fail_command(DatasetError, TaskError),
            refuse_option("--label", LabelError, PatternError),
            _show_progress(quiet=messages.quiet) as progress,
        ):
            return run_batch(options, workers, progress, log_stderr, discovered)
    except KeyboardInterrupt:
        messages.remark(f"finished captures are in {options.dataset}. Run the same command again to resume")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _show_progress(*, quiet: bool) -> Iterator["Callable[[BatchStatus], object] | None"]:
    """Yield a function that shows the status of the batch, or None where no progress is shown."""
    if quiet or not is_progress_visible():
        yield None
        return
    # imported here because scripts, which show no progress, start many batches
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

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

        def update(status: "BatchStatus") -> None:
            progress.update(
                task,
                total=status.bytes,
                completed=status.bytes_done,
                captures=f"{status.captures_done:,}/{format_count(status.captures, 'capture')}",
                failed=f"{status.failed:,} failed" if status.failed else "",
            )

        yield update


def _report(summary: "BatchSummary", dataset: str, messages: MessageOptions) -> None:
    """Print the captures that could not be read, even if the command is quiet, and a summary."""
    failed = summary.failed if messages.verbose else summary.failed[:_MAX_FAILURES]
    for entry in failed:
        log_stderr(f"{entry.capture}: {entry.reason}")
    if len(summary.failed) > len(failed):
        more = format_count(len(summary.failed) - len(failed), "more capture")
        log_stderr(f"{more} cannot be read. --verbose names all of them, as does the table `captures`")
    if summary.warned:
        has = "has" if summary.warned == 1 else "have"
        messages.remark(
            f"{format_count(summary.warned, 'capture')} {has} warnings: see the column `warnings` of the table `captures`"
        )
    overlaps = summary.overlaps if messages.verbose else summary.overlaps[:_MAX_FAILURES]
    for overlap in overlaps:
        messages.remark(f"{overlap}. `compare` counts their handshakes several times: leave copies out")
    if len(summary.overlaps) > len(overlaps):
        messages.remark(f"{len(summary.overlaps) - len(overlaps):,} more groups of captures overlap")
    read = summary.read - (len(summary.failed) - summary.unchanged_failed)
    parts = [f"{format_count(read, 'capture')} read in {summary.seconds:.1f} s"]
    if unchanged := summary.unchanged - summary.unchanged_failed:
        parts.append(f"{unchanged:,} unchanged")
    if summary.failed:
        parts.append(f"{len(summary.failed):,} cannot be read")
    contents = f"{format_count(summary.captures, 'capture')}, {format_count(summary.handshakes, 'handshake')}"
    messages.remark(f"{', '.join(parts)}. {dataset}: {contents}")
