"""The JSON document of predictions, schema "ikeanalyze.prediction/1", and the rows of its CSV."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from statistics import median
from typing import Any, Final

from ikeanalyze.model.prediction.flow import FlowMessage, HandshakeFlow
from ikeanalyze.model.prediction.link import LinkModel
from ikeanalyze.model.prediction.plausibility import find_warnings
from ikeanalyze.model.prediction.predict import Distribution, Prediction
from ikeanalyze.render.core.json import select_attributes
from ikeanalyze.render.core.values import convert_to_ms

SCHEMA: Final = "ikeanalyze.prediction/1"

_DISTRIBUTIONS: Final = ("setup_ms", "bytes", "messages", "frames")
_ROW_SETTINGS: Final = (
    "repeats", "fragment_size", "until_established", "computation", "computation_handshakes", "runs", "seed"
)  # fmt: skip
_VALUES: Final = tuple(field.name for field in fields(Distribution))


def build_document(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return the document, without the single runs."""
    flows = {(prediction.flow.capture, prediction.flow.handshake): prediction.flow for prediction in predictions}
    return {
        "schema": SCHEMA,
        "handshakes": [_build_flow(flow) for flow in flows.values()],
        "predictions": [_build_prediction(prediction) for prediction in predictions],
        "warnings": [
            {"capture": warning.capture, "frame": None, "message": warning.message}
            for warning in find_warnings(predictions)
        ],
    }


def _build_flow(flow: HandshakeFlow) -> dict[str, Any]:
    return {
        **select_attributes(flow, "capture", "handshake", "protocol"),
        "other_whole_handshakes": flow.others,
        "comparable_handshakes": len(flow.comparable),
        "changes": list(flow.changes),
        **select_attributes(flow, "messages", "bytes", "largest_message_bytes"),
        "setup_ms": flow.setup_ns / 1e6,
        "initiator_ms": convert_to_ms(flow.computation_ns("initiator")),
        "responder_ms": convert_to_ms(flow.computation_ns("responder")),
        "initiator_median_ms": _compute_median_ms(flow.list_computations_ns("initiator")),
        "responder_median_ms": _compute_median_ms(flow.list_computations_ns("responder")),
        "aaa_ms": sum(exchange.aaa_ns for exchange in flow.exchanges) / 1e6,
        "aaa_round_trips": sum(exchange.aaa_round_trips for exchange in flow.exchanges),
        "path_rtt_ms": convert_to_ms(flow.path_rtt_ns),
        "path": flow.path,
        "ike_fragmentation": flow.fragmentation,
        "exchanges": [
            {
                "type": exchange.type,
                "message_id": exchange.message_id,
                "asked_by": exchange.asker,
                "request": _build_message(exchange.request),
                "response": None if exchange.response is None else _build_message(exchange.response),
                "before_ms": exchange.before_ns / 1e6,
                "answer_ms": convert_to_ms(exchange.answer_ns),
                "aaa_ms": exchange.aaa_ns / 1e6,
            }
            for exchange in flow.exchanges
        ],
    }


def _compute_median_ms(times_ns: Sequence[int]) -> float | None:
    return median(times_ns) / 1e6 if times_ns else None


def _build_message(message: FlowMessage) -> dict[str, Any]:
    return {
        "datagrams": len(message.parts),
        "frames": sum(len(part.frames) for part in message.parts),
        "bytes": message.bytes,
    }


def _build_prediction(prediction: Prediction) -> dict[str, Any]:
    transmission, closed = prediction.transmission, prediction.closed
    distributions: dict[str, Distribution | None] = {name: getattr(prediction, name) for name in _DISTRIBUTIONS}
    return {
        "capture": prediction.flow.capture,
        "handshake": prediction.flow.handshake,
        "link": _build_link(prediction.link),
        "transport": transmission.transport.value,
        "policy": {
            "name": transmission.policy.name,
            "waits_s": list(transmission.policy.waits),
            "jitter": transmission.policy.jitter,
        },
        "repeats": transmission.response_trigger.value,
        "fragment_size": transmission.fragment_size,
        "until_established": transmission.until_established,
        "once": dict(zip(("messages", "frames", "bytes"), prediction.once, strict=True)),
        "computation": prediction.computation.value,
        "computation_handshakes": prediction.handshakes,
        **select_attributes(prediction, "runs", "seed", "failures"),
        "failure": dict(zip(("probability", "low", "high"), prediction.failure, strict=True)),
        "failed_in": dict(prediction.failed_in),
        "attempts_mean": prediction.attempts,
        "budgets": [asdict(budget) for budget in prediction.budgets],
        **{name: values and asdict(values) for name, values in distributions.items()},
        "all_bytes_mean": prediction.all_bytes,
        "closed_form": None
        if closed is None
        else {
            "failure_probability": 1 - closed.success,
            "setup_ms": None if closed.setup_s is None else closed.setup_s * 1000,
            "bytes": closed.bytes,
            "messages": closed.messages,
            "all_bytes": closed.all_bytes,
        },
        "no_closed_form": prediction.not_closed,
    }


def _build_link(link: LinkModel) -> dict[str, Any]:
    values = asdict(link)
    return {"scenario": values.pop("name"), **values}


def build_rows(predictions: Sequence[Prediction]) -> Iterator[dict[str, Any]]:
    """Yield a row for each prediction."""
    for prediction in predictions:
        document = _build_prediction(prediction)
        exact = document["closed_form"] or {}
        burst = prediction.link.burst
        link = {
            name: _convert_boolean(value)
            for name, value in document["link"].items()
            if name not in ("burst", "scenario")
        }
        yield {
            "capture": document["capture"],
            "handshake": document["handshake"],
            "scenario": prediction.link.name,
            **link,
            "burst_mean": burst and burst.mean,
            "burst_unit": burst and ("frames" if burst.of_frames else "ms"),
            "burst_loss": burst and burst.loss,
            "transport": document["transport"],
            "policy": prediction.transmission.policy.name,
            **{name: _convert_boolean(document[name]) for name in _ROW_SETTINGS},
            **{f"{name}_once": value for name, value in document["once"].items()},
            "largest_message_bytes": prediction.flow.largest_message_bytes,
            **dict(zip(("failure", "failure_low", "failure_high"), prediction.failure, strict=True)),
            **{f"{name}_{value}": (document[name] or {}).get(value) for name in _DISTRIBUTIONS for value in _VALUES},
            **{f"within_{budget.ms:g}_ms": budget.share for budget in prediction.budgets},
            "attempts_mean": prediction.attempts,
            "all_bytes_mean": prediction.all_bytes,
            "closed_failure": exact.get("failure_probability"),
            **{f"closed_{name}": exact.get(name) for name in ("setup_ms", "bytes", "messages")},
        }


def _convert_boolean(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
