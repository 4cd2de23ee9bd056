"""Parses lists and ranges of values, and expands them to links with all combinations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import floor, isfinite, prod
from typing import Any, Final

from ikeanalyze.io.suggestions import suggest_number
from ikeanalyze.model.prediction.link import LinkModel

_MAX_VALUES: Final = 1_000
_MAX_LINKS: Final = 5_000


class ParameterGridError(ValueError):
    """A list of values is invalid."""


def parse_value_list(text: str) -> tuple[float, ...]:
    """Parse `10,50,600`, or `0:0.3:0.02` (from, to inclusive, step), or both: `0,0.1:0.3:0.1`.

    Raises:
        ParameterGridError: the list is invalid or has too many values.
    """
    values: list[float] = []
    for part in text.split(","):
        bounds = [_parse_number(piece, part) for piece in part.split(":")]
        if len(bounds) == 1:
            values.append(bounds[0])
        elif len(bounds) == 3:
            values += _expand_range(bounds, part)
        else:
            raise ParameterGridError(f"{part!r} is not a range from:to:step, such as 0:0.3:0.02")
        if len(values) > _MAX_VALUES:
            raise ParameterGridError(f"{text!r} has more than {_MAX_VALUES:,} values")
    return tuple(dict.fromkeys(values))


def _expand_range(bounds: Sequence[float], part: str) -> list[float]:
    low, high, step = bounds
    if step <= 0 or high < low:
        raise ParameterGridError(f"{part!r} is not a range from:to:step with a positive step")
    # rounding errors of the step must not exclude the end
    count = floor((high - low) / step * (1 + 1e-12) + 1e-9) + 1
    if count > _MAX_VALUES:
        raise ParameterGridError(f"{part!r} has more than {_MAX_VALUES:,} values; take a larger step")
    return [float(f"{low + i * step:.12g}") for i in range(count)]


def _parse_number(piece: str, part: str) -> float:
    try:
        value = float(piece)
    except ValueError:
        problem = f"{part!r} is neither a number nor a range from:to:step{suggest_number(piece)}"
        raise ParameterGridError(problem) from None
    if not isfinite(value):
        raise ParameterGridError(f"{part!r} is not a number")
    return value


def expand_links(base: LinkModel, values: Mapping[str, Sequence[Any]]) -> list[LinkModel]:
    """Return `base` with each combination of `values`, lists for fields of `LinkModel`; the last field changes fastest.

    Raises:
        ParameterGridError: too many links.
    """
    count = prod(map(len, values.values()))
    if count > _MAX_LINKS:
        raise ParameterGridError(f"these lists make {count:,} links; the limit is {_MAX_LINKS:,}")
    return [replace(base, **dict(zip(values, combination, strict=True))) for combination in product(*values.values())]
