"""Records a report: runs its scenarios by the lab, and makes the small tables that its queries read.

The tables `captures`, `handshakes` and `exchanges` of a dataset become files of `data`, with these changes: a column
`experiment` has the name of the scenario file; each column of `handshakes` that is a list of structures (`phases`,
`certificates`, `payload_bytes`...) becomes a table of its own with the key of the handshake; columns without any value
are left out; IKE SAs that replaced others and warm-ups are left out. `cases` has the memory of an IKE SA where the lab
measured it, and `predictions` what `claims.toml` predicts from the recordings.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from ikeanalyze.dataset.batch.processes import LocalWorkers
from ikeanalyze.dataset.batch.run import BatchOptions, run_batch
from ikeanalyze.dataset.batch.task import TaskError
from ikeanalyze.dataset.dataset import open_dataset
from ikeanalyze.dataset.manifest import DatasetError
from ikeanalyze.io.atomic_write import replace_atomically
from ikeanalyze.io.lab_manifest import HOSTS, LAB_SCHEMA
from ikeanalyze.machine import count_processors
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import CasePrediction, ClaimFile, KeptTable, Recording
from ikeanalyze.papers.predictions import make_prediction_table
from ikeanalyze.papers.report import ReportFolder

Say = Callable[[str], object]

#: Exit status of `lab run` if a scenario or a case of it cannot be run.
_FAILED: Final = 1
_KEY: Final = ("experiment", "capture", "handshake")
#: What a reader must know about the machine, from the manifests of the lab; those of `_BY_HOST` are by host.
_MACHINE_KEYS: Final = (
    "initiator",
    "responder",
    "aaa",
    "processor",
    "architecture",
    "usable_cores",
    "kernel",
    "esp",
    "jobs",
    "ikeanalyze",
)
_BY_HOST: Final = ("openssl",)


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What a user of `paper run` wants otherwise than scenarios and `claims.toml`."""

    iterations: int | None = None  # handshakes of each case, except where their number is fixed
    jobs: int | None = None  # cases at once, except where the cases take turns
    values: tuple[str, ...] = ()  # `KEY=VALUE` of all scenarios


def run_scenarios(
    folder: ReportFolder, output: Path, recording: Mapping[str, Recording], options: RecordOptions, say: Say
) -> None:
    """Run the scenarios of a report by `ikeanalyze lab run`, each into a folder of its own; continue an earlier run.

    A scenario that fails with other values, such as a stack that lacks an algorithm, is left out.

    Raises:
        PaperError: `recording` names a scenario that does not exist, the lab fails, or all scenarios are left out.
    """
    names = [scenario.stem for scenario in folder.scenarios]
    if unknown := sorted(set(recording) - set(names)):
        raise PaperError(
            f"{folder.claims}: recording: there is no scenario {unknown[0]}; there are: {', '.join(names)}"
        )
    # all scenarios, before the first one is run for minutes
    if not options.values and _run_lab("doctor", *map(str, folder.scenarios)) != 0:
        raise PaperError(f"{folder.path}: the lab cannot run all scenarios on this machine; nothing was recorded")
    left_out = 0
    for scenario in folder.scenarios:
        arguments = _list_arguments(recording.get(scenario.stem, Recording()), options)
        status = _run_lab("run", str(scenario), "-o", str(output / scenario.stem), *arguments)
        if status == 0:
            continue
        if status != _FAILED or not options.values:
            raise PaperError(f"{scenario}: the lab failed")
        say(f"{scenario}: left out of the report")
        left_out += 1
    if left_out and left_out == len(names):
        raise PaperError(f"{folder.path}: no scenario can be run with {' and '.join(options.values)}")


def _run_lab(*arguments: str) -> int:
    """Return the exit status of a command of the lab.

    It is a process of its own: the lab handles signals and ends daemons as on the command line.
    """
    command = [sys.executable, "-m", "ikeanalyze", "lab", *arguments]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode


def _list_arguments(setting: Recording, options: RecordOptions) -> list[str]:
    """Return the options of `lab run` for a scenario."""
    arguments = ["--resume"]
    arguments += ["--interleave"] if setting.interleave else ["--jobs", str(options.jobs or setting.jobs)]
    if options.iterations is not None and not setting.fixed:
        arguments += ["-n", str(options.iterations)]
    for value in options.values:
        arguments += ["--set", value]
    return arguments


def write_data(
    folder: ReportFolder, recordings: Path, say: Say, file: ClaimFile | None = None, values: Sequence[str] = ()
) -> None:
    """Read recordings, and write `data` and `environment.json` of a report.

    `file` states what else belongs to the data, predictions and copies of captures, and what is left out. With other
    `values` of keys of the scenarios, `environment.json` has them, and what cannot be made of the recordings is left
    out.

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
    tables["cases"] = make_case_table(recordings)
    tables["predictions"] = _predict(file.predictions if file else (), recordings, say if values else None)
    selected = file.data if file else {}
    tables = select_tables(tables, {name: kept for name, kept in selected.items() if name in tables or not values})
    try:
        folder.data.mkdir(exist_ok=True)
        for stale in {path.stem for path in folder.data.glob("*.parquet")} - set(tables):
            (folder.data / f"{stale}.parquet").unlink()
        for name, table in tables.items():
            if table.is_empty():
                (folder.data / f"{name}.parquet").unlink(missing_ok=True)
                continue
            with replace_atomically(str(folder.data / f"{name}.parquet")) as path:
                table.write_parquet(path, compression="zstd", statistics=False)
        for capture in file.captures if file else ():
            copy = folder.data / "captures" / capture
            copy.parent.mkdir(parents=True, exist_ok=True)
            if values and not (recordings / capture).exists():
                copy.unlink(missing_ok=True)  # of a recording with other values
                continue
            shutil.copyfile(recordings / capture, copy)
        document = describe_environment(recordings) | ({"values": list(values)} if values else {})
        with replace_atomically(str(folder.environment)) as path:
            path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise PaperError(f"{error.filename or folder.path}: {error.strerror}") from None


def _predict(specs: Sequence[CasePrediction], recordings: Path, say: Say | None) -> pl.DataFrame:
    """Return the table of predictions; with `say`, those that cannot be made are named and left out."""
    if say is None:
        return make_prediction_table(specs, recordings)
    tables = []
    for spec in specs:
        try:
            tables.append(make_prediction_table([spec], recordings))
        except PaperError as error:
            say(f"left out: {error}")
    return pl.concat(tables, how="diagonal_relaxed") if tables else pl.DataFrame()


def make_tables(captures: pl.DataFrame, handshakes: pl.DataFrame, exchanges: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the tables of `data` from those of a dataset, which have a column `experiment` in addition."""
    counted = handshakes.filter(~pl.col("rekeyed").fill_null(False) & ~pl.col("warm_up").fill_null(False))
    tables = {"captures": captures, "handshakes": counted, "exchanges": exchanges.join(counted.select(_KEY), on=_KEY)}
    for name, kind in counted.schema.items():
        if isinstance(kind, pl.List) and isinstance(kind.inner, pl.Struct):
            tables[name] = counted.select(*_KEY, name).explode(name).drop_nulls(name).unnest(name)
    return {name: _drop_empty_columns(table) for name, table in tables.items() if not table.is_empty()}


def select_tables(tables: Mapping[str, pl.DataFrame], kept: Mapping[str, KeptTable]) -> dict[str, pl.DataFrame]:
    """Return what is kept of the tables; without `kept`, all of them. Columns without any value are left out.

    Raises:
        PaperError: there is no such table.
    """
    if not kept:
        return dict(tables)
    if missing := set(kept) - set(tables):
        raise PaperError(f"data: there is no table {min(missing)}; there are: {', '.join(tables)}")
    return {name: _select(tables[name], kept[name]) for name in kept}


def _select(table: pl.DataFrame, kept: KeptTable) -> pl.DataFrame:
    rows = table.filter(~pl.col("experiment").is_in(kept.without)) if kept.without else table
    return rows.select(name for name in kept.columns if name in rows) if kept.columns else rows


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


def make_case_table(recordings: Path) -> pl.DataFrame:
    """Return a row for each recording, with the memory of an IKE SA by host; null: its scenario keeps none."""
    rows = []
    for experiment, manifest in _read_manifests(recordings):
        memory = manifest.get("bytes_per_ike_sa") or {}
        sizes = {f"{host}_bytes_per_ike_sa": memory.get(host) for host in HOSTS}
        capture = f"{experiment}/{manifest['files']['capture']}"
        rows.append({"experiment": experiment, "capture": capture, "scenario": manifest["name"], **sizes})
    kinds = dict.fromkeys((f"{host}_bytes_per_ike_sa" for host in HOSTS), pl.Float64)
    return pl.DataFrame(rows, schema={"experiment": pl.String, "capture": pl.String, "scenario": pl.String, **kinds})


def describe_environment(recordings: Path) -> dict[str, Any]:
    """Return what `environment.json` has: when and where the recordings were made, and what was run."""
    experiments: dict[str, dict[str, int]] = {}
    machine: dict[str, set[str]] = {name: set() for name in (*_MACHINE_KEYS, *_BY_HOST, "emulation")}
    dates: list[str] = []
    loads: list[float] = []
    for experiment, manifest in _read_manifests(recordings):
        described = manifest.get("machine", {})
        dates.append(str(described.get("date", "")))
        loads += (described.get("load_before") or [])[:1]
        for name in _MACHINE_KEYS:
            machine[name] |= {str(described[name])} if described.get(name) is not None else set()
        for name in _BY_HOST:
            machine[name] |= {str(value) for value in described.get(name, {}).values() if value is not None}
        machine["emulation"] |= {str(link.get("by")) for link in manifest.get("links", {}).values()}
        counts = experiments.setdefault(experiment, {"cases": 0, "handshakes": 0, "established": 0})
        results = [result for result in manifest.get("handshakes", []) if not result.get("warm_up")]
        counts["cases"] += 1
        counts["handshakes"] += len(results)
        counts["established"] += sum(bool(result.get("established")) for result in results)
    return {
        "recorded": {"first": min(dates, default=None), "last": max(dates, default=None)},
        "machine": {
            **{name: sorted(values) for name, values in machine.items() if values},
            "highest load before a case": max(loads, default=None),
        },
        "experiments": experiments,
    }


def _read_manifests(recordings: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in sorted(recordings.glob("*/*.manifest.json")):
        document = json.loads(path.read_bytes())
        if document.get("schema") == LAB_SCHEMA:
            yield path.parent.name, document
