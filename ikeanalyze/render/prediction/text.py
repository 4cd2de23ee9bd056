"""The sections of predictions in text formats.

The settings that all predictions have in common come first; the settings that differ are the first columns of the
table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from ikeanalyze.model.prediction.flow import HandshakeFlow, Side
from ikeanalyze.model.prediction.link import IkeTransport, LinkModel, ResponseTrigger
from ikeanalyze.model.prediction.plausibility import PredictionWarning, find_warnings
from ikeanalyze.model.prediction.predict import MAX_ATTEMPTS, Distribution, Prediction
from ikeanalyze.model.prediction.processing_times import Computation
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy
from ikeanalyze.render.core.section import FEW, Columns, KeyValueSection, Section, TableSection, tabulate
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import (
    UNKNOWN,
    format_count,
    format_duration,
    format_input_name,
    format_ms,
    strip_common_folder,
)

#: Fields of a distribution in text formats.
QUANTILES: Final = ("mean", "median", "p95", "p99")

_METRICS: Final = (("set-up ms", "setup_ms"), ("bytes", "bytes"), ("messages", "messages"), ("frames", "frames"))
Settings = Mapping[str, str]

_SIDES: Final[tuple[Side, ...]] = ("initiator", "responder")
_SUCCEEDED: Final = "distributions cover only the handshakes that succeed"
_CONTAINED: Final = "includes the delay of the path, because the capture point is not known"


def render_sections(predictions: Sequence[Prediction], *, every: bool) -> Iterator[Section]:
    """The recorded handshakes, the assumptions, and the predictions."""
    flows = {(prediction.flow.capture, prediction.flow.handshake): prediction.flow for prediction in predictions}
    for flow in flows.values():
        yield KeyValueSection(format_input_name(flow.capture), _render_recorded_handshake(flow), level=1)
    first = predictions[0]
    settings = describe_settings(predictions)
    varying = find_varied_settings(settings)
    facts = [
        (name, text) for name, text in settings[0].items() if text != UNKNOWN and name not in ("capture", *varying)
    ]
    if "policy" not in varying:
        facts.append(("timers", _describe_timers(first.transmission.policy)))
    if first.transmission.until_established:
        facts.append(("failures", f"attempted again at once, up to {MAX_ATTEMPTS} attempts, which add up"))
    facts.append(("computation", _describe_computation(predictions)))
    facts.append(("runs", f"{first.runs:,}, with seed {first.seed}"))
    yield KeyValueSection("Assumed", facts)
    if len(predictions) == 1:
        yield from _render_prediction(first)
    else:
        yield _render_table(predictions, settings, varying, every=every)


def render_warnings(predictions: Sequence[Prediction]) -> TableSection | None:
    """The warnings; None without any."""
    warnings = find_warnings(predictions)
    columns: Columns[PredictionWarning] = [
        (TableColumn("capture", narrow=24), lambda warning: format_input_name(warning.capture)),
        (TableColumn("warning"), lambda warning: warning.message),
    ]
    return tabulate("Warnings", warnings, columns) if warnings else None


def render_with_warnings(predictions: Sequence[Prediction], *, every: bool) -> Iterator[Section]:
    """`render_sections` and the warnings, for formats that are read apart from standard error."""
    yield from render_sections(predictions, every=every)
    if warnings := render_warnings(predictions):
        yield warnings


def _describe_computation(predictions: Sequence[Prediction]) -> str:
    counts = sorted({prediction.handshakes for prediction in predictions})
    handshakes = format_count(counts[0], "handshake")
    if len(counts) > 1:
        handshakes = f"{counts[0]:,} to {format_count(counts[-1], 'handshake')}"
    match predictions[0].computation:
        case Computation.SAMPLE if counts == [1]:
            return "those of the one comparable handshake, in all runs"
        case Computation.SAMPLE:
            return f"of each run those of one of {handshakes}, at random"
        case Computation.MEDIAN:
            return f"medians of {handshakes}, in all runs"
        case Computation.ONE:
            return "those of the handshake above, in all runs"


def _render_recorded_handshake(flow: HandshakeFlow) -> list[tuple[str, str]]:
    handshake = f"{flow.handshake}, {flow.protocol}"
    if flow.others:
        verb = "is" if flow.others == 1 else "are"
        handshake += f"; {format_count(flow.others, 'other')} of this capture {verb} complete too"
    trips = sum(exchange.aaa_round_trips for exchange in flow.exchanges)
    aaa = sum(exchange.aaa_ns for exchange in flow.exchanges)
    facts = [
        ("handshake", handshake),
        *([("changed", "; ".join(flow.changes))] if flow.changes else []),
        ("each message once", f"{format_count(flow.messages, 'message')}, {format_count(flow.bytes, 'byte')}"),
        ("set-up recorded", f"{format_ms(flow.setup_ns)} ms"),
        *((f"{side} took", _format_processing_time(flow, side)) for side in _SIDES),
    ]
    if trips:
        facts.append(("AAA", f"{format_ms(aaa)} ms in {format_count(trips, 'round trip')}"))
    match flow.path:
        case None:
            facts.append(("computation", _CONTAINED))
        case "manifest":
            path = f"over a path of {format_ms(flow.path_rtt_ns)} ms" if flow.path_rtt_ns else "without a path's delay"
            facts.append(("recorded", f"{path}: the lab's manifest says so"))
        case "estimated":
            path = f"a path of {format_ms(flow.path_rtt_ns)} ms"
            facts.append(("computation", f"is what {path} leaves, the shortest time seen, an estimate"))
    if flow.unknown:
        facts.append(("not known", f"{', '.join(flow.unknown)}: counts as no time, so set-up takes longer than below"))
    return facts


def _format_processing_time(flow: HandshakeFlow, side: Side) -> str:
    """The processing time of a side, or its median and range in several handshakes."""
    times = flow.list_computations_ns(side)
    if len(flow.comparable) == 1 or not times:
        ns = flow.computation_ns(side)
        return UNKNOWN if ns is None else f"{format_ms(ns)} ms"
    middle, least, greatest = (format_ms(round(ns)) for ns in (median(times), min(times), max(times)))
    return f"{middle} ms: median of {format_count(len(times), 'handshake')}, {least} to {greatest} ms"


def _render_prediction(prediction: Prediction) -> Iterator[Section]:
    closed = prediction.closed
    once = map(format_count, prediction.once, ("message", "frame", "byte"))
    facts = [
        ("without loss", ", ".join(once)),
        ("fails", _format_failure(prediction)),
        ("bytes, failed ones too", f"{prediction.all_bytes:,.0f} on average"),
    ]
    if prediction.transmission.until_established:
        facts.append(("attempts", f"{format_value(prediction.attempts)} on average"))
    facts += [
        (
            f"within {budget.ms:g} ms",
            f"{_format_percent(budget.share)} % ({_format_percent(budget.low)} to {_format_percent(budget.high)} %)",
        )
        for budget in prediction.budgets
    ]
    if prediction.not_closed is not None:
        facts.append(("no closed form", prediction.not_closed))
    yield KeyValueSection("Predicted", facts)
    if prediction.setup_ms is None:
        return
    exact: dict[str, float | None] = {}
    if closed is not None:
        setup_ms = None if closed.setup_s is None else closed.setup_s * 1000
        exact = {"setup_ms": setup_ms, "bytes": closed.bytes, "messages": closed.messages}
    columns = [TableColumn(""), *number_columns(*QUANTILES, "greatest")]
    if closed is not None:
        columns.insert(2, TableColumn("in closed form", right=True))
    rows = []
    for name, field in _METRICS:
        values: Distribution | None = getattr(prediction, field)
        row = [name, *(_format_quantity(values, name) for name in (*QUANTILES, "greatest"))]
        if closed is not None:
            row.insert(2, format_value(exact.get(field)))
        rows.append(row)
    yield TableSection("Distribution", columns, rows, notes=[_SUCCEEDED])


def _format_failure(prediction: Prediction) -> str:
    share, low, high = prediction.failure
    text = f"{_format_percent(share)} % ({_format_percent(low)} to {_format_percent(high)} %)"
    if prediction.closed is not None:
        text += f", in closed form {_format_percent(1 - prediction.closed.success)} %"
    where = ", ".join(f"{number:,} in {name}" for name, number in prediction.failed_in.items())
    return f"{text}; {where}" if where else text


def _render_table(
    predictions: Sequence[Prediction], settings: Sequence[Settings], varying: Sequence[str], *, every: bool
) -> TableSection:
    columns = [
        *(TableColumn(name, right=name in _NUMERIC, narrow=0 if name in _NUMERIC else 24) for name in varying),
        *number_columns("fails %", "set-up ms"),
        *(TableColumn("attempts", right=True) for _ in range(predictions[0].transmission.until_established)),
        *(TableColumn(f"% in {budget.ms:g} ms", right=True) for budget in predictions[0].budgets),
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
                _format_percent(prediction.failure[0]),
                _format_quantity(setup, "mean"),
                *(format_value(prediction.attempts) for _ in range(prediction.transmission.until_established)),
                *(_format_percent(budget.share) for budget in prediction.budgets),
                *(_format_quantity(setup, name) for name in QUANTILES[1:]),
                _format_quantity(size, "mean"),
                _format_quantity(size, "p95"),
                _format_quantity(messages, "mean"),
            ]
        )
    notes = ["set-up, bytes and messages: means, unless it says otherwise", _SUCCEEDED]
    return TableSection("Predicted", columns, rows, more=len(predictions) - len(shown), notes=notes)


def describe_settings(predictions: Sequence[Prediction]) -> list[Settings]:
    """Return the settings of each prediction by name; captures without their common folders."""
    names = strip_common_folder(list(dict.fromkeys(prediction.flow.capture for prediction in predictions)))
    return [
        {
            "capture": format_input_name(names[prediction.flow.capture]),
            **{name: show(prediction) for name, show in _SETTINGS.items()},
        }
        for prediction in predictions
    ]


def find_varied_settings(settings: Sequence[Settings]) -> list[str]:
    """Return the names of the settings that differ, in order; the capture if none does."""
    return [name for name in settings[0] if len({setting[name] for setting in settings}) > 1] or ["capture"]


def format_settings(settings: Settings, names: Sequence[str]) -> str:
    """Return these settings on one line."""
    return ", ".join(f"{name} {settings[name]}" if name in _NUMERIC else settings[name] for name in names)


def _describe_rates(link: LinkModel) -> str:
    if link.rate_up == link.rate_down:
        return UNKNOWN if link.rate_up is None else _rate(link.rate_up)
    up, down = (("any" if rate is None else _rate(rate)) for rate in (link.rate_up, link.rate_down))
    return f"{up} up, {down} down"


def _rate(rate: float) -> str:
    size, prefix = next((scale for scale in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if rate >= scale[0]), (1, ""))
    return f"{rate / size:g} {prefix}bit/s"


def _describe_bursts(prediction: Prediction) -> str:
    burst = prediction.link.burst
    if burst is None:
        return UNKNOWN
    within = "" if burst.loss == 1 else f", {100 * burst.loss:g} % lost within"
    return f"{burst.mean:g} {'frames' if burst.of_frames else 'ms'}{within}"


def _describe_fragments(prediction: Prediction) -> str:
    size = prediction.transmission.fragment_size
    if prediction.transmission.transport is IkeTransport.TCP:
        return "by TCP"
    if size is None:
        return "as recorded" if prediction.link.mtu is None else "as recorded, or as the MTU needs"
    return f"by IKE, {size:,} bytes" if size else "by IP"


def _describe_timers(policy: RetransmissionPolicy) -> str:
    waits = ", ".join(f"{wait:.3g}" for wait in policy.waits)
    jitter = f", up to {100 * policy.jitter:g} % shorter at random" if policy.jitter else ""
    end = format_duration(round(sum(policy.waits) * 1e9))
    return f"{waits} s{jitter}: {format_count(policy.tries, 'retransmission')}, and gives up after {end}"


_REPEATS: Final = {ResponseTrigger.FIRST: "fragment 1", ResponseTrigger.ALL: "all fragments"}
#: The settings of a prediction apart from its capture: name and text.
_SETTINGS: Final[Mapping[str, Callable[[Prediction], str]]] = {
    "scenario": lambda prediction: prediction.link.name or UNKNOWN,
    "transport": lambda prediction: (
        prediction.transmission.transport.upper() if prediction.flow.exchanges[0].request.transport else "IP"
    ),
    "policy": lambda prediction: prediction.transmission.policy.name,
    "fragments": _describe_fragments,
    "RTT ms": lambda prediction: f"{prediction.link.rtt_ms:g}",
    "jitter ms": lambda prediction: f"{prediction.link.jitter_ms:g}" if prediction.link.jitter_ms else UNKNOWN,
    "loss %": lambda prediction: f"{100 * prediction.link.loss:g}",
    "bursts": _describe_bursts,
    "rate": lambda prediction: _describe_rates(prediction.link),
    "MTU": lambda prediction: UNKNOWN if prediction.link.mtu is None else f"{prediction.link.mtu:g}",
    "AAA RTT ms": lambda prediction: f"{prediction.link.aaa_rtt_ms:g}" if prediction.link.aaa_rtt_ms else UNKNOWN,
    "IP fragments": lambda prediction: "dropped" if prediction.link.drop_ip_fragments else UNKNOWN,
    "answered again": lambda prediction: (
        f"when {_REPEATS[prediction.transmission.response_trigger]} of a repeated request arrived"
        if prediction.transmission.transport is IkeTransport.UDP
        else UNKNOWN
    ),
}
_NUMERIC: Final = ("RTT ms", "jitter ms", "loss %", "MTU", "AAA RTT ms")


def format_value(value: float | None) -> str:
    """Return a number with four significant digits; from 1,000 on without a fraction."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"


def _format_percent(share: float) -> str:
    return f"{100 * share:.3g}"


def _format_quantity(distribution: Distribution | None, name: str) -> str:
    return UNKNOWN if distribution is None else format_value(getattr(distribution, name))
