"""Indented JSON in which objects and lists without nested ones stay on one line of at most 120 characters."""

from json import JSONEncoder
from typing import Any, Final

_WIDTH: Final = 120

encode_json: Final = JSONEncoder(allow_nan=False).encode


def select_attributes(value: object, *names: str) -> dict[str, Any]:
    """Return the named attributes of `value` as a JSON object, in this order."""
    return {name: getattr(value, name) for name in names}


def format_json(value: Any, depth: int = 0) -> str:
    """Return `value` as JSON, indented by 2. All lines but the first are indented by `depth` more spaces."""
    if not isinstance(value, dict | list):
        return encode_json(value)
    if not any(isinstance(v, dict | list) for v in (value.values() if isinstance(value, dict) else value)):
        line = encode_json(value)
        if len(line) + depth <= _WIDTH or not value:
            return line
    if isinstance(value, dict):
        opening, closing = "{}"
        items = [f"{encode_json(k)}: {format_json(v, depth + 2)}" for k, v in value.items()]
    else:
        opening, closing = "[]"
        items = [format_json(v, depth + 2) for v in value]
    inner = "\n" + " " * (depth + 2)
    return f"{opening}{inner}{f',{inner}'.join(items)}\n{' ' * depth}{closing}"
