"""The result of a comparison: groups of handshakes, and the metrics of each group.

`MetricComparison.groups` has the same order as `Comparison.groups`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.tables.layouts import FAILURES
from ikeanalyze.dataset.compare.columns import RowCondition, Value

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate with its confidence interval, in the unit of the metric."""

    value: float
    #: None: not estimable from the sample (one value, equal values, too few for a p99).
    low: float | None = None
    high: float | None = None
    #: "BCa bootstrap", "percentile bootstrap" or "order statistics"; None: no bounds.
    method: str | None = None
    #: Number of resamples; None: no bootstrap. Large samples have fewer than requested.
    resamples: int | None = None


@dataclass(frozen=True, slots=True)
class RankTest:
    """The result of a two-sided Mann-Whitney U test."""

    u: float  # of the first sample
    p: float
    method: str  # of computing p: "exact", "permutation" (small samples with equal values) or "asymptotic"


@dataclass(frozen=True, slots=True)
class ComparisonGroup:
    """Handshakes with equal values of the grouping columns."""

    values: tuple[Value, ...]  # of the grouping columns; None: unknown
    baseline: int | None  # index of its baseline group; None: it is a baseline, or has none
    captures: int  # number of captures with these handshakes
    handshakes: int
    outcomes: Mapping[str, int]  # handshakes by outcome, with all outcomes; the sum is `handshakes`

    @property
    def failures(self) -> int:
        """Handshakes that failed, were unanswered or stayed half-open, without truncated ones."""
        return sum(self.outcomes[outcome] for outcome in FAILURES)


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """The difference between a group and its baseline."""

    ratio: Estimate | None  # of the means; None: the baseline's mean is 0
    test: RankTest
    p_corrected: float  # p of the test, corrected for the number of compared groups
    differs: bool  # significantly: p_corrected is less than 1 - confidence


@dataclass(frozen=True, slots=True)
class MeanPrediction:
    """A prediction of the handshakes of a group, in the unit of the metric."""

    file: str  # path, as given
    capture: str  # from which it was made, as in the file
    handshake: int
    runs: int  # simulated handshakes
    rtt_ms: float
    loss: float  # share of the frames
    transport: str  # "udp" or "tcp"
    policy: str  # name of the retransmission policy
    mean: Estimate  # its bounds: of the mean of as many handshakes as the group counts; without bounds if none
    deviation: float
    median: float
    p95: float
    p99: float
    ratio: Estimate | None  # measured mean / predicted mean; None: one of them is missing or 0
    within: bool | None  # the measured mean is within the bounds of `mean`; None: nothing is measured


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """A metric of one group, in the unit of the metric; None if the sample is empty."""

    counted: int  # handshakes in the sample
    left_out: Mapping[str, int]  # the group's other handshakes by outcome, and as "not known"
    mean: Estimate | None
    median: Estimate | None
    p95: Estimate | None
    p99: Estimate | None
    deviation: float | None  # standard deviation (n - 1)
    sum: float | None  # of the sample
    least: float | None
    greatest: float | None
    against: GroupDifference | None  # None: the group has no baseline, or a sample is empty
    sample: Values = field(repr=False, compare=False)  # ascending; for densities and distributions
    predicted: tuple[MeanPrediction, ...] = ()  # in the order of the files


@dataclass(frozen=True, slots=True)
class LineFit:
    """A line of least squares, `intercept + slope * x`, through the values of two quantities of the same handshakes."""

    counted: int  # handshakes of which both values are known
    slope: Estimate  # unit of y by unit of x; without bounds if only two handshakes are counted
    intercept: Estimate  # unit of y
    r_squared: float | None  # coefficient of determination; None: all y are equal
    deviation: float | None  # standard deviation of y from the line (n - 2); None: two handshakes
    t: float | None  # quantile of Student's t for the bounds; None: two handshakes
    x_mean: float
    x_deviation: float  # standard deviation (n - 1)
    x_least: float
    x_greatest: float


@dataclass(frozen=True, slots=True)
class BandPoint:
    """The mean of y that a line predicts for x, with its confidence interval."""

    x: float
    mean: float
    low: float | None  # None: not estimable
    high: float | None


@dataclass(frozen=True, slots=True)
class MetricRegression:
    """A metric against another quantity; None: fewer than two different values of it."""

    against: str  # name of the quantity, as of a metric
    unit: str | None  # of this quantity
    overall: LineFit | None  # handshakes of all groups
    groups: tuple[LineFit | None, ...]  # in the order of `Comparison.groups`
    #: x and y of each group's handshakes of which both are known, in no particular order.
    samples: tuple[tuple[Values, Values], ...] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric of all groups."""

    name: str  # as in `metrics`
    unit: str | None  # "ms", "bytes", "messages", "frames"; None: a plain number
    groups: tuple[MetricSummary, ...]  # in the order of `Comparison.groups`
    regression: MetricRegression | None = None  # None: not requested


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison."""

    source: str  # path of the dataset, as given
    by: tuple[str, ...]  # grouping columns
    baseline: Value  # value of the first grouping column in the baseline groups
    where: tuple[RowCondition, ...]  # conditions on the handshakes
    outcomes: tuple[str, ...]  # of the handshakes that metrics count
    confidence: float  # of the intervals, 0 to 1
    resamples: int  # requested number of bootstrap resamples; `Estimate.resamples` is the actual number
    groups: tuple[ComparisonGroup, ...]  # numbers by size, text in natural order, unknown values last
    metrics: tuple[MetricComparison, ...]  # in the requested order
    unread: int  # captures of the dataset that could not be read: their handshakes are in no group
    complete: bool  # False: the batch that makes the dataset has not finished
    rekeyed: int  # IKE SAs created by rekeying: they have no set-up and are in no group
    warm_up: int = 0  # handshakes left out because the lab made them before those that count
    remarks: tuple[str, ...] = ()  # sentences about predictions without group or metric, and about copies
