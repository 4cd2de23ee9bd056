"""Predictions: for people in a terminal and as Markdown; `prediction_document` has what is for programs.

What all predictions have in common stands once, above; what they differ in makes the first columns of their table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ikeanalyze.model.prediction.flow import HandshakeFlow
from ikeanalyze.model.prediction.link import IkeTransport, LinkModel, ResponseTrigger
from ikeanalyze.model.prediction.predict import Distribution, Prediction
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy
from ikeanalyze.render.core.section import FEW, KeyValueSection, Section, TableSection
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import (
    UNKNOWN,
    format_count,
    format_duration,
    format_input_name,
    format_ms,
    strip_common_folder,
)

#: Fields of a distribution that people see.
QUANTILES: Final = ("mean", "median", "p95", "p99")

_METRICS: Final = (("set-up ms", "setup_ms"), ("bytes", "bytes"), ("messages", "messages"), ("frames", "frames"))
Settings = Mapping[str, str]

_SUCCEEDED: Final = "distributions are of the handshakes that succeed"
_CONTAINED: Final = "contains the path's own time, as it is not known on which side the capture was taken"


def render_sections(predictions: Sequence[Prediction], *, every: bool) -> Iterator[Section]:
    """What was recorded, what is assumed, and what follows."""
    flows = {(prediction.flow.capture, prediction.flow.handshake): prediction.flow for prediction in predictions}
    for flow in flows.values():
        yield KeyValueSection(format_input_name(flow.capture), _recorded(flow), level=1)
    first = predictions[0]
    settings = describe_settings(predictions)
    varying = find_varied_settings(settings)
    facts = [
        (name, text) for name, text in settings[0].items() if text != UNKNOWN and name not in ("capture", *varying)
    ]
    if "policy" not in varying:
        facts.append(("timers", _timers(first.use.policy)))
    facts.append(("runs", f"{first.runs:,}, with seed {first.seed}"))
    yield KeyValueSection("Assumed", facts)
    if len(predictions) == 1:
        yield from _one(first)
    else:
        yield _many(predictions, settings, varying, every=every)


def _recorded(flow: HandshakeFlow) -> list[tuple[str, str]]:
    handshake = f"{flow.handshake}, {flow.protocol}"
    if flow.others:
        handshake += (
            f"; {format_count(flow.others, 'other')} of this capture {'is' if flow.others == 1 else 'are'} whole too"
        )
    trips = sum(exchange.aaa_round_trips for exchange in flow.exchanges)
    aaa = sum(exchange.aaa_ns for exchange in flow.exchanges)
    facts = [
        ("handshake", handshake),
        ("each message once", f"{format_count(flow.messages, 'message')}, {format_count(flow.bytes, 'byte')}"),
        ("set-up recorded", f"{format_ms(flow.setup_ns)} ms"),
        ("initiator took", _computation(flow.computation_ns("initiator"))),
        ("responder took", _computation(flow.computation_ns("responder"))),
    ]
    if trips:
        facts.append(("AAA", f"{format_ms(aaa)} ms in {format_count(trips, 'round trip')}"))
    match flow.path:
        case None:
            facts.append(("computation", _CONTAINED))
        case "manifest":
            path = f"over a path of {format_ms(flow.path_rtt_ns)} ms" if flow.path_rtt_ns else "without a path's delay"
            facts.append(("recorded", f"at the responder {path}: the lab's manifest says so"))
        case "estimated":
            facts.append(
                (
                    "computation",
                    f"is what a path of {format_ms(flow.path_rtt_ns)} ms leaves, the shortest time seen, an estimate",
                )
            )
    if flow.unknown:
        facts.append(("not known", f"{', '.join(flow.unknown)}: counts as no time, so set-up takes longer than below"))
    return facts


def _computation(ns: int | None) -> str:
    return UNKNOWN if ns is None else f"{format_ms(ns)} ms"


def _one(prediction: Prediction) -> Iterator[Section]:
    once = prediction.once
    closed = prediction.closed
    facts = [
        (
            "without loss",
            ", ".join(format_count(n, unit) for n, unit in zip(once, ("message", "frame", "byte"), strict=True)),
        ),
        ("fails", _failure(prediction)),
        ("bytes, failed ones too", f"{prediction.all_bytes:,.0f} on average"),
    ]
    if prediction.not_closed is not None:
        facts.append(("no closed form", prediction.not_closed))
    yield KeyValueSection("Predicted", facts)
    if prediction.setup_ms is None:
        return
    exact: Mapping[str, float | None] = (
        {}
        if closed is None
        else {
            "setup_ms": None if closed.setup_s is None else closed.setup_s * 1000,
            "bytes": closed.bytes,
            "messages": closed.messages,
        }
    )
    columns = [TableColumn(""), *number_columns(*QUANTILES, "greatest")]
    if closed is not None:
        columns.insert(2, TableColumn("in closed form", right=True))
    rows = []
    for name, field in _METRICS:
        values: Distribution | None = getattr(prediction, field)
        row = [name, *(_of(values, name) for name in (*QUANTILES, "greatest"))]
        if closed is not None:
            row.insert(2, format_value(exact.get(field)))
        rows.append(row)
    yield TableSection("Distribution", columns, rows, notes=[_SUCCEEDED])


def _failure(prediction: Prediction) -> str:
    share, low, high = prediction.failure
    text = f"{_percent(share)} % ({_percent(low)} to {_percent(high)} %)"
    if prediction.closed is not None:
        text += f", in closed form {_percent(1 - prediction.closed.success)} %"
    where = ", ".join(f"{number:,} in {name}" for name, number in prediction.failed_in.items())
    return f"{text}; {where}" if where else text


def _many(
    predictions: Sequence[Prediction], settings: Sequence[Settings], varying: Sequence[str], *, every: bool
) -> TableSection:
    columns = [
        *(TableColumn(name, right=name in _NUMERIC, narrow=0 if name in _NUMERIC else 24) for name in varying),
        *number_columns("fails %", "set-up ms"),
        *(TableColumn(name, right=True, optional=level) for name, level in (("median", 2), ("p95", 1), ("p99", 3))),
        TableColumn("bytes", right=True),
        TableColumn("p95 bytes", right=True, optional=4),
        TableColumn("messages", right=True, optional=5),
    ]
    rows = []
    shown = predictions if every else predictions[:FEW]
    for prediction, setting in zip(shown, settings, strict=False):
        setup, size, messages = prediction.setup_ms, prediction.bytes, prediction.messages
        rows.append(
            [
                *(setting[name] for name in varying),
                _percent(prediction.failure[0]),
                *(_of(setup, name) for name in QUANTILES),
                _of(size, "mean"),
                _of(size, "p95"),
                _of(messages, "mean"),
            ]
        )
    notes = ["set-up, bytes and messages: means, unless it says otherwise", _SUCCEEDED]
    return TableSection("Predicted", columns, rows, more=len(predictions) - len(shown), notes=notes)


def describe_settings(predictions: Sequence[Prediction]) -> list[Settings]:
    """What each prediction was made for, by the names of its settings; captures without the folders they have in common."""
    names = strip_common_folder(list(dict.fromkeys(prediction.flow.capture for prediction in predictions)))
    return [
        {
            "capture": format_input_name(names[prediction.flow.capture]),
            **{name: show(prediction) for name, show in _SETTINGS.items()},
        }
        for prediction in predictions
    ]


def find_varied_settings(settings: Sequence[Settings]) -> list[str]:
    """Names of the settings that differ, in order; the capture, if none does."""
    return [name for name in settings[0] if len({setting[name] for setting in settings}) > 1] or ["capture"]


def format_settings(settings: Settings, names: Sequence[str]) -> str:
    """These settings in one line."""
    return ", ".join(f"{name} {settings[name]}" if name in _NUMERIC else settings[name] for name in names)


def _rates(link: LinkModel) -> str:
    if link.rate_up == link.rate_down:
        return UNKNOWN if link.rate_up is None else _rate(link.rate_up)
    up, down = (("any" if rate is None else _rate(rate)) for rate in (link.rate_up, link.rate_down))
    return f"{up} up, {down} down"


def _rate(rate: float) -> str:
    size, prefix = next((scale for scale in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if rate >= scale[0]), (1, ""))
    return f"{rate / size:g} {prefix}bit/s"


def _burst(prediction: Prediction) -> str:
    burst = prediction.link.burst
    if burst is None:
        return UNKNOWN
    within = "" if burst.loss == 1 else f", {100 * burst.loss:g} % lost within"
    return f"{burst.mean:g} {'frames' if burst.of_frames else 'ms'}{within}"


def _fragments(prediction: Prediction) -> str:
    size = prediction.use.fragment_size
    if prediction.use.transport is IkeTransport.TCP:
        return "by TCP"
    if size is None:
        return "as recorded" if prediction.link.mtu is None else "as recorded, or as the MTU needs"
    return f"by IKE, {size:,} bytes" if size else "by IP"


def _timers(policy: RetransmissionPolicy) -> str:
    waits = ", ".join(f"{wait:.3g}" for wait in policy.waits)
    jitter = f", up to {100 * policy.jitter:g} % shorter at random" if policy.jitter else ""
    end = format_duration(round(sum(policy.waits) * 1e9))
    return f"{waits} s{jitter}: {format_count(policy.tries, 'retransmission')}, and gives up after {end}"


_REPEATS: Final = {ResponseTrigger.FIRST: "fragment 1", ResponseTrigger.ALL: "all fragments"}
#: What a prediction is made for besides its capture, by name.
_SETTINGS: Final[Mapping[str, Callable[[Prediction], str]]] = {
    "scenario": lambda one: one.link.name or UNKNOWN,
    "transport": lambda one: one.use.transport.upper() if one.flow.exchanges[0].request.transport else "IP",
    "policy": lambda one: one.use.policy.name,
    "fragments": _fragments,
    "RTT ms": lambda one: f"{one.link.rtt_ms:g}",
    "jitter ms": lambda one: f"{one.link.jitter_ms:g}" if one.link.jitter_ms else UNKNOWN,
    "loss %": lambda one: f"{100 * one.link.loss:g}",
    "bursts": _burst,
    "rate": lambda one: _rates(one.link),
    "MTU": lambda one: UNKNOWN if one.link.mtu is None else f"{one.link.mtu:g}",
    "AAA RTT ms": lambda one: f"{one.link.aaa_rtt_ms:g}" if one.link.aaa_rtt_ms else UNKNOWN,
    "IP fragments": lambda one: "dropped" if one.link.drop_ip_fragments else UNKNOWN,
    "answered again": lambda one: (
        f"when {_REPEATS[one.use.repeats]} of a repeated request arrived"
        if one.use.transport is IkeTransport.UDP
        else UNKNOWN
    ),
}
_NUMERIC: Final = ("RTT ms", "jitter ms", "loss %", "MTU", "AAA RTT ms")


def format_value(value: float | None) -> str:
    """A number to the digits that a simulation gives: none behind the point of large ones."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}"


def _of(distribution: Distribution | None, name: str) -> str:
    return UNKNOWN if distribution is None else format_value(getattr(distribution, name))
