"""Predicts recorded cases of a report by `ikeanalyze predict`, for its table `case_predictions`.

Predictions need captures and keys, which a report does not have: they are made when its data are written.
"""

import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import polars as pl

from ikeanalyze.io.atomic_write import replace_atomically
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import CasePrediction, load_claims
from ikeanalyze.papers.report import ReportFolder

_TABLE: Final = "case_predictions"


def write_case_predictions(folder: ReportFolder, recordings: Path) -> None:
    """Write the table `case_predictions`: the rows of `ikeanalyze predict --format csv`, and a column `prediction`.

    Without `[[case_predictions]]` in `claims.toml`, there is no table.

    Raises:
        PaperError: a case was not recorded, or cannot be predicted, or the table cannot be written.
    """
    frames = [_predict(spec, recordings) for spec in load_claims(folder.claims).case_predictions]
    if not frames:
        return
    table = pl.concat(frames, how="diagonal_relaxed")
    known = [name for name in table.columns if table[name].null_count() < len(table)]
    try:
        with replace_atomically(str(folder.data / f"{_TABLE}.parquet")) as path:
            table.select(known).write_parquet(path, compression="zstd", statistics=False)
    except OSError as error:
        raise PaperError(f"{error.filename or folder.data}: {error.strerror}") from None


def _predict(spec: CasePrediction, recordings: Path) -> pl.DataFrame:
    files = _find_files(spec, recordings / spec.experiment)
    capture, keys = files["capture"], files.get("keys")
    # a process of its own: what the options mean is decided by the command line
    command = [sys.executable, "-m", "ikeanalyze", "predict", str(recordings / spec.experiment / str(capture))]
    command += ["--keys", str(recordings / spec.experiment / keys)] if keys else []
    command += ["--format", "csv", "--quiet", *shlex.split(spec.options)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        reason = result.stderr.strip().splitlines() or ["failed without a message"]
        raise PaperError(f"prediction {spec.id}: {reason[-1]}")
    return pl.read_csv(io.StringIO(result.stdout)).drop("capture").insert_column(0, pl.lit(spec.id).alias("prediction"))


def _find_files(spec: CasePrediction, folder: Path) -> dict[str, str | None]:
    """Return the files of the part with the most handshakes of the case that a specification selects."""
    manifests = [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.manifest.json"))]
    parts = [each for each in manifests if spec.case.items() <= each["scenario"].items()]
    if len({each["name"] for each in parts}) != 1:
        raise PaperError(f"prediction {spec.id}: {folder}: its case selects {len(parts)} recordings, not one")
    files: dict[str, str | None] = max(parts, key=lambda each: len(each["handshakes"]))["files"]
    return files
