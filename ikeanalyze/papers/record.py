"""Records a report: runs its scenarios by the lab, and makes the small tables that its queries read.

The tables `captures`, `handshakes` and `exchanges` of a dataset become files of `data`, with these changes: a column
`experiment` has the name of the scenario file; each column of `handshakes` that is a list of structures (`phases`,
`certificates`, `payload_bytes`...) becomes a table of its own with the key of the handshake; columns without any value
are left out; IKE SAs that replaced others and warm-ups are left out.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from ikeanalyze.dataset.batch.processes import LocalWorkers, count_processors
from ikeanalyze.dataset.batch.run import BatchOptions, run_batch
from ikeanalyze.dataset.batch.task import TaskError
from ikeanalyze.dataset.dataset import open_dataset
from ikeanalyze.dataset.manifest import DatasetError
from ikeanalyze.io.atomic_write import replace_atomically
from ikeanalyze.io.lab_manifest import LAB_SCHEMA
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import load_claims
from ikeanalyze.papers.report import ReportFolder

Say = Callable[[str], object]

_KEY: Final = ("experiment", "capture", "handshake")
#: What a reader must know about the machine; from the manifests of the lab.
_MACHINE_KEYS: Final = ("initiator", "responder", "aaa", "kernel", "esp", "ikeanalyze", "jobs")


def run_scenarios(folder: ReportFolder, output: Path, iterations: int | None) -> None:
    """Run the scenarios of a report by `ikeanalyze lab run`, each into a folder of its own.

    Raises:
        PaperError: the report has no scenarios, or the lab fails.
    """
    if not folder.scenarios:
        raise PaperError(f"{folder.path}: no file in scenarios/")
    count = [] if iterations is None else ["-n", str(iterations)]
    for scenario in folder.scenarios:
        # a process of its own: the lab handles signals and ends daemons as on the command line
        command = [sys.executable, "-m", "ikeanalyze", "lab", "run", str(scenario), "-o", str(output / scenario.stem)]
        if subprocess.run([*command, *count], stdout=subprocess.DEVNULL, check=False).returncode:
            raise PaperError(f"{scenario}: the lab failed")


def write_data(folder: ReportFolder, recordings: Path, say: Say) -> None:
    """Read recordings, and write `data` and `environment.json` of a report.

    Raises:
        PaperError: there are no recordings, or files cannot be read or written.
    """
    with tempfile.TemporaryDirectory() as temporary:
        options = BatchOptions([str(recordings)], Path(temporary) / "dataset")
        try:
            summary = run_batch(options, lambda tasks: LocalWorkers(min(count_processors(), tasks)), None, say)
            if summary.failed:
                raise PaperError(f"{recordings}: {summary.failed[0].capture}: {summary.failed[0].reason}")
            dataset = open_dataset(options.dataset)
        except (DatasetError, TaskError) as error:
            raise PaperError(f"{recordings}: {error}") from None
        tables = make_tables(
            *(_name_experiments(table) for table in (dataset.captures, dataset.handshakes, dataset.exchanges))
        )
    if folder.claims.exists():
        tables = select_columns(tables, load_claims(folder.claims).data)
    try:
        folder.data.mkdir(exist_ok=True)
        for name, table in tables.items():
            with replace_atomically(str(folder.data / f"{name}.parquet")) as path:
                table.write_parquet(path, compression="zstd", statistics=False)
        document = describe_environment(recordings)
        with replace_atomically(str(folder.environment)) as path:
            path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise PaperError(f"{error.filename or folder.path}: {error.strerror}") from None


def make_tables(captures: pl.DataFrame, handshakes: pl.DataFrame, exchanges: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the tables of `data` from those of a dataset, which have a column `experiment` in addition."""
    counted = handshakes.filter(~pl.col("rekeyed").fill_null(False) & ~pl.col("warm_up").fill_null(False))
    tables = {"captures": captures, "handshakes": counted, "exchanges": exchanges.join(counted.select(_KEY), on=_KEY)}
    for name, kind in counted.schema.items():
        if isinstance(kind, pl.List) and isinstance(kind.inner, pl.Struct):
            tables[name] = counted.select(*_KEY, name).explode(name).drop_nulls(name).unnest(name)
    return {name: _drop_empty_columns(table) for name, table in tables.items() if not table.is_empty()}


def select_columns(tables: Mapping[str, pl.DataFrame], kept: Mapping[str, Sequence[str]]) -> dict[str, pl.DataFrame]:
    """Return the tables that are kept, with those of their columns that have values; without `kept`, all of them.

    Raises:
        PaperError: there is no such table.
    """
    if not kept:
        return dict(tables)
    if missing := set(kept) - set(tables):
        raise PaperError(f"data: there is no table {min(missing)}; there are: {', '.join(tables)}")
    return {name: tables[name].select(each for each in kept[name] if each in tables[name]) for name in kept}


def _name_experiments(table: pl.LazyFrame) -> pl.DataFrame:
    """Reduce the paths of captures to their last folder and name, and add the folder as the column `experiment`."""
    place = pl.col("capture").str.split("/")
    frame = table.with_columns(
        place.list.tail(2).list.join("/").alias("capture"), place.list.get(-2).alias("experiment")
    )
    return frame.collect()


def _drop_empty_columns(table: pl.DataFrame) -> pl.DataFrame:
    flat = [name for name, kind in table.schema.items() if not kind.is_nested()]
    return table.select(name for name in flat if table[name].null_count() < len(table))


def describe_environment(recordings: Path) -> dict[str, Any]:
    """Return what `environment.json` has: when and where the recordings were made, and what was run."""
    experiments: dict[str, dict[str, Any]] = {}
    machines: dict[str, set[str]] = {name: set() for name in _MACHINE_KEYS}
    dates, emulations = [], set()
    for experiment, manifest in _read_manifests(recordings):
        machine = manifest.get("machine", {})
        dates.append(str(machine.get("date", "")))
        for name in _MACHINE_KEYS:
            if machine.get(name) is not None:
                machines[name].add(str(machine[name]))
        emulations |= {str(link.get("by")) for link in manifest.get("links", {}).values()}
        counts = experiments.setdefault(experiment, {"cases": 0, "handshakes": 0, "established": 0})
        results = manifest.get("handshakes", [])
        counts["cases"] += 1
        counts["handshakes"] += len(results)
        counts["established"] += sum(bool(result.get("established")) for result in results)
    return {
        "recorded": {"first": min(dates, default=None), "last": max(dates, default=None)},
        "machine": {
            **{name: sorted(values) for name, values in machines.items() if values},
            "emulation": sorted(emulations),
            "processors": os.cpu_count(),
            "architecture": platform.machine(),
        },
        "experiments": experiments,
    }


def _read_manifests(recordings: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in sorted(recordings.glob("*/*.manifest.json")):
        document = json.loads(path.read_bytes())
        if document.get("schema") == LAB_SCHEMA:
            yield path.parent.name, document
