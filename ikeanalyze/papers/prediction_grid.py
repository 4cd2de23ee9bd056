"""The table `prediction_grid` of a report: recorded handshakes on other links, computed as by `ikeanalyze predict`."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.model.prediction.flow import HandshakeFlow
from ikeanalyze.model.prediction.layout import LayoutError
from ikeanalyze.model.prediction.link import LinkError, LinkModel
from ikeanalyze.model.prediction.predict import Prediction, RunConfig, predict_handshake
from ikeanalyze.model.prediction.what_if.apply import apply_changes
from ikeanalyze.model.prediction.what_if.changes import ChangeError, HandshakeChanges, parse_signature
from ikeanalyze.model.retransmission_policy import parse_policy
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import PredictionGrid
from ikeanalyze.papers.predictions import read_flow

#: Simulated handshakes of each prediction: for the quantile and the frames. The means are those of the closed form.
_RUNS: Final = 2000


def predict_grids(recordings: Path, grids: Sequence[PredictionGrid]) -> pl.DataFrame:
    """Return a row for each handshake, signature algorithm and link of the grids; no rows without grids.

    Columns: `experiment` and `capture` of the recorded handshake, `signature` (null: as recorded), `rtt_ms`,
    `loss_percent`, `mtu`; the shares `failed_percent` and `within_budget_percent`; the means `setup_ms`, `messages`,
    `bytes` and `frames` and the quantile `setup_p95_ms` of the handshakes that succeed; `messages_once`, `bytes_once`
    and `frames_once` without losses; and `largest_bytes`, the payloads of the largest message.

    Raises:
        PaperError: a capture is missing or cannot be predicted, or a name in a grid is not known.
    """
    try:
        return pl.DataFrame(
            [row for grid in grids for row in _predict_grid(recordings, grid)], infer_schema_length=None
        )
    except (LookupError, ChangeError, LayoutError, LinkError) as error:
        raise PaperError(f"prediction_grids: {error}") from None


def _predict_grid(recordings: Path, grid: PredictionGrid) -> Iterator[dict[str, Any]]:
    paths = sorted(recordings.glob(grid.captures))
    if not paths:
        raise PaperError(f"prediction_grids: {recordings} has no {grid.captures}")
    links = [
        LinkModel(rtt, loss / 100, mtu=mtu) for rtt, loss, mtu in product(grid.rtt_ms, grid.loss_percent, grid.mtu)
    ]
    use = RunConfig(parse_policy("strongswan"))
    for path in paths:
        recorded = _read_with_keys(path)
        for signature in grid.signatures:
            flow = recorded
            if signature:
                flow = apply_changes(recorded, HandshakeChanges(signature=parse_signature(signature)))
            names = {"experiment": path.parent.name, "capture": f"{path.parent.name}/{path.name}"}
            for link in links:
                prediction = predict_handshake(flow, link, use, runs=_RUNS, budgets_ms=[grid.budget_ms])
                yield {**names, "signature": signature or None, **_describe(prediction)}


def _read_with_keys(path: Path) -> HandshakeFlow:
    # the lab's names: NAME.pcapng or NAME.initiator.pcapng, and NAME.keys.json
    keys = path.with_name(path.name.removesuffix(".pcapng").removesuffix(".initiator") + ".keys.json")
    own_keys = {str(path): str(keys)} if keys.exists() else None
    return read_flow(path, ReadOptions(own_keys=own_keys, payloads=True, payload_sizes=True))


def _describe(prediction: Prediction) -> dict[str, Any]:
    """Return the columns of a prediction; means are those of the closed form where there is one."""
    closed, setup, frames = prediction.closed, prediction.setup_ms, prediction.frames
    messages, frames_once, bytes_once = prediction.once
    return {
        "rtt_ms": prediction.link.rtt_ms,
        "loss_percent": round(100 * prediction.link.loss, 6),
        "mtu": prediction.link.mtu,
        "failed_percent": 100 * (1 - closed.success if closed else prediction.failure[0]),
        "within_budget_percent": 100 * prediction.budgets[0].share,
        "setup_ms": 1000 * closed.setup_s if closed and closed.setup_s is not None else setup and setup.mean,
        "setup_p95_ms": setup and setup.p95,
        "messages": closed.messages if closed else prediction.messages and prediction.messages.mean,
        "bytes": closed.bytes if closed else prediction.bytes and prediction.bytes.mean,
        "frames": frames and frames.mean,
        "messages_once": messages,
        "bytes_once": bytes_once,
        "frames_once": frames_once,
        "largest_bytes": _measure_largest_message(prediction.flow),
    }


def _measure_largest_message(flow: HandshakeFlow) -> int | None:
    """Return the bytes of the payloads of the largest message; None: not all are known."""
    messages = [message for each in flow.exchanges for message in (each.request, each.response) if message is not None]
    if any(message.payloads is None for message in messages):
        return None
    return max(sum(payload.bytes for payload in message.payloads or ()) for message in messages)
