"""A comparison by hand: two configurations at two rates of loss, and a group without label."""

import numpy as np

from ikeanalyze.dataset.compare.columns import RowCondition
from ikeanalyze.dataset.compare.result import (
    Comparison,
    ComparisonGroup,
    Estimate,
    GroupDifference,
    MetricComparison,
    MetricSummary,
    RankTest,
)

BCA, ORDER = "BCa bootstrap", "order statistics"


def group(values, baseline, handshakes, **outcomes):
    counts = dict.fromkeys(("established", "completed", "failed", "unanswered", "half-open", "cut"), 0)
    return ComparisonGroup(values, baseline, 1, handshakes, {**counts, **outcomes})


def measured(mean, left_out=None, against=None, bounded=True):
    low, high = (0.9 * mean, 1.1 * mean) if bounded else (None, None)
    return MetricSummary(
        counted=10,
        left_out=left_out or {},
        mean=Estimate(mean, low, high, *(BCA, 2000) if bounded else ()),
        median=Estimate(mean - 1, low, high, ORDER if bounded else None),
        p95=Estimate(2 * mean, low, None, ORDER if bounded else None),
        p99=Estimate(3 * mean),
        deviation=mean / 4,
        sum=10 * mean,
        least=1.0,
        greatest=4 * mean,
        against=against,
        sample=np.array([1.0, mean, 4 * mean]),
    )


def difference(ratio, p, differs):
    return GroupDifference(
        Estimate(ratio, ratio - 0.2, ratio + 0.2, BCA, 2000), RankTest(12.0, p / 2, "exact"), p, differs
    )


NOTHING = MetricSummary(0, {"failed": 2}, None, None, None, None, None, None, None, None, None, np.array([]))


def comparison(**changes):
    groups = (
        group(("classic", 5.0), None, 10, completed=10),
        group(("classic", 20.0), None, 12, established=4, completed=6, failed=2),
        group(("pq | <b>\x1b[31m", 5.0), 0, 10, completed=10),
        group(("pq | <b>\x1b[31m", 20.0), 1, 11, completed=10, unanswered=1),
        group((None, None), None, 2, failed=2),
    )
    setup = MetricComparison(
        "setup_ms",
        "ms",
        (
            measured(6.1234),
            measured(300.4, {"failed": 2}),
            measured(12.5, against=difference(2.041, 0.0000321, True)),
            measured(1234.5, {"unanswered": 1}, difference(4.1, 0.21, False)),
            NOTHING,
        ),
    )
    bytes_ = MetricComparison(
        "bytes",
        "bytes",
        (
            measured(1079.0, bounded=False),
            measured(2000.25),
            measured(123456.0, against=difference(114.4, 0.0042, True)),
            measured(3000.5, {"not known": 3}, GroupDifference(None, RankTest(1.0, 0.5, "asymptotic"), 0.5, False)),
            NOTHING,
        ),
    )
    values = {
        "source": "runs",
        "by": ("config", "loss"),
        "baseline": "classic",
        "where": (RowCondition("run", "1"),),
        "outcomes": ("established", "completed"),
        "confidence": 0.95,
        "resamples": 2000,
        "groups": groups,
        "metrics": (setup, bytes_),
        "unread": 1,
        "complete": False,
        "rekeyed": 2,
        "warm_up": 5,
        **changes,
    }
    return Comparison(**values)
