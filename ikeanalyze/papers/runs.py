"""Compares two runs of the same report: whether their values agree within their intervals."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ikeanalyze.dataset.compare.result import Estimate
from ikeanalyze.papers.claims import Claim, Quantity, Verdict
from ikeanalyze.papers.queries import Measurement
from ikeanalyze.papers.report import EvaluatedReport
from ikeanalyze.papers.verdicts import can_differ_by_chance, judge


class Agreement(StrEnum):
    """How the values of two runs compare."""

    EQUAL = "equal"
    CONSISTENT = "consistent"  # the 95 % interval of their difference contains 0
    DIFFERENT = "different"
    MISSING = "missing"  # one of the runs has no value


@dataclass(frozen=True, slots=True)
class ComparedQuantity:
    """A claim or another quantity in two runs."""

    quantity: Quantity
    values: tuple[Measurement | None, Measurement | None]
    verdicts: tuple[Verdict, Verdict] | None  # None: it is not a claim

    @property
    def has_changed_verdict(self) -> bool:
        """Whether the verdicts differ by more than chance."""
        if self.verdicts is None or not isinstance(self.quantity, Claim):
            return False
        return not can_differ_by_chance(self.quantity, *self.verdicts)

    @property
    def agreement(self) -> Agreement:
        """How the values compare."""
        first, second = self.values
        if first is None or second is None:
            return Agreement.MISSING
        return _compare_estimates(first.estimate, second.estimate)


def compare_runs(first: EvaluatedReport, second: EvaluatedReport) -> Iterator[ComparedQuantity]:
    """Compare claims and quantities by id, in the order of the second report; those without any value are left out.

    Both are judged by the claims of the second report.
    """
    for quantity in second.file.all_quantities:
        values = (first.quantities.get(quantity.id), second.quantities[quantity.id])
        if any(values):
            verdicts = None
            if isinstance(quantity, Claim):
                verdicts = (_judge(quantity, values[0]), _judge(quantity, values[1]))
            yield ComparedQuantity(quantity, values, verdicts)


def _judge(claim: Claim, ours: Measurement | None) -> Verdict:
    return judge(claim, ours.estimate if ours else None).verdict


def _compare_estimates(first: Estimate, second: Estimate) -> Agreement:
    difference = abs(first.value - second.value)
    if math.isclose(first.value, second.value, rel_tol=1e-9):
        return Agreement.EQUAL
    # half of the interval of a difference of two independent values
    half = math.hypot(_half_width(first), _half_width(second))
    return Agreement.CONSISTENT if difference <= half else Agreement.DIFFERENT


def _half_width(estimate: Estimate) -> float:
    if estimate.low is None or estimate.high is None:
        return 0.0
    return (estimate.high - estimate.low) / 2
