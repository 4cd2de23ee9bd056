"""Tables to compare: recorded captures with labels, and handshakes with nothing but what a test is about."""

import json

import polars as pl

import ikeanalyze
from ikeanalyze.analysis.schema import EXCHANGES, HANDSHAKES
from ikeanalyze.dataset.compare.source import ComparisonTables
from tests.paths import LAB_CAPTURES

LAB = LAB_CAPTURES


def tables(rows, labels=("config",), **more):
    """`rows`: dictionaries of columns; an outcome is `completed` unless it is said."""
    kinds = {name: pl.Series([row.get(name) for row in rows]).dtype for name in labels}
    defaults = [
        {"capture": "a.pcap", "handshake": i + 1, "rekeyed": False, "outcome": "completed", **row}
        for i, row in enumerate(rows)
    ]
    handshakes = pl.DataFrame(defaults, schema={**HANDSHAKES, **kinds}).with_columns(pl.col("capture").cast(pl.String))
    exchanges = pl.LazyFrame(schema={**EXCHANGES, "capture": pl.String})
    return ComparisonTables("ds", handshakes.lazy(), exchanges, list(labels), **more)


def times(config, *values, **more):
    """Rows with these set-up times in ms."""
    return [{"config": config, "setup_ns": round(value * 1e6), **more} for value in values]


def manifest(loss):
    """What the lab noted of the capture with this loss in per cent."""
    return json.loads((LAB / f"loss_loss-percent-{loss}.manifest.json").read_text())


def retransmissions(loss):
    """Messages that its daemons say they sent again to set an IKE SA up, per handshake: each has four to send."""
    noted = manifest(loss)
    reported = [message for role in ("initiator", "responder") for message in noted["expected"][role]["messages"]]
    sent = sum(item.startswith(("IKE_SA_INIT", "IKE_AUTH")) for item in reported)
    assert all(handshake["established"] for handshake in noted["handshakes"])
    return sent / len(noted["handshakes"]) - 4


def recorded(**captures):
    """Captures, each with its label `loss`."""
    handshakes, exchanges = [], []
    for loss, path in captures.items():
        result = ikeanalyze.read(path)
        capture = pl.col("capture").cast(pl.String)
        label = pl.lit(float(loss.removeprefix("loss"))).alias("loss")
        handshakes.append(result.handshakes.with_columns(capture, label))
        exchanges.append(result.exchanges.with_columns(capture))
    return ComparisonTables("lab", pl.concat(handshakes).lazy(), pl.concat(exchanges).lazy(), ["loss"])
