"""What a comparison says: groups of handshakes, and each metric of each group.

Groups and metrics are in order; `MetricComparison.groups` stands beside `Comparison.groups`, one for one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ikeanalyze.dataset.compare.columns import RowCondition, Value

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number of a sample, and between which bounds that of the population is, in the unit of the metric."""

    value: float
    #: None: the sample does not bound it (one value, equal values, too few for a p99).
    low: float | None = None
    high: float | None = None
    #: "BCa bootstrap", "percentile bootstrap" or "order statistics"; None: no bounds.
    method: str | None = None
    #: That were taken of the samples; None: no bootstrap. Of large samples fewer than were asked for.
    resamples: int | None = None


@dataclass(frozen=True, slots=True)
class RankTest:
    """Whether two samples differ: Mann-Whitney U, two-sided."""

    u: float  # of the first sample
    p: float
    method: str  # how p was found: "exact", "permutation" (small samples with equal values) or "asymptotic"


@dataclass(frozen=True, slots=True)
class ComparisonGroup:
    """Handshakes that have the same labels."""

    values: tuple[Value, ...]  # of the columns that are grouped by; None: the handshakes have none
    baseline: int | None  # index of the group that it is compared with; None: it is a baseline, or has none
    captures: int  # that the handshakes are from
    handshakes: int
    outcomes: Mapping[str, int]  # handshakes by outcome, all outcomes; they add up to `handshakes`

    @property
    def failures(self) -> int:
        """Handshakes that failed or were not answered; what the capture cuts is neither."""
        return self.outcomes["failed"] + self.outcomes["unanswered"]


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """A group against its baseline."""

    ratio: Estimate | None  # of the means; None: the baseline's mean is 0
    test: RankTest
    p_corrected: float  # p of the test, corrected for all groups that the metric is compared of
    differs: bool  # by more than noise: p_corrected is less than 1 - confidence


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """A metric of one group; all in the unit of the metric, None where the group counts no handshake."""

    counted: int  # handshakes in the sample
    left_out: Mapping[str, int]  # the group's other handshakes by outcome, and as "not known"
    mean: Estimate | None
    median: Estimate | None
    p95: Estimate | None
    p99: Estimate | None
    deviation: float | None  # standard deviation (n - 1)
    least: float | None
    greatest: float | None
    against: GroupDifference | None  # None: the group has no baseline, or one of both counts no handshake
    sample: Values = field(repr=False, compare=False)  # ascending; for densities and distributions


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric of all groups."""

    name: str  # as in `metrics`
    unit: str | None  # "ms", "bytes", "messages", "frames"; None: a plain number
    groups: tuple[MetricSummary, ...]  # beside `Comparison.groups`


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result."""

    source: str  # the dataset as it was given
    by: tuple[str, ...]  # columns that are grouped by
    baseline: Value  # value of the first of them that the others are compared with
    where: tuple[RowCondition, ...]  # what handshakes were narrowed down to
    outcomes: tuple[str, ...]  # of the handshakes that metrics count
    confidence: float  # of the intervals, 0 to 1
    resamples: int  # of a bootstrap, as asked for; each `Estimate` says how many there were
    groups: tuple[ComparisonGroup, ...]  # numbers by size, text in its natural order, what is unknown last
    metrics: tuple[MetricComparison, ...]  # in the order in which they were named
    unread: int  # captures of the dataset that could not be read: their handshakes are in no group
    complete: bool  # False: the batch that makes the dataset has not finished
    rekeyed: int  # IKE SAs that replaced others: they have no set-up of their own, and are in no group
