"""Command line values that need no conversion, for which pydantic is not loaded.

Typer converts the value of every parameter but flags by pydantic, which takes longer to load than a small capture to
read. Most values are strings, one of several strings, or absent.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, get_args, get_origin

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
        if descriptor.parameter_info.parser is None and _has_type(value, descriptor.annotation):
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


def _has_type(value: Any, annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Literal:
        return isinstance(value, str) and value in get_args(annotation)
    if origin is list:
        return isinstance(value, (list, tuple)) and all(_has_type(item, get_args(annotation)[0]) for item in value)
    return annotation in _SCALARS and type(value) is annotation
