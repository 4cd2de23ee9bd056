"""Convert decoded TOML or JSON into msgspec Structs or dataclasses, and name the key that does not fit."""

from collections.abc import Iterator
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect

from ikeanalyze.io.suggestions import suggest_name

_T = TypeVar("_T")


class ConversionError(ValueError):
    """A value does not fit its type: one line with the key and what is allowed, not the value, which may be secret."""


def convert(value: Any, kind: type[_T]) -> _T:
    """Convert a decoded document, strictly: no text for a number, no boolean for an integer.

    Unknown and missing keys and numbers that are not finite are errors. A `ValueError` of a `__post_init__` is reported
    with the key of its table.

    Raises:
        ConversionError: a value does not fit; the message names its key as `table.key[index]`.
    """
    for problem in _find_problems(value, kind, ""):
        raise ConversionError(problem)
    return msgspec.convert(value, kind)


def describe_allowed(kind: Any) -> str:
    """The allowed values of a type, such as "an integer from 1 to 50", or the description in its `Meta`."""
    if get_origin(kind) is Literal:  # in the order of the source; msgspec sorts the values
        return f"one of {', '.join(map(str, get_args(kind)))}"
    return _describe(inspect.type_info(kind))


def _find_problems(value: Any, kind: Any, key: str) -> Iterator[str]:
    """The errors of a value, in the order of the document, those of an item before those of its table."""
    inner = _get_inner_type(value, kind)
    arguments = get_args(inner)
    if isinstance(value, dict) and get_origin(inner) is dict:
        for name, item in value.items():
            yield from _find_problems(item, arguments[1], _join_key(key, name))
    elif isinstance(value, dict):
        yield from _find_struct_problems(value, inner, key)
    elif isinstance(value, list) and get_origin(inner) in (list, tuple):
        # tuple[A, B] has a type for each item; list[A] and tuple[A, ...] have one for all of them
        one_each = get_origin(inner) is tuple and arguments[-1] is not ...
        for index, item in enumerate(value[: len(arguments)] if one_each else value):
            yield from _find_problems(item, arguments[index if one_each else 0], f"{key}[{index}]")
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if error.__cause__ is not None:  # the error of a __post_init__
            yield f"{key}: {error.__cause__}" if key else str(error.__cause__)
        else:
            yield f"{key or 'the document'} must be {describe_allowed(kind)}"
    else:
        if isinstance(value, float) and not isfinite(value):
            yield f"{key} must be {describe_allowed(kind)}"


def _find_struct_problems(table: dict[str, Any], kind: Any, key: str) -> Iterator[str]:
    info = inspect.type_info(kind)
    if not isinstance(info, inspect.StructType | inspect.DataclassType):
        return
    types = get_type_hints(info.cls, include_extras=True)
    fields = {field.encode_name: field for field in info.fields}
    tag = info.tag_field if isinstance(info, inspect.StructType) else None
    for name, value in table.items():
        if field := fields.get(name):
            yield from _find_problems(value, types[field.name], _join_key(key, name))
        elif name != tag:
            hint = suggest_name(name, fields, prefix=_join_key(key, ""))
            yield f"unknown key {_join_key(key, name)}; {hint}allowed are {', '.join(fields)}"
    for name, field in fields.items():
        if field.required and name not in table:
            yield f"{_join_key(key, name)} is missing"


def _get_inner_type(value: Any, kind: Any) -> Any:
    """The type without annotations; a union becomes its member for tables or lists, or the Struct with the tag."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) not in (Union, UnionType):
        return kind
    for member in get_args(kind):
        inner = _get_inner_type(value, member)
        if isinstance(value, list) and get_origin(inner) in (list, tuple):
            return inner
        if isinstance(value, dict) and inner is not NoneType:
            info = inspect.type_info(inner)
            if isinstance(info, inspect.StructType) and info.tag_field and value.get(info.tag_field) != info.tag:
                continue
            if isinstance(info, inspect.StructType | inspect.DataclassType | inspect.DictType):
                return inner
    return kind


def _join_key(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _describe(info: inspect.Type) -> str:
    match info:
        case inspect.Metadata(type=inner, extra_json_schema=schema):
            return str((schema or {}).get("description") or _describe(inner))
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "an integer" + _describe_range(info)
        case inspect.FloatType():
            return "a number" + _describe_range(info)
        case inspect.StrType(min_length=least, max_length=most):
            return "text" + (
                f" of {least or 0:,} to {most:,} characters" if most else " that is not empty" if least else ""
            )
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.EnumType(cls=enum):
            return f"one of {', '.join(str(member.value) for member in enum)}"
        case inspect.ListType(item_type=item, min_length=least, max_length=most):
            size = f"{least or 0:,} to {most:,} items" if most else "items" if not least else f"{least:,} or more items"
            return f"a list of {size}, each {_describe(item)}"
        case inspect.VarTupleType(item_type=item):
            return f"a list of items, each {_describe(item)}"
        case inspect.TupleType(item_types=items):
            return f"a list of {', '.join(map(_describe, items))}"
        case inspect.UnionType(types=members):
            tags = [f"{of.tag_field} = {of.tag!r}" for of in members if isinstance(of, inspect.StructType) and of.tag]
            if tags:
                return f"a table with one of {', '.join(tags)}"
            return " or ".join(_describe(member) for member in members if not isinstance(member, inspect.NoneType))
        case inspect.StructType() | inspect.DataclassType() | inspect.DictType():
            return "a table"
    return "a value of another kind"


def _describe_range(info: inspect.IntType | inspect.FloatType) -> str:
    least, most = info.ge, info.le
    if least is not None and most is not None:
        return f" from {least:,.10g} to {most:,.10g}"
    limits = (
        (" of at least {:,.10g}", least),
        (" above {:,.10g}", info.gt),
        (" of at most {:,.10g}", most),
        (" below {:,.10g}", info.lt),
    )
    return " and".join(text.format(limit) for text, limit in limits if limit is not None)
