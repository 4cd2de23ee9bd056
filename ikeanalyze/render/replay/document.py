"""A replay for programs: the JSON document of schema "ikeanalyze.replay/1", described in docs/replay.md."""

from collections import Counter
from typing import Any, Final

from ikeanalyze.render.core.values import format_iso_time
from ikeanalyze.render.replay.words import describe_outcome, get_round_trip_ns, get_setup_ns
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
    """The document of schema "ikeanalyze.replay/1"."""
    local, counts = replayed.local, replayed.counts
    compared = {comparison.run: comparison for comparison in replayed.compared}
    return {
        "schema": SCHEMA,
        "mode": replayed.mode,
        "capture": replayed.capture,
        "handshake": replayed.handshake,
        "target": replayed.target,
        "way": replayed.way,
        "local": {"address": local.address, "port": local.port, "nat_port": local.nat_port},
        "rate": replayed.rate,
        "start_time": format_iso_time(replayed.began_ns),
        "end_time": format_iso_time(replayed.ended_ns),
        "policy": replayed.policy,
        "faults": list(replayed.faults),
        "seed": replayed.seed,
        "interrupted": replayed.interrupted,
        "notes": list(replayed.notes),
        "recording": replayed.recording,
        "keys": replayed.keys,
        "report": replayed.report,
        "datagrams": {
            "sent": counts.sent,
            "received": counts.received,
            "stray": counts.stray,
            "stray_from": counts.stray_from,
            "not_ike": counts.not_ike,
            "refused": counts.refused,
            "refusal": counts.refusal,
        },
        "runs": [_json_run(run, compared.get(run.number)) for run in replayed.runs],
        "mutated": None if replayed.mutated is None else _json_mutated(replayed.mutated),
    }


def _json_run(run: ReplayRun, compared: ReplayComparison | None) -> dict[str, Any]:
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
        "faults_met": _by_kind(run.met),
        "faults_met_by_name": dict(sorted(run.met.items())),
        "handshake": None if run.result is None else _json_result(run, run.result),
        "messages": None if run.verbatim is None else [_json_sent(message) for message in run.verbatim.sent],
        "unasked": None if run.verbatim is None else run.verbatim.unasked,
        "garbage": None if run.verbatim is None else run.verbatim.garbage,
        "left_out": None if run.verbatim is None else run.verbatim.left_out,
        "compared": None if compared is None else _json_compared(compared),
    }


def _by_kind(met: Counter[str]) -> dict[str, int]:
    """Drop, delay..., the first word of a fault's name."""
    kinds: Counter[str] = Counter()
    for name, value in met.items():
        kinds[name.partition(" ")[0]] += value
    return dict(sorted(kinds.items()))


def _json_result(run: ReplayRun, result: InitiatorResult) -> dict[str, Any]:
    ignored = result.ignored
    return {
        "established": result.established,
        "reason": result.reason,
        "child_error": result.child_error,
        "deleted": result.deleted,
        "spi_i": result.spi_i.hex(),
        "spi_r": result.spi_r.hex(),
        "proposal": result.chosen,
        "auth": {"initiator": result.authentication[0], "responder": result.authentication[1]},
        "setup_ms": _ms(get_setup_ns(run)),
        "exchanges": [_json_exchange(exchange, run.reported) for exchange in result.exchanges],
        "ignored": {
            "repeated": ignored.repeated,
            "foreign": ignored.foreign,
            "garbage": ignored.garbage,
            "unprotected": ignored.unprotected,
            "unexpected": ignored.unexpected,
        },
    }


def _json_exchange(exchange: ExchangeStats, reported: ReportFigures | None) -> dict[str, Any]:
    return {
        "type": get_name(ExchangeType, exchange.exchange_type),
        "message_id": exchange.message_id,
        "attempt": exchange.attempt,
        "transmissions": exchange.transmissions,
        "sent": {"datagrams": exchange.datagrams_sent, "bytes": exchange.bytes_sent},
        "received": {"datagrams": exchange.datagrams_received, "bytes": exchange.bytes_received},
        "rtt_ms": _ms(get_round_trip_ns(exchange, reported)),
        "answer": exchange.answer,
    }


def _json_sent(message: ReplayedMessage) -> dict[str, Any]:
    return {
        "type": get_name(ExchangeType, message.exchange_type),
        "message_id": message.message_id,
        "response": message.response,
        "transmissions": message.transmissions,
        "datagrams": message.datagrams,
        "bytes": message.bytes,
        "new": list(message.changed),
        "recorded": None if message.recorded is None else _json_answer(message.recorded),
        "answers": [_json_arrived(arrived) for arrived in message.answers],
        "more_answers": message.more_answers,
    }


def _json_arrived(arrived: ReceivedResponse) -> dict[str, Any]:
    return {**_json_answer(arrived.answer), "rtt_ms": _ms(arrived.round_trip_ns), "differs": list(arrived.differs)}


def _json_answer(answer: ResponseSummary) -> dict[str, Any]:
    return {
        "type": answer.exchange,
        "kind": answer.kind,
        "proposal": answer.proposal,
        "key_exchange": answer.key_exchange,
        "notifies": list(answer.notifies),
        "payloads": list(answer.payloads),
        "fragments": answer.fragments,
        "bytes": answer.bytes,
    }


def _json_mutated(mutated: FuzzReport) -> dict[str, Any]:
    barrage = mutated.barrage
    return {
        "up": mutated.up,
        "seed": mutated.seed,
        "broken_off": mutated.broken_off,
        "before": _json_check(mutated.before),
        "after": None if mutated.after is None else _json_check(mutated.after),
        "sent": 0 if barrage is None else barrage.sent,
        "errors": {} if barrage is None else dict(sorted(barrage.errors.items())),
        "answered": {} if barrage is None else dict(sorted(barrage.answered.items())),
        "garbage": 0 if barrage is None else barrage.garbage,
    }


def _json_check(check: LivenessCheck) -> dict[str, Any]:
    return {
        "attempts": check.attempts,
        "seconds": round(check.seconds, 3),
        "answer": None if check.answer is None else _json_arrived(check.answer),
    }


def _json_compared(compared: ReplayComparison) -> dict[str, Any]:
    def side(cost: ExchangeCost | None) -> dict[str, Any] | None:
        if cost is None:
            return None
        return {"messages": cost.messages, "bytes": cost.bytes, "ms": _ms(cost.rtt_ns), "answered": cost.answered}

    return {
        "exchanges": [
            {
                "type": row.exchange,
                "message_id": row.message_id,
                "attempt": row.attempt,
                "recorded": side(row.recorded),
                "live": side(row.live),
            }
            for row in compared.rows
        ],
        **{
            name: {"recorded": recorded, "live": live}
            for name, (recorded, live) in (
                ("together", (side(compared.together[0]), side(compared.together[1]))),
                ("outcome", compared.outcomes),
                ("proposal", compared.proposals),
                ("blowup", compared.blowups),
            )
        },
    }


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e6
