"""Compare predictions with live campaigns: python -m benchmarks.prediction.validate REFERENCE FOLDER...

The campaigns are recordings of the lab below the folders; their manifests have link, timers and fragment size. Each one
is predicted from the reference, recordings of the same configuration without loss. The table has a row for
each point and quantity: the number of handshakes that succeeded, their mean with its 95 % interval (Student's t), the
predicted mean, and two p values of the hypothesis that both have one distribution: of the difference of the means, and
of Kolmogorov and Smirnov's distance.

The p values are by Monte Carlo, because the values are discrete, and because the reference is a sample too: daemons
that are started anew are faster or slower by some percent. So the reference consists of several sessions, each a
recording. A replication draws the sessions, and their handshakes, again and predicts from them; against this it
compares as many handshakes as were measured, predicted from one session alone. The lab's relay, which delays frames,
takes time of its own, so campaigns over a delay are predicted from the sessions over one.

Recordings: ikeanalyze lab run benchmarks/prediction/scenarios/NAME.toml -o FOLDER for reference, reference-delay, loss,
delay and fragments, one after the other on a machine that is idle otherwise. --update writes the table into
docs/predict.md.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import stats

import ikeanalyze
from benchmarks.generated_section import replace_section
from ikeanalyze.io.lab_manifest import LabManifest, read_lab_manifest
from ikeanalyze.model.prediction.extract import extract_flow
from ikeanalyze.model.prediction.flow import HandshakeFlow
from ikeanalyze.model.prediction.link import LinkModel, LossBurst
from ikeanalyze.model.prediction.predict import TransmissionConfig, predict_handshake
from ikeanalyze.model.retransmission_policy import StrongswanTimers

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "predict.md"

#: Simulated handshakes of the prediction and of each replication, and replications.
RUNS = 10_000
REPLICATION_RUNS = 4_000
REPLICATIONS = 400

_DIRECTION_KEYS = tuple(
    f"link.{name}"
    for name in (
        "delay_up_ms", "delay_down_ms", "loss_up_percent", "loss_down_percent", "rate_up_kbps", "rate_down_kbps"
    )
)  # fmt: skip

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of handshakes: its title, its key in predictions, and the format of its values."""

    title: str
    key: str
    form: str


QUANTITIES = (
    Quantity("bytes", "bytes", "{:,.0f}"),
    Quantity("messages", "messages", "{:.2f}"),
    Quantity("set-up ms", "setup_ms", "{:,.1f}"),
)


@dataclass(frozen=True, slots=True)
class CampaignPoint:
    """A recording of a campaign."""

    name: str
    link: LinkModel
    transmission: TransmissionConfig
    failures: int
    measured: Mapping[str, Values]  # by key of the quantity, of the handshakes that succeeded. (n,) each


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One quantity at one point."""

    mean: float
    low: float  # 95 % interval of the mean
    high: float
    predicted: float
    mean_p: float
    ks_p: float


def read_point(path: Path) -> CampaignPoint:
    """Read the recording of a campaign, without its warm-ups."""
    manifest = read_lab_manifest(str(path))
    if manifest is None:
        raise SystemExit(f"{path}: no manifest of the lab next to it")
    table = ikeanalyze.read(path).handshakes.filter(~pl.col("rekeyed"), pl.col("warm_up").not_().fill_null(True))
    done = table.filter(
        pl.col("outcome").cast(pl.String).is_in(["established", "completed"])
        & pl.col("initiator_setup_ns").is_not_null()
    )
    sums = {name: done[f"initiator_{name}"] + done[f"responder_{name}"] for name in ("bytes", "messages")}
    measured = {name: values.to_numpy().astype(np.float64) for name, values in sums.items()}
    measured["setup_ms"] = done["initiator_setup_ns"].to_numpy() / 1e6
    link, transmission = make_prediction_settings(manifest)
    return CampaignPoint(describe(manifest), link, transmission, table.height - done.height, measured)


def make_prediction_settings(manifest: LabManifest) -> tuple[LinkModel, TransmissionConfig]:
    """Return link and policy of a scenario between two strongSwan daemons."""
    scenario: Mapping[str, Any] = manifest.scenario
    if not str(scenario["initiator.stack"]).startswith("strongswan"):
        raise SystemExit(f"{manifest.name}: the timers of {scenario['initiator.stack']} are not in the scenario")
    if unsupported := [key for key in _DIRECTION_KEYS if scenario.get(key) is not None]:
        raise SystemExit(f"{manifest.name}: {unsupported[0]}: both directions must have the same conditions")
    mean = scenario.get("link.burst_frames", 0)
    rate = scenario["link.rate_kbps"] * 1000 or None
    link = LinkModel(
        rtt_ms=scenario["link.rtt_ms"],
        loss=scenario["link.loss_percent"] / 100,
        jitter_ms=scenario["link.jitter_ms"],
        rate_up=rate,
        rate_down=rate,
        mtu=scenario["link.mtu"],
        drop_ip_fragments=scenario["link.drop_ip_fragments"],
        burst=LossBurst(mean, True, scenario["link.burst_loss_percent"] / 100) if mean else None,
    )
    timers = StrongswanTimers(
        timeout=scenario["ike.retransmit_timeout_s"],
        base=scenario["ike.retransmit_base"],
        tries=scenario["ike.retransmit_tries"],
    )
    return link, TransmissionConfig(timers.make_policy(), fragment_size=scenario["ike.fragment_size"])


def describe(manifest: LabManifest) -> str:
    """Return the point in words."""
    scenario = manifest.scenario
    parts = [
        f"{scenario['link.loss_percent']:g} %",
        f"RTT {scenario['link.rtt_ms']:g} ms",
        f"fragments {scenario['ike.fragment_size']}",
        f"timer {scenario['ike.retransmit_timeout_s']:g} s",
    ]
    if mean := scenario.get("link.burst_frames"):
        parts.append(f"bursts of {mean:g} frames")
    return ", ".join(parts)


def read_sessions(path: Path) -> list[HandshakeFlow]:
    """Return the flow of each recording of the reference, a folder or a single recording."""
    captures = find_captures([path]) if path.is_dir() else [path]
    return [extract_flow(ikeanalyze.read(capture), str(capture)) for capture in captures]


def find_captures(folders: Sequence[Path]) -> list[Path]:
    """Return the recordings below the folders that were taken at responders."""
    captures = sorted(path for folder in folders for path in folder.rglob("*.pcapng"))
    manifests = {path: read_lab_manifest(str(path)) for path in captures}
    return [path for path, manifest in manifests.items() if manifest and manifest.capture_host == "responder"]


def select_sessions(sessions: Sequence[HandshakeFlow], link: LinkModel) -> list[HandshakeFlow]:
    """Return the sessions over a delay if `link` has one, else those without; all if there are none of them.

    The lab's relay, which delays frames, takes time of its own.
    """
    return [flow for flow in sessions if bool(flow.path_rtt_ns) == bool(link.rtt_ms)] or list(sessions)


def pool(sessions: Sequence[HandshakeFlow]) -> HandshakeFlow:
    """Return one flow with the handshakes of all sessions."""
    return replace(sessions[0], samples=tuple(sample for flow in sessions for sample in flow.comparable))


def compare(
    point: CampaignPoint, sessions: Sequence[HandshakeFlow], *, replications: int = REPLICATIONS
) -> dict[str, ComparisonRow]:
    """Compare each quantity of a point with its prediction from the sessions of the reference."""
    rng = np.random.default_rng(1)
    predicted = _predict(pool(sessions), point, RUNS, 1)
    count = len(point.measured["bytes"])
    observed = {key: _measure_distances(point.measured[key], predicted[key]) for key in point.measured}
    exceeded = {key: np.zeros(2) for key in point.measured}
    for number in range(replications):
        drawn = [_resample(sessions[row], rng) for row in rng.integers(len(sessions), size=len(sessions))]
        again = _predict(pool(drawn), point, REPLICATION_RUNS, 2 * number + 2)
        # some fail, and the number that succeeds is given
        campaign = _predict(sessions[int(rng.integers(len(sessions)))], point, 2 * count + 50, 2 * number + 3)
        for key, distances in observed.items():
            exceeded[key] += _measure_distances(rng.permutation(campaign[key])[:count], again[key]) >= distances
    return {
        key: _make_row(measured, predicted[key], (exceeded[key] + 1) / (replications + 1))
        for key, measured in point.measured.items()
    }


def _predict(flow: HandshakeFlow, point: CampaignPoint, runs: int, seed: int) -> Mapping[str, Values]:
    return predict_handshake(flow, point.link, point.transmission, runs=runs, seed=seed, keep=True).samples


def _resample(flow: HandshakeFlow, rng: np.random.Generator) -> HandshakeFlow:
    rows = rng.integers(len(flow.comparable), size=len(flow.comparable))
    return replace(flow, samples=tuple(flow.comparable[row] for row in rows))


def _make_row(measured: Values, predicted: Values, p_values: Values) -> ComparisonRow:
    mean, error = measured.mean(), stats.sem(measured)
    # without spread the interval is a point
    low, high = stats.t.interval(0.95, len(measured) - 1, mean, error) if error else (mean, mean)
    mean_p, ks_p = map(float, p_values)
    return ComparisonRow(float(mean), float(low), float(high), float(predicted.mean()), mean_p, ks_p)


def _measure_distances(values: Values, predicted: Values) -> Values:
    """Return the difference of the means, and the distance of Kolmogorov and Smirnov, rounded against ties."""
    distance = stats.ks_2samp(values, predicted).statistic
    return np.round([abs(values.mean() - predicted.mean()), distance], 9)


def format_table(comparisons: Sequence[tuple[CampaignPoint, Mapping[str, ComparisonRow]]]) -> Iterator[str]:
    """Yield the lines of the table in Markdown."""
    yield "| point | n | failed | | measured mean | its 95 % interval | predicted mean | p of the mean | p of KS |\n"
    yield "|---|---:|---:|---|---:|---:|---:|---:|---:|\n"
    for point, rows in comparisons:
        for quantity in QUANTITIES:
            row = rows[quantity.key]
            mean, low, high, predicted = (
                quantity.form.format(value) for value in (row.mean, row.low, row.high, row.predicted)
            )
            count = len(point.measured[quantity.key])
            yield (
                f"| {point.name} | {count} | {point.failures} | {quantity.title} | {mean} | {low} to {high} "
                f"| **{predicted}** | {row.mean_p:.2f} | {row.ks_p:.2f} |\n"
            )
    every = [p for _, rows in comparisons for row in rows.values() for p in (row.mean_p, row.ks_p)]
    low_ones = sum(p < 0.05 for p in every)
    yield f"\n{low_ones} of {len(every)} p values are below 0.05; chance alone gives {0.05 * len(every):.1f}.\n"


def main() -> None:
    """Read the recordings and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n\n")[2], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reference", type=Path, help="folder of recordings without delay and loss, or one of them")
    parser.add_argument("folders", type=Path, nargs="+", help="folders with recordings of campaigns")
    parser.add_argument("--update", action="store_true", help="write the table into docs/predict.md")
    arguments = parser.parse_args()
    sessions = read_sessions(arguments.reference)
    reference = arguments.reference.resolve()
    captures = [path for path in find_captures(arguments.folders) if not path.resolve().is_relative_to(reference)]
    points = [read_point(path) for path in captures]
    points.sort(key=lambda point: (point.link.rtt_ms, -(point.transmission.fragment_size or 0), point.link.loss))
    table = "".join(format_table([(point, compare(point, select_sessions(sessions, point.link))) for point in points]))
    print(table, end="")
    if arguments.update:
        replace_section(DOCUMENT, "campaigns", table)


if __name__ == "__main__":
    main()
