"""Predictions of a report, as `ikeanalyze predict` makes them: its table `predictions`, and the formula `predict`.

The table needs captures and keys, which a report does not have: it is made when the data of the report are written.
"""

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.model.prediction.extract import FlowError, extract_flow
from ikeanalyze.model.prediction.flow import HandshakeFlow
from ikeanalyze.model.prediction.link import LinkError, LinkModel, validate_link
from ikeanalyze.model.prediction.predict import TransmissionConfig, predict_handshake
from ikeanalyze.model.retransmission_policy import parse_policy
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import CasePrediction

_METRICS: Final = ("setup_ms", "bytes", "messages", "frames")


def make_prediction_table(specs: Sequence[CasePrediction], recordings: Path) -> pl.DataFrame:
    """Return the rows of `ikeanalyze predict --format csv` for the cases of each specification; no rows without any.

    Columns: `prediction`, the id of the specification; `experiment`; `capture`, as in the other tables; and those of
    the CSV that have a value.

    Raises:
        PaperError: a specification selects no case, or a case cannot be predicted.
    """
    frames = [_predict(spec, recordings) for spec in specs]
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def _predict(spec: CasePrediction, recordings: Path) -> pl.DataFrame:
    folder = recordings / spec.experiment
    cases = _find_cases(spec, folder)
    # a process of its own: what the options mean is decided by the command line
    command = [sys.executable, "-m", "ikeanalyze", "predict", *(str(folder / case["capture"]) for case in cases)]
    for case in cases:
        command += ["--keys", str(folder / case["keys"])] if case.get("keys") else []
    command += ["--format", "csv", "--quiet", *shlex.split(spec.options)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        reason = result.stderr.strip().splitlines() or ["failed without a message"]
        raise PaperError(f"prediction {spec.id}: {reason[-1]}")
    rows = pl.read_csv(io.StringIO(result.stdout), infer_schema_length=None)
    name = pl.col("capture").str.split("/").list.last()
    return rows.select(
        pl.lit(spec.id).alias("prediction"),
        pl.lit(spec.experiment).alias("experiment"),
        pl.format("{}/{}", pl.lit(spec.experiment), name).alias("capture"),
        *(each for each in rows.columns if each != "capture" and rows[each].null_count() < len(rows)),
    )


def _find_cases(spec: CasePrediction, folder: Path) -> list[dict[str, Any]]:
    """Return the files of each case that a specification selects; of a case in parts, those with most handshakes."""
    manifests = [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.manifest.json"))]
    selected: dict[str, dict[str, Any]] = {}
    for manifest in manifests:
        if spec.case.items() <= manifest["scenario"].items():
            other = selected.setdefault(manifest["name"], manifest)
            if len(manifest["handshakes"]) > len(other["handshakes"]):
                selected[manifest["name"]] = manifest
    if not selected:
        raise PaperError(f"prediction {spec.id}: {folder}: no recording has the values of its case")
    return [manifest["files"] for manifest in selected.values()]


def compute_prediction(
    *, data: Path, capture: str, metric: str, rtt_ms: float, loss: float = 0.0, rate: float | None = None
) -> float:
    """Return the predicted mean of a metric for a handshake that was recorded on a link without delay.

    Args:
        data: the folder of the report's data.
        capture: its path in `captures` there.
        metric: setup_ms, bytes, messages or frames.
        rtt_ms: round-trip time of the link.
        loss: share of lost frames.
        rate: bit/s in each direction; None: unlimited.

    Raises:
        LookupError: the capture, or the metric, is not there, or the link is invalid.
    """
    if metric not in _METRICS:
        raise LookupError(f"metric is one of {', '.join(_METRICS)}")
    try:
        link = validate_link(LinkModel(rtt_ms, loss, rate_up=rate, rate_down=rate))
    except LinkError as error:
        raise LookupError(str(error)) from None
    prediction = predict_handshake(
        _read_flow(data / "captures" / capture), link, TransmissionConfig(parse_policy("strongswan"))
    )
    distribution = getattr(prediction, metric)
    if distribution is None:
        raise LookupError("no simulated handshake succeeds")
    return float(distribution.mean)


@cache
def _read_flow(path: Path) -> HandshakeFlow:
    # a copy has no manifest
    analysis = read_captures(path, ReadOptions(vantage="initiator", rtt_ms=0))
    if analysis.skipped:
        raise LookupError(f"{path}: {analysis.skipped[0].reason}")
    try:
        return extract_flow(analysis, analysis.captures[0].path)
    except FlowError as error:
        raise LookupError(f"{path}: {error}") from None
