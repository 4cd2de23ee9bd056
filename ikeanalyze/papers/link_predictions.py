"""Predictions of the recorded handshakes on named links, as a table of a report."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from ikeanalyze.model.prediction.link import LinkError, LinkModel
from ikeanalyze.model.prediction.predict import RunConfig, predict_handshake
from ikeanalyze.model.prediction.scenarios import LinkScenarioError, load_scenario
from ikeanalyze.model.retransmission_policy import parse_policy
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import LinkPrediction
from ikeanalyze.papers.predictions import read_flow

#: Enough for shares to a per cent; without losses, runs differ by the processing times alone.
_RUNS: Final = 2000


def make_prediction_table(specs: Sequence[LinkPrediction], recordings: Path) -> pl.DataFrame:
    """Predict handshakes of recordings, and return a row for each prediction, link and time budget.

    Columns: prediction, link, mean setup_ms, p95_ms, budget_ms, and the share of runs within that time.

    Raises:
        PaperError: a capture has no complete handshake, or a link is invalid.
    """
    return pl.DataFrame([row for spec in specs for row in _predict(spec, recordings)])


def _predict(spec: LinkPrediction, recordings: Path) -> Iterator[Mapping[str, Any]]:
    path = recordings / spec.capture
    if not path.is_file():
        raise PaperError(f"{path}: no such capture; a prediction names it")
    try:
        flow = read_flow(path)
        for name in spec.links:
            link = LinkModel(**{"rtt_ms": 0.0, **load_scenario(name).fields})
            use = RunConfig(parse_policy("strongswan"))
            result = predict_handshake(flow, link, use, runs=_RUNS, budgets_ms=spec.budgets_ms)
            if result.setup_ms is None:
                raise PaperError(f"{path}: no simulated handshake succeeds on {name}")
            for budget in result.budgets:
                yield {
                    "prediction": spec.id,
                    "link": name,
                    "setup_ms": result.setup_ms.mean,
                    "p95_ms": result.setup_ms.p95,
                    "budget_ms": budget.ms,
                    "share": budget.share,
                }
    except LookupError as error:
        raise PaperError(str(error)) from None
    except (LinkError, LinkScenarioError) as error:
        raise PaperError(f"{path}: {error}") from None
