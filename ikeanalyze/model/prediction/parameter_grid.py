"""Parses ranges and lists of a command line, and expands them to links with all combinations of values."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import floor, isfinite
from typing import Any, Final

from ikeanalyze.model.prediction.link import LinkModel

#: Values of one list, and links of one sweep.
MOST_VALUES: Final = 1_000
MOST_LINKS: Final = 5_000


class ParameterGridError(ValueError):
    """A list of values that cannot be read; the text says what is wrong."""


def parse_value_list(text: str) -> tuple[float, ...]:
    """`10,50,600`, or `0:0.3:0.02` (from, to and with it, step), or both: `0,0.1:0.3:0.1`.

    Raises:
        SweepError: it is neither, or has too many values.
    """
    values: list[float] = []
    for part in text.split(","):
        bounds = [_number(piece, part) for piece in part.split(":")]
        if len(bounds) == 1:
            values.append(bounds[0])
        elif len(bounds) == 3:
            values += _range(bounds, part)
        else:
            raise ParameterGridError(f"{part!r} is no range; one looks like 0:0.3:0.02 (from:to:step)")
        if len(values) > MOST_VALUES:
            raise ParameterGridError(f"{text!r} has more than {MOST_VALUES:,} values")
    return tuple(dict.fromkeys(values))


def _range(bounds: Sequence[float], part: str) -> list[float]:
    low, high, step = bounds
    if step <= 0 or high < low:
        raise ParameterGridError(f"{part!r} is no range: it goes from:to:step, upwards")
    # a step of 0.1 that is not quite 0.1 must reach its end all the same
    count = floor((high - low) / step * (1 + 1e-12) + 1e-9) + 1
    if count > MOST_VALUES:
        raise ParameterGridError(f"{part!r} has more than {MOST_VALUES:,} values")
    return [float(f"{low + i * step:.12g}") for i in range(count)]


def _number(piece: str, part: str) -> float:
    try:
        value = float(piece)
    except ValueError:
        raise ParameterGridError(f"{part!r} is no number, and no range from:to:step") from None
    if not isfinite(value):
        raise ParameterGridError(f"{part!r} is no number")
    return value


def expand_links(base: LinkModel, values: Mapping[str, Sequence[Any]]) -> list[LinkModel]:
    """`base` with each combination of `values`, which are lists for fields of `LinkModel`; the last one changes fastest.

    Raises:
        SweepError: there are too many.
    """
    count = 1
    for some in values.values():
        count *= len(some)
    if count > MOST_LINKS:
        raise ParameterGridError(f"these lists make {count:,} links together; allowed are {MOST_LINKS:,}")
    return [replace(base, **dict(zip(values, combination, strict=True))) for combination in product(*values.values())]
