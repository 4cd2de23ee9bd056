"""The JSON document of a replay, schema "ikeanalyze.replay/1", described in docs/replay.md."""

from collections import Counter
from typing import Any, Final

from ikeanalyze.render.core.json import select_attributes
from ikeanalyze.render.core.values import convert_to_ms, format_iso_time
from ikeanalyze.render.replay.text import describe_outcome, get_round_trip_ns, get_setup_ns
from ikeanalyze.replay.initiator.interface import ExchangeStats, InitiatorResult
from ikeanalyze.replay.responses import ResponseSummary
from ikeanalyze.replay.session.result import (
    ExchangeCost,
    FuzzReport,
    LivenessCheck,
    ReplayComparison,
    ReplayReport,
    ReplayRun,
    ReportFigures,
)
from ikeanalyze.replay.session.verbatim import ReceivedResponse, ReplayedMessage
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import ExchangeType

SCHEMA: Final = "ikeanalyze.replay/1"


def build_document(replayed: ReplayReport) -> dict[str, Any]:
    """Return the document."""
    compared = {comparison.run: comparison for comparison in replayed.compared}
    return {
        "schema": SCHEMA,
        **select_attributes(replayed, "mode", "capture", "handshake", "target", "way"),
        "local": select_attributes(replayed.local, "address", "port", "nat_port"),
        "rate": replayed.rate,
        "start_time": format_iso_time(replayed.began_ns),
        "end_time": format_iso_time(replayed.ended_ns),
        "policy": replayed.policy,
        "faults": list(replayed.faults),
        **select_attributes(replayed, "seed", "interrupted"),
        "notes": list(replayed.notes),
        **select_attributes(replayed, "recording", "keys", "report"),
        "datagrams": select_attributes(
            replayed.counts, "sent", "received", "stray", "stray_from", "not_ike", "refused", "refusal"
        ),
        "runs": [_build_run(run, compared.get(run.number)) for run in replayed.runs],
        "mutated": None if replayed.mutated is None else _build_fuzzing(replayed.mutated),
    }


def _build_run(run: ReplayRun, compared: ReplayComparison | None) -> dict[str, Any]:
    traffic = run.traffic
    return {
        "number": run.number,
        "outcome": describe_outcome(run),
        "broken_off": run.broken_off,
        "spi_i": None if run.spi_i is None else run.spi_i.hex(),
        "sent": {"datagrams": traffic.sent, "bytes": traffic.sent_bytes},
        "received": {"datagrams": traffic.received, "bytes": traffic.received_bytes},
        "blowup": traffic.blowup,
        "report_blowup": None if run.reported is None else run.reported.blowup,
        "seed": run.seed,
        "faults_met": _count_by_kind(run.met),
        "faults_met_by_name": dict(sorted(run.met.items())),
        "handshake": None if run.result is None else _build_result(run, run.result),
        "messages": None if run.verbatim is None else [_build_sent_message(message) for message in run.verbatim.sent],
        **{name: getattr(run.verbatim, name, None) for name in ("unasked", "garbage", "left_out")},
        "compared": None if compared is None else _build_comparison(compared),
    }


def _count_by_kind(met: Counter[str]) -> dict[str, int]:
    """Counts by the first word of the fault, such as drop or delay."""
    kinds: Counter[str] = Counter()
    for name, value in met.items():
        kinds[name.partition(" ")[0]] += value
    return dict(sorted(kinds.items()))


def _build_result(run: ReplayRun, result: InitiatorResult) -> dict[str, Any]:
    return {
        **select_attributes(result, "established", "reason", "child_error", "deleted"),
        "spi_i": result.spi_i.hex(),
        "spi_r": result.spi_r.hex(),
        "proposal": result.chosen,
        "auth": {"initiator": result.authentication[0], "responder": result.authentication[1]},
        "setup_ms": convert_to_ms(get_setup_ns(run)),
        "exchanges": [_build_exchange(exchange, run.reported) for exchange in result.exchanges],
        "ignored": select_attributes(result.ignored, "repeated", "foreign", "garbage", "unprotected", "unexpected"),
    }


def _build_exchange(exchange: ExchangeStats, reported: ReportFigures | None) -> dict[str, Any]:
    return {
        "type": get_name(ExchangeType, exchange.exchange_type),
        **select_attributes(exchange, "message_id", "attempt", "transmissions"),
        "sent": {"datagrams": exchange.datagrams_sent, "bytes": exchange.bytes_sent},
        "received": {"datagrams": exchange.datagrams_received, "bytes": exchange.bytes_received},
        "rtt_ms": convert_to_ms(get_round_trip_ns(exchange, reported)),
        "answer": exchange.answer,
    }


def _build_sent_message(message: ReplayedMessage) -> dict[str, Any]:
    return {
        "type": get_name(ExchangeType, message.exchange_type),
        **select_attributes(message, "message_id", "response", "transmissions", "datagrams", "bytes"),
        "new": list(message.changed),
        "recorded": None if message.recorded is None else _build_answer(message.recorded),
        "answers": [_build_response(arrived) for arrived in message.answers],
        "more_answers": message.more_answers,
    }


def _build_response(arrived: ReceivedResponse) -> dict[str, Any]:
    return {
        **_build_answer(arrived.answer),
        "rtt_ms": convert_to_ms(arrived.round_trip_ns),
        "differs": list(arrived.differs),
    }


def _build_answer(answer: ResponseSummary) -> dict[str, Any]:
    return {
        "type": answer.exchange,
        **select_attributes(answer, "kind", "proposal", "key_exchange"),
        "notifies": list(answer.notifies),
        "payloads": list(answer.payloads),
        **select_attributes(answer, "fragments", "bytes"),
    }


def _build_fuzzing(mutated: FuzzReport) -> dict[str, Any]:
    barrage = mutated.barrage
    return {
        **select_attributes(mutated, "up", "seed", "broken_off"),
        "before": _build_check(mutated.before),
        "after": None if mutated.after is None else _build_check(mutated.after),
        "sent": 0 if barrage is None else barrage.sent,
        "errors": {} if barrage is None else dict(sorted(barrage.errors.items())),
        "answered": {} if barrage is None else dict(sorted(barrage.answered.items())),
        "garbage": 0 if barrage is None else barrage.garbage,
    }


def _build_check(check: LivenessCheck) -> dict[str, Any]:
    return {
        "attempts": check.attempts,
        "seconds": round(check.seconds, 3),
        "answer": None if check.answer is None else _build_response(check.answer),
    }


def _build_comparison(compared: ReplayComparison) -> dict[str, Any]:
    def side(cost: ExchangeCost | None) -> dict[str, Any] | None:
        if cost is None:
            return None
        sizes = select_attributes(cost, "messages", "bytes")
        return {**sizes, "ms": convert_to_ms(cost.rtt_ns), "answered": cost.answered}

    return {
        "exchanges": [
            {
                "type": row.exchange,
                **select_attributes(row, "message_id", "attempt"),
                "recorded": side(row.recorded),
                "live": side(row.live),
            }
            for row in compared.rows
        ],
        **{
            name: dict(zip(("recorded", "live"), pair, strict=True))
            for name, pair in (
                ("together", map(side, compared.together)),
                ("outcome", compared.outcomes),
                ("proposal", compared.proposals),
                ("blowup", compared.blowups),
            )
        },
    }
