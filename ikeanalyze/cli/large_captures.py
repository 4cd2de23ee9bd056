"""Options for a capture that is larger than memory, and its analysis in parts on disk."""

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct
from msgspec.structs import replace

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.cli.capture_options import CaptureOptions, display_path, report_problems
from ikeanalyze.cli.exit_status import CommandError, fail_command, log_stderr
from ikeanalyze.cli.options import MessageOptions
from ikeanalyze.cli.progress import make_progress_bar
from ikeanalyze.dataset.buckets.plan import BucketPlan, measure_captures, plan_buckets
from ikeanalyze.machine import count_processors
from ikeanalyze.render.core.values import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

    import polars as pl

    from ikeanalyze.dataset.buckets.analysis import BucketedAnalysis

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS: Final = " KMGT"
#: Fewer bytes are a size whose unit was forgotten.
_LEAST_WITHOUT_UNIT: Final = 10_000


class LargeCaptureOptions(Struct, frozen=True, kw_only=True):
    """How a capture that is larger than memory is analysed."""

    max_memory: Annotated[
        str | None,
        typer.Option(
            "--max-memory",
            metavar="SIZE",
            help="Memory for the analysis, such as 500M or 8G (default: a quarter of the machine's). One capture that "
            "needs more is analysed in parts on disk.",
        ),
    ] = None
    temp: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Directory for these parts, with about the space of the capture (default: that of a Parquet output, "
            "else TMPDIR or /tmp).",
        ),
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j", "--jobs", metavar="N", min=1, max=1024, help="Processes that analyse parts (default: one per CPU)."
        ),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Analyse the parts on the Dask cluster of this scheduler, such as tcp://host:8786. All workers need "
            "the directory of the parts.",
        ),
    ] = None


def parse_size(text: str) -> int:
    """A number of bytes such as 500M or 1.5GiB: units are powers of 1024. Raises `typer.BadParameter`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise typer.BadParameter(f"{text} is not a size such as 500M or 8G", param_hint="--max-memory")
    size = float(match[1]) * 1024 ** _UNITS.index(match[2].upper() or " ")
    if not match[2] and size < _LEAST_WITHOUT_UNIT:
        problem = f"{text} is a number of bytes; with a unit it is written {match[1]}M or {match[1]}G"
        raise typer.BadParameter(problem, param_hint="--max-memory")
    return int(min(size, sys.maxsize))


def plan_parts(
    captures: Sequence[str], inputs: CaptureOptions, large: LargeCaptureOptions, messages: MessageOptions, *, join: bool
) -> BucketPlan | None:
    """How to divide a capture; None: it is analysed in memory, or the captures are."""
    if large.jobs is not None and large.cluster is not None:
        raise typer.BadParameter("--jobs cannot be combined with --cluster")
    limit = None if large.max_memory is None else parse_size(large.max_memory)
    sizes = [measure_captures([path]) for path in captures]
    known = [size for size in sizes if size is not None]
    together = join or len(captures) == 1
    if len(known) < len(sizes) or not known:
        return None
    plan = plan_buckets(sum(known) if together else max(known), large.jobs or count_processors(), limit)
    if plan is None:
        return None
    problem = "with keys" if inputs.keys else None if together else "together with others (--join reads them as one)"
    if problem is not None:
        messages.remark(f"{display_path(captures[0])}: a large capture that is read {problem} is analysed in memory")
        return None
    return plan


@contextmanager
def analyse_in_parts(
    captures: Sequence[str],
    inputs: CaptureOptions,
    large: LargeCaptureOptions,
    messages: MessageOptions,
    plan: BucketPlan,
    options: ReadOptions,
    directory: str | None,
) -> "Iterator[tuple[BucketedAnalysis, Mapping[str, pl.LazyFrame]] | None]":
    """Analyse a capture in parts, and print its warnings; see `analyse_in_buckets`.

    Yields None if it cannot be read in parts. `directory` is that of the output, if it is one.
    """
    from ikeanalyze.dataset.buckets.polars_memory import limit_polars_memory

    limit_polars_memory()
    import tempfile

    from ikeanalyze.dataset.batch.task import TaskError
    from ikeanalyze.dataset.buckets.analysis import BucketSettings, analyse_in_buckets
    from ikeanalyze.dataset.buckets.bucket_tasks import BucketTaskError
    from ikeanalyze.dataset.buckets.numbering import UnorderedBucketError

    start = time.perf_counter()
    if messages.verbose:
        where = f"{plan.jobs:,} at once" if large.cluster is None else f"on {large.cluster}"
        log_stderr(f"analysed in {format_count(plan.buckets, 'part')} on disk, {where}")
    temp = large.temp or directory or tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=temp):
            pass
    except OSError:
        problem = f"{temp} is not a directory that can be written to"
        raise typer.BadParameter(problem, param_hint="--temp") from None
    settings = BucketSettings(plan.buckets, temp, _choose_executor(large.cluster, plan.jobs))
    with fail_command(TaskError, BucketTaskError), _advise_on_space(), ExitStack() as stack:
        try:
            with make_progress_bar(quiet=messages.quiet) as progress:
                options = replace(options, ports=tuple(inputs.port), progress=progress)
                result, tables = stack.enter_context(analyse_in_buckets(captures, options, settings))
        except CaptureError:
            yield None  # reading it in memory tells why
            return
        except UnorderedBucketError:
            messages.remark(f"{display_path(captures[0])}: cannot be divided, and is analysed in memory")
            yield None
            return
        if messages.verbose:
            seconds = time.perf_counter() - start
            log_stderr(f"{result.summary.packets:,} packets read in {seconds:.2f} s")
        report_problems(result, captures, (), messages)
        yield result, tables


@contextmanager
def _advise_on_space() -> Iterator[None]:
    from ikeanalyze.dataset.buckets.frame_buckets import BucketSpaceError

    try:
        yield
    except BucketSpaceError as error:
        advice = "Name a directory on another disk with --temp, or let the analysis take more memory with --max-memory"
        raise CommandError(f"{error}. {advice}") from None


def _choose_executor(cluster: str | None, jobs: int) -> "Callable[[], AbstractContextManager[Executor]]":
    from ikeanalyze.dataset.buckets.executors import open_local_executor

    return partial(open_local_executor, jobs) if cluster is None else partial(_connect, cluster)


@contextmanager
def _connect(address: str) -> "Iterator[Executor]":
    from ikeanalyze.dataset.batch.cluster import DaskWorkers

    workers = DaskWorkers(address)
    try:
        yield workers.executor
    finally:
        workers.close()
