"""The figures of predictions: means against the swept setting, and the distributions of set-up times and bytes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from ikeanalyze.model.prediction.predict import Distribution, Prediction
from ikeanalyze.render.core.figures import charts
from ikeanalyze.render.core.figures.distribution import make_distribution_figures
from ikeanalyze.render.core.figures.files import Figure
from ikeanalyze.render.core.figures.style import Style
from ikeanalyze.render.prediction.text import describe_settings, find_varied_settings, format_settings, format_value

#: Maximum number of lines or distributions, with a colour each.
MAX_COLOURS: Final = 7

#: The settings that can be swept: name, title of the axis, attribute, and factor.
_AXES: Final[Mapping[str, tuple[str, str, float]]] = {
    "loss %": ("loss, %", "link.loss", 100),
    "RTT ms": ("round-trip time, ms", "link.rtt_ms", 1),
    "jitter ms": ("jitter, ms", "link.jitter_ms", 1),
    "MTU": ("MTU, bytes", "link.mtu", 1),
    "AAA RTT ms": ("round-trip time to the AAA server, ms", "link.aaa_rtt_ms", 1),
}
_QUANTITIES: Final = (("setup_ms", "set-up time", "ms"), ("bytes", "bytes", ""))
#: Normal quantile of a 95 % interval.
_Z: Final = 1.96
#: Largest part of an interval below its mean on a logarithmic axis.
_LARGEST_FACTOR: Final = 10

Rows = list[dict[str, Any]]


def make_figures(predictions: Sequence[Prediction], *, log_y: bool = False) -> Iterator[Figure]:
    """Yield the figures for which `predictions` have data.

    `log_y`: the axis of set-up time and bytes is logarithmic in figures over a swept setting.
    """
    settings = describe_settings(predictions)
    varying = find_varied_settings(settings)
    axis = next((name for name in _AXES if name in varying), None)
    if axis is not None:
        others = [name for name in varying if name != axis]
        lines = [format_settings(setting, others) or "all" for setting in settings]
        yield from _make_curve_figures(predictions, axis, lines, log_y=log_y)
    for field, label, unit in _QUANTITIES:
        samples = {
            format_settings(setting, varying): prediction.samples[field].tolist()
            for prediction, setting in zip(predictions, settings, strict=True)
            if prediction.samples
        }
        yield from make_distribution_figures(
            samples, name=f"{field}-predicted", quantity=label, unit=unit, population="simulated runs"
        )


def _make_curve_figures(
    predictions: Sequence[Prediction], axis: str, groups: Sequence[str], *, log_y: bool
) -> Iterator[Figure]:
    """Means and failures against the swept setting. `groups` has the line of each prediction."""
    title, path, factor = _AXES[axis]
    positions = [attrgetter(path)(prediction) for prediction in predictions]
    lines = list(dict.fromkeys(groups))
    if len(lines) > MAX_COLOURS or None in positions:
        return
    against = path.removeprefix("link.")

    def row(i: int, values: tuple[float, float, float], unit: str) -> dict[str, Any]:
        x, (y, low, high) = factor * positions[i], values
        text = f"{groups[i]}, {axis} {x:g}: {format_value(y)} {unit}".rstrip()
        return {"group": groups[i], "x": x, "y": y, "low": low, "high": high, "said": text}

    for field, label, unit in _QUANTITIES:
        rows = []
        for i, prediction in enumerate(predictions):
            distribution: Distribution | None = getattr(prediction, field)
            if distribution is not None:
                margin = _Z * distribution.mean_error
                mean, low = distribution.mean, distribution.mean - margin
                # a logarithmic axis has no place for the end of an interval that includes 0
                low = max(low, mean / _LARGEST_FACTOR) if log_y else low
                rows.append(row(i, (mean, low, mean + margin), unit))
        if rows:
            yield Figure(
                f"{field}-against-{against}",
                f"{label[:1].upper()}{label[1:]} against {title.split(',')[0]}",
                f"Mean of those of {predictions[0].runs:,} simulated handshakes that succeed, with its 95 % interval.",
                _make_drawing(rows, lines, title, f"{label}, {unit}" if unit else label, log=log_y),
            )
    if any(prediction.failures for prediction in predictions):
        rows = []
        for i, prediction in enumerate(predictions):
            share, low, high = prediction.failure
            rows.append(row(i, (100 * share, 100 * low, 100 * high), "%"))
        yield Figure(
            f"failures-against-{against}",
            f"Failures against {title.split(',')[0]}",
            f"Share of {predictions[0].runs:,} simulated handshakes, with its 95 % interval (Wilson).",
            _make_drawing(rows, lines, title, "failures, %"),
        )


def _make_drawing(
    rows: Rows, groups: Sequence[str], x_title: str, y_title: str, *, log: bool = False
) -> Callable[[Style], str]:
    return lambda style: charts.draw_points(rows, style, groups=groups, x_title=x_title, y_title=y_title, log=log)
