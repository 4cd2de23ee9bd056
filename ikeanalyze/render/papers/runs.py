"""Two runs of a report, as text."""

from collections import Counter
from collections.abc import Sequence

from ikeanalyze.papers.runs import Agreement, ComparedQuantity
from ikeanalyze.render.papers.text import format_measurement


def format_compared_runs(name: str, compared: Sequence[ComparedQuantity]) -> str:
    """Return a line with the number of values by agreement, and one for each value that differs or is missing."""
    counts = Counter(each.agreement for each in compared)
    numbers = ", ".join(f"{counts[agreement]} {agreement}" for agreement in Agreement if counts[agreement])
    lines = [f"{name}: {numbers or 'no values'}"]
    lines += [_format_difference(each) for each in compared if _is_shown(each)]
    return "\n".join(lines)


def _is_shown(each: ComparedQuantity) -> bool:
    changed = each.verdicts is not None and each.verdicts[0] is not each.verdicts[1]
    return changed or each.agreement in (Agreement.DIFFERENT, Agreement.MISSING)


def _format_difference(each: ComparedQuantity) -> str:
    unit = each.quantity.unit
    before, after = (format_measurement(value, unit) for value in each.values)
    verdicts = "" if each.verdicts is None else ", ".join(dict.fromkeys(each.verdicts))
    return f"  {each.quantity.id}: {before}; now {after}" + (f": {verdicts}" if verdicts else "")
