"""Predictions for programs: the JSON document of schema "ikeanalyze.prediction/1", and CSV with a row for each."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, Final, TextIO

from ikeanalyze.model.prediction.flow import FlowMessage, HandshakeFlow
from ikeanalyze.model.prediction.link import LinkModel
from ikeanalyze.model.prediction.predict import Distribution, Prediction

SCHEMA: Final = "ikeanalyze.prediction/1"

_DISTRIBUTIONS: Final = ("setup_ms", "bytes", "messages", "frames")
_VALUES: Final = tuple(one.name for one in fields(Distribution))


def build_document(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """The whole document; the single runs are not in it."""
    flows = {(one.flow.capture, one.flow.handshake): one.flow for one in predictions}
    return {
        "schema": SCHEMA,
        "handshakes": [_flow(flow) for flow in flows.values()],
        "predictions": [_prediction(one) for one in predictions],
    }


def _flow(flow: HandshakeFlow) -> dict[str, Any]:
    return {
        "capture": flow.capture,
        "handshake": flow.handshake,
        "protocol": flow.protocol,
        "other_whole_handshakes": flow.others,
        "messages": flow.messages,
        "bytes": flow.bytes,
        "setup_ms": flow.setup_ns / 1e6,
        "initiator_ms": _ms(flow.computation_ns("initiator")),
        "responder_ms": _ms(flow.computation_ns("responder")),
        "aaa_ms": sum(one.aaa_ns for one in flow.exchanges) / 1e6,
        "aaa_round_trips": sum(one.aaa_round_trips for one in flow.exchanges),
        "path_rtt_ms": _ms(flow.path_rtt_ns),
        "path": flow.path,
        "ike_fragmentation": flow.fragmentation,
        "exchanges": [
            {
                "type": one.type,
                "message_id": one.message_id,
                "asked_by": one.asker,
                "request": _message(one.request),
                "response": None if one.response is None else _message(one.response),
                "before_ms": one.before_ns / 1e6,
                "answer_ms": _ms(one.answer_ns),
                "aaa_ms": one.aaa_ns / 1e6,
            }
            for one in flow.exchanges
        ],
    }


def _message(message: FlowMessage) -> dict[str, Any]:
    return {
        "datagrams": len(message.parts),
        "frames": sum(len(part.frames) for part in message.parts),
        "bytes": message.bytes,
    }


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e6


def _prediction(one: Prediction) -> dict[str, Any]:
    use, closed = one.use, one.closed
    return {
        "capture": one.flow.capture,
        "handshake": one.flow.handshake,
        "link": _link(one.link),
        "transport": use.transport.value,
        "policy": {"name": use.policy.name, "waits_s": list(use.policy.waits), "jitter": use.policy.jitter},
        "repeats": use.repeats.value,
        "fragment_size": use.fragment_size,
        "once": dict(zip(("messages", "frames", "bytes"), one.once, strict=True)),
        "runs": one.runs,
        "seed": one.seed,
        "failures": one.failures,
        "failure": dict(zip(("probability", "low", "high"), one.failure, strict=True)),
        "failed_in": dict(one.failed_in),
        **{name: _distribution(getattr(one, name)) for name in _DISTRIBUTIONS},
        "all_bytes_mean": one.all_bytes,
        "closed_form": None
        if closed is None
        else {
            "failure_probability": 1 - closed.success,
            "setup_ms": None if closed.setup_s is None else closed.setup_s * 1000,
            "bytes": closed.bytes,
            "messages": closed.messages,
            "all_bytes": closed.all_bytes,
        },
        "no_closed_form": one.not_closed,
    }


def _link(link: LinkModel) -> dict[str, Any]:
    values = asdict(link)
    return {"scenario": values.pop("name"), **values}


def _distribution(one: Distribution | None) -> dict[str, float] | None:
    return None if one is None else asdict(one)


def write_csv(predictions: Sequence[Prediction], out: TextIO) -> None:
    """Write a heading and a row for each prediction; what is not known is empty."""
    link = [one.name for one in fields(LinkModel) if one.name not in ("burst", "name")]
    closed = ("setup_ms", "bytes", "messages")
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(
        [
            *("capture", "handshake", "scenario", *link, "burst_mean", "burst_unit", "burst_loss"),
            *("transport", "policy", "repeats", "fragment_size", "runs", "seed"),
            *("failure", "failure_low", "failure_high"),
            *(f"{name}_{value}" for name in _DISTRIBUTIONS for value in _VALUES),
            *("all_bytes_mean", "closed_failure", *(f"closed_{name}" for name in closed)),
        ]
    )
    for one in predictions:
        document = _prediction(one)
        exact = document["closed_form"] or {}
        burst = one.link.burst
        bursts = (
            (None, None, None) if burst is None else (burst.mean, "frames" if burst.of_frames else "ms", burst.loss)
        )
        rows.writerow(
            [
                *(
                    one.flow.capture,
                    one.flow.handshake,
                    one.link.name,
                    *(_plain(getattr(one.link, name)) for name in link),
                    *bursts,
                ),
                *(
                    one.use.transport.value,
                    one.use.policy.name,
                    one.use.repeats.value,
                    one.use.fragment_size,
                    one.runs,
                    one.seed,
                ),
                *one.failure,
                *((document[name] or {}).get(value) for name in _DISTRIBUTIONS for value in _VALUES),
                *(one.all_bytes, exact.get("failure_probability"), *(exact.get(name) for name in closed)),
            ]
        )


def _plain(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
