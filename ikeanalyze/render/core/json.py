"""Indented JSON in which objects and lists without nested ones stay on one line of at most 120 characters."""

import re
from json import JSONEncoder
from typing import Any, Final

from ikeanalyze.render.core.values import escape_surrogates

_WIDTH: Final = 120
_NON_ASCII: Final = re.compile(r"[^\x00-\x7e]+")

#: How a lone surrogate looks in JSON; a pair and a backslash before "ud" do as well.
_SURROGATE: Final = "\\ud"

_encode: Final = JSONEncoder(allow_nan=False).encode


def encode_json(value: Any) -> str:
    r"""Return `value` as JSON on one line, in ASCII.

    Bytes of a path that are not UTF-8 (PEP 383) are lone surrogates in Python, which many parsers of JSON refuse (RFC
    8259, section 8.2). They are written as in tables, `\xff`.
    """
    text = _encode(value)
    return text if _SURROGATE not in text else _encode(_escape_surrogates(value))


def _escape_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, dict):
        return {_escape_surrogates(key): _escape_surrogates(item) for key, item in value.items()}
    return [_escape_surrogates(item) for item in value] if isinstance(value, list | tuple) else value


def escape_non_ascii(text: str) -> str:
    """Return JSON text with the characters beyond ASCII as escapes, as `encode_json` writes them.

    Some of these characters change how a terminal or editor shows the text around them.
    """
    return text if text.isascii() else _NON_ASCII.sub(lambda match: encode_json(match[0])[1:-1], text)


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
