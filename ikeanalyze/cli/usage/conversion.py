"""Conversion of the values of the command line, for which pydantic is not loaded.

Typer converts the value of every parameter but flags by pydantic, which takes longer to load than a small capture to
read. Most values are strings, one of several strings, or absent; numbers are converted here, with errors that have the
text that was typed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, get_args, get_origin

import typer

_NUMBERS: Final = {int: "a whole number", float: "a number"}
_SCALARS: Final = (str, int, float)


class _LateConversion:
    """The conversion of one parameter: Typer's, if the value needs one."""

    def __init__(self, load: Callable[[], Any]) -> None:
        """`load` returns Typer's conversion."""
        self._load = load

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the converted value, as `typer._coercion.RuntimeParam.coerce` does."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        descriptor = param.type_descriptor
        if descriptor.parameter_info.parser is None:
            try:
                value = _convert_numbers(value, descriptor.annotation, descriptor.parameter_info)
            except ValueError as error:
                raise typer.BadParameter(str(error), ctx=ctx, param=param) from None
            if _has_type(value, descriptor.annotation):
                return list(value) if isinstance(value, tuple) else value
        return self._load().coerce(value, param=param, ctx=ctx)


def defer_conversion(parameters: list[Any]) -> list[Any]:
    """Let parameters of a command load pydantic for values only that have another type than the parameter.

    Does nothing with a version of Typer that does not use pydantic. Returns `parameters`.
    """
    for parameter in parameters:
        load = getattr(parameter, "get_runtime_param", None)
        if load is not None and not isinstance(load, partial):
            parameter.get_runtime_param = partial(_LateConversion, load)
    return parameters


def _convert_numbers(value: Any, annotation: Any, limits: Any) -> Any:
    """Return the numbers of a parameter of numbers, and other values as they are.

    Raises:
        ValueError: a text is not a number, or a number is not within the limits.
    """
    if get_origin(annotation) is list:
        return [_convert_numbers(item, get_args(annotation)[0], limits) for item in value]
    if annotation not in _NUMBERS:
        return value
    if isinstance(value, str):
        try:
            value = annotation(value)
        except ValueError:
            from ikeanalyze.io.suggestions import suggest_number  # for errors alone

            advice = suggest_number(value, is_percentage=limits.metavar == "PERCENT")
            raise ValueError(f"{value!r} is not {_NUMBERS[annotation]}{advice}") from None
    low, high = limits.min, limits.max
    if not (low is None or value >= low) or not (high is None or value <= high):  # NaN is within no limits
        if high is None:
            raise ValueError(f"{value} is not {low:,} or more")
        if low is None:
            raise ValueError(f"{value} is not {high:,} or less")
        raise ValueError(f"{value} is not within {low:,} to {high:,}")
    return value


def _has_type(value: Any, annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Literal:
        return isinstance(value, str) and value in get_args(annotation)
    if origin is list:
        return isinstance(value, (list, tuple)) and all(_has_type(item, get_args(annotation)[0]) for item in value)
    return annotation in _SCALARS and type(value) is annotation
