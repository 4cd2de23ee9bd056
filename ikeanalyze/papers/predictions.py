"""Predictions from the captures of a report, as `ikeanalyze predict` makes them."""

from functools import cache
from pathlib import Path
from typing import Final

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.model.prediction.extract import FlowError, extract_flow
from ikeanalyze.model.prediction.flow import HandshakeFlow
from ikeanalyze.model.prediction.link import LinkError, LinkModel, validate_link
from ikeanalyze.model.prediction.predict import RunConfig, predict_handshake
from ikeanalyze.model.retransmission_policy import parse_policy

_METRICS: Final = ("setup_ms", "bytes", "messages", "frames")


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
    prediction = predict_handshake(_read_copy(data / "captures" / capture), link, RunConfig(parse_policy("strongswan")))
    distribution = getattr(prediction, metric)
    if distribution is None:
        raise LookupError("no simulated handshake succeeds")
    return float(distribution.mean)


@cache
def _read_copy(path: Path) -> HandshakeFlow:
    # a copy has no manifest
    return read_flow(path, ReadOptions(vantage="initiator", rtt_ms=0))


def read_flow(path: Path, options: ReadOptions | None = None) -> HandshakeFlow:
    """Read the handshake of a capture that predictions are made from.

    Raises:
        LookupError: the capture cannot be read, or has no complete handshake.
    """
    analysis = read_captures(path, options or ReadOptions())
    if analysis.skipped:
        raise LookupError(f"{path}: {analysis.skipped[0].reason}")
    try:
        return extract_flow(analysis, analysis.captures[0].path)
    except FlowError as error:
        raise LookupError(f"{path}: {error}") from None
