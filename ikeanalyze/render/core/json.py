"""JSON: one document of schema "ikeanalyze.report/1", written piece by piece.

Objects and lists are indented by two spaces; those that hold nothing but values stand on one line. Of a report with
many handshakes each handshake is a line.
"""

from collections.abc import Iterable
from json import JSONEncoder
from typing import Any, Final, TextIO

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.report import document

_WIDTH: Final = 120
_MOST_INDENTED: Final = 100  # handshakes; to indent one takes ten times as long as to write it

_encode = JSONEncoder(allow_nan=False).encode


def write_report(analysis: Analysis, out: TextIO) -> None:
    """Write the whole report."""
    out.write(f'{{\n  "schema": {_encode(document.SCHEMA)},\n  "captures": ')
    _write_list(out, (document.build_capture(summary) for summary in analysis.captures))
    out.write(',\n  "handshakes": ')
    if analysis.handshakes.height <= _MOST_INDENTED:
        _write_list(out, document.build_handshakes(analysis))
    else:
        _write_texts(out, document.iterate_handshake_json(analysis))
    out.write(f',\n  "totals": {format_json(document.compute_totals(analysis), 2)},\n  "warnings": ')
    _write_list(out, document.build_warnings(analysis))
    out.write(',\n  "skipped": ')
    _write_list(out, document.build_skipped(analysis))
    out.write("\n}\n")


def format_json(value: Any, depth: int = 0) -> str:
    """`value` as JSON whose first line is indented already, the others by `depth` spaces and more."""
    if isinstance(value, dict):
        if not any(isinstance(v, dict | list) for v in value.values()):
            return _leaf(value, depth)
        inner = "\n" + " " * (depth + 2)
        body = f",{inner}".join(f"{_encode(k)}: {format_json(v, depth + 2)}" for k, v in value.items())
        return f"{{{inner}{body}\n{' ' * depth}}}"
    if isinstance(value, list):
        if not any(isinstance(v, dict | list) for v in value):
            return _leaf(value, depth)
        inner = "\n" + " " * (depth + 2)
        body = f",{inner}".join(format_json(v, depth + 2) for v in value)
        return f"[{inner}{body}\n{' ' * depth}]"
    return _encode(value)


def _leaf(value: Any, depth: int) -> str:
    line = _encode(value)
    if len(line) + depth <= _WIDTH or not value:
        return line
    inner = "\n" + " " * (depth + 2)
    if isinstance(value, dict):
        items = [f"{_encode(k)}: {_encode(v)}" for k, v in value.items()]
    else:
        items = [_encode(v) for v in value]
    return f"{line[0]}{inner}{f',{inner}'.join(items)}\n{' ' * depth}{line[-1]}"


def _write_list(out: TextIO, items: Iterable[Any]) -> None:
    _write_texts(out, (format_json(item, 4) for item in items))


def _write_texts(out: TextIO, texts: Iterable[str]) -> None:
    opening = "["
    for text in texts:
        out.write(f"{opening}\n    {text}")
        opening = ","
    out.write("[]" if opening == "[" else "\n  ]")
